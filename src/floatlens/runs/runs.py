"""`run` and `open_run`: a study from Python, and any run folder as an object to look into.

run = fl.run({"models": ["scale:llada"], "data": ["scale:rag"]})
run.tables["claims"], run.records, next(run.traces())
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from floatlens.core.errors import FloatlensError, did_you_mean
from floatlens.runs.answers import open_answers, read_manifest
from floatlens.runs.folder import RunFolder
from floatlens.runs.records import AnswerRecord, BaseRecord, Record, StudyRecord, read_records
from floatlens.runs.study_file import Source, StudyLike, read_study
from floatlens.runs.workers import Executor, Workers, small_on_cpu, suggest, threads_for

if TYPE_CHECKING:
    import pandas as pd

    from floatlens.runs.plan import Plan
    from floatlens.traces import Trace

__all__ = ["Run", "Tables", "Team", "folder_of", "open_run", "opened_folder", "run", "team_for", "with_options"]


class Run:
    """A run folder to look into; nothing is written, and nothing is read before it is asked for.

    Example: `open_run("runs/demo").tables["gains"]`
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.manifest = read_manifest(path)

    @property
    def records(self) -> list[BaseRecord]:
        """Every record, in the order in which items were done."""
        kinds: tuple[type[BaseRecord], ...] = (Record, AnswerRecord, StudyRecord)
        kind = next((one for one in kinds if self.manifest.get("kind") in one.runs), None)
        if kind is None:
            raise FloatlensError(f"{self.path}: a run of a kind that is not known, {self.manifest.get('kind')!r}")
        return list(read_records(self.path / "records.jsonl", kind))

    @property
    def failed(self) -> list[BaseRecord]:
        """Records of items that could not be done; running again tries them again."""
        return [record for record in self.records if record.status == "failed"]

    @property
    def answers(self) -> pd.DataFrame:
        """One row per question that was answered: model, data, condition, prediction and scores."""
        return open_answers(self.path)[0]

    def traces(self) -> Iterator[Trace]:
        """Every trace in turn; nothing where there are none."""
        from floatlens.analysis.sources import each_trace, has_traces

        yield from each_trace(self.path) if has_traces(self.path) else ()

    @property
    def tables(self) -> Tables:
        """Tables by name, such as scores, gains, curves, effects, drift, claims."""
        return Tables(self.path / "tables")

    @property
    def claims(self) -> pd.DataFrame:
        """The verdict on every claim that the run speaks of, one row each."""
        return self.tables["claims"]

    @property
    def report(self) -> Path | None:
        """The report, where there is one."""
        path = self.path / "report.html"
        return path if path.is_file() else None

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r}: {self.manifest.get('kind')}, {len(self.records)} records)"


class Tables(Mapping[str, "pd.DataFrame"]):
    """The tables of a run by name, each read when it is asked for."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @cached_property
    def _names(self) -> list[str]:
        return sorted(path.stem for path in self._folder.glob("*.parquet"))

    def __getitem__(self, name: str) -> pd.DataFrame:
        import pandas as pd

        if name not in self._names:
            hint = did_you_mean(name, self._names) if self._names else "; it has none yet"
            raise KeyError(f'{self._folder}: no table "{name}"{hint}')
        return pd.read_parquet(self._folder / f"{name}.parquet")

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def open_run(path: str | Path) -> Run:
    """Look into a run folder of any command. Example: `open_run("runs/demo").claims`"""
    return Run(Path(path))


def run(
    study: StudyLike,
    out: str | Path | None = None,
    *,
    workers: int | None = None,
    executor: Literal["local", "ray"] | None = None,
    address: str | None = None,
    each: Callable[[StudyRecord], Any] = lambda record: None,
) -> Run:
    """Do what of a study is not done yet, write tables, figures and the report, and give the run.

    `study` is a `Study`, a mapping of the same form or the path of a YAML file; `out` the folder (default: runs/NAME).
    Without `workers` everything is done in this process, one item after another; with more, a script needs the usual
    `if __name__ == "__main__":`. Items that fail are on record: see `Run.failed`. `each` is told of every new record.

    Example: `run({"models": ["scale:llada"], "data": ["scale:rag"], "traces": {"questions": 2}}).report`
    """
    from floatlens.runs.counting import count
    from floatlens.runs.driving import Stop, run_plan
    from floatlens.runs.plan import make_plan
    from floatlens.runs.results import publish_study

    source = with_options(read_study(study), machine={"workers": workers, "executor": executor, "address": address})
    plan = make_plan(source)
    folder = folder_of(source, out)
    team = team_for(plan, count(plan).total, local=1)
    with opened_folder(plan, folder) as held, Stop().listening() as stop:
        for record in run_plan(plan, held, team.executor, source.study.machine.batch, stop):
            each(record)
        if stop.asked:
            raise KeyboardInterrupt
        publish_study(folder, source.study.output, analyses=source.study.analyses)
    return open_run(folder)


# -- shared with the command line ---------------------------------------------------------------------------------


def with_options(
    source: Source,
    *,
    machine: Mapping[str, Any] = MappingProxyType({}),
    output: Mapping[str, Any] = MappingProxyType({}),
) -> Source:
    """The study with options that take precedence over its own; None means not given."""
    from floatlens.core.validation import validate
    from floatlens.runs.study import Machine, Output

    where = source.study.machine.model_dump() | {key: value for key, value in machine.items() if value is not None}
    if where["address"] is not None and where["executor"] != "ray":
        raise FloatlensError("an address is that of a Ray cluster; give the executor ray with it")
    made = source.study.output.model_dump() | dict(output)
    study = source.study.model_copy(update={"machine": validate(Machine, where), "output": validate(Output, made)})
    return Source(study, source.base, source.place)


def folder_of(source: Source, out: str | Path | None) -> Path:
    """Where the run goes: what is given, else what the study says (counted from its file), else runs/NAME."""
    if out is not None:
        return Path(out)
    return Path(source.path(source.study.out)) if source.study.out is not None else Path("runs") / source.study.name


@contextmanager
def opened_folder(
    plan: Plan,
    folder: Path,
    command: str | None = None,
    *,
    write: bool = True,
    say: Callable[[str], Any] = lambda message: None,
) -> Iterator[RunFolder[StudyRecord]]:
    """The folder, held for this process, with the study in its manifest; that of another study is refused.

    With `write` False it is looked at and nothing is put into it. `say` is told when versions have changed.
    """
    from floatlens.runs.machine import changed_versions, surroundings
    from floatlens.runs.plan import FREE

    with RunFolder.open(folder, StudyRecord) as held:
        manifest = {**plan.manifest(), **surroundings(plan.source.base), "command": command}
        changed = changed_versions(held.manifest, manifest)
        if changed:
            say(f"warning: this study continues under other versions: {changed}")
        (held.settle if write else held.check)(manifest, free=(*FREE, "output"))
        yield held


@dataclass(frozen=True)
class Team:
    """Who does the work; `count` None: as many as a cluster has room for."""

    executor: Executor
    count: int | None
    threads: int
    elsewhere: bool = False


def team_for(plan: Plan, items: int, local: int | None = None) -> Team:
    """The executor that a study asks for. Small models on a CPU get a thread each, and a worker per core.

    `local` is how many workers there are on this machine where the study does not say; None: as suits the items.

    The threads of small models do not follow from the number of workers: sums differ in their last bits with them. For
    larger ones they do, unless the study says how many.
    """
    machine = plan.study.machine
    models = [subject.model for subject in plan.subjects]
    if machine.executor == "ray":
        from floatlens.runs.ray_workers import RayWorkers

        here = machine.address is None
        wanted = machine.workers or (suggest(models, items) if here else None)
        small = all(small_on_cpu(model) for model in models)
        threads = machine.threads or (1 if small else max(1, int(machine.cpus)))
        return Team(RayWorkers.of(machine, wanted, threads), wanted, threads, elsewhere=not here)
    count = machine.workers or local or suggest(models, items)
    threads = machine.threads or threads_for(models, count)
    return Team(Workers(count, threads), count, threads)
