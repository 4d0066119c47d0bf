"""`run`: a study from Python, from the plan to the report."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from floatlens.core.errors import FloatlensError
from floatlens.core.validation import validate
from floatlens.runs.folder import RunFolder
from floatlens.runs.manifest import manifest_of
from floatlens.runs.opened import Run, open_run
from floatlens.runs.study import Machine, Output
from floatlens.runs.study_file import Source, StudyLike, read_study

if TYPE_CHECKING:
    from floatlens.records.record import Record
    from floatlens.runs.plan import Plan

__all__ = ["folder_of", "opened_folder", "run", "with_options"]


def run(
    study: StudyLike,
    out: str | Path | None = None,
    *,
    workers: int | None = None,
    executor: Literal["local", "ray"] | None = None,
    address: str | None = None,
    progress: bool = True,
    force: bool = False,
    each: Callable[[Record], Any] = lambda record: None,
) -> Run:
    """Do what is not done of a study, write tables, figures and the report, and return the run.

    `study` is a `Study`, a mapping of the same form or the path of a YAML file; `out` the folder (default: runs/NAME).
    Without `workers` everything is done in this process; with more, a script needs the usual
    `if __name__ == "__main__":`. `progress` goes to stderr. Items that fail are on record: see `Run.failed`. `each` is
    called with every new record. Tables, figures and the report are made anew where something has changed, or with
    `force`.

    Example: `run({"models": ["scale:llada"], "data": [{"ref": "scale:rag", "limit": 4}]}).report`
    """
    from floatlens.runs.counts import count
    from floatlens.runs.engine import run_plan
    from floatlens.runs.plan import make_plan
    from floatlens.runs.progress import Progress
    from floatlens.runs.publish import publish_study
    from floatlens.runs.stop import Stop
    from floatlens.runs.team import team_for

    source = with_options(read_study(study), machine={"workers": workers, "executor": executor, "address": address})
    told = Progress(show=progress)
    plan = make_plan(source, told.say)
    folder = folder_of(source, out)
    with opened_folder(plan, folder, say=told.say) as held, Stop().listening() as stop:
        counts = count(plan, held)
        team = team_for(plan, counts.left, local=1)
        with told.over(f"{source.study.name}: items", counts.total, counts.done) as advance:
            for record in run_plan(plan, held, team.executor, stop):
                advance()
                each(record)
        if stop.asked:
            raise KeyboardInterrupt
        with told.over(f"{source.study.name}: traces analysed", len(list(folder.rglob("*.zarr.zip"))), 0) as advance:
            made = publish_study(
                folder,
                source.study.output,
                analyses=source.study.analyses,
                each=lambda done, total: advance(),
                force=force,
            )
        told.end(folder, made.report)
    return open_run(folder)


# -- shared with the command line ---------------------------------------------------------------------------------


def with_options(
    source: Source,
    *,
    machine: Mapping[str, Any] = MappingProxyType({}),
    output: Mapping[str, Any] = MappingProxyType({}),
) -> Source:
    """The study with options that take precedence over its own; None means not given."""
    where = source.study.machine.model_dump() | {key: value for key, value in machine.items() if value is not None}
    if where["address"] is not None and where["executor"] != "ray":
        raise FloatlensError("an address is that of a Ray cluster; give the executor ray with it")
    made = source.study.output.model_dump() | dict(output)
    study = source.study.model_copy(update={"machine": validate(Machine, where), "output": validate(Output, made)})
    return Source(study, source.base, source.origin)


def folder_of(source: Source, out: str | Path | None) -> Path:
    """The run folder: as given, else as the study says (relative to its file), else runs/NAME."""
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
) -> Iterator[RunFolder]:
    """The folder, locked for this process, with the plan in its manifest; one that contradicts the plan is refused.

    With `write` False nothing is put into it. `say` is told when versions have changed.
    """
    from floatlens.runs.machine import changed_versions, surroundings

    with RunFolder.open(folder) as held:
        manifest = {**manifest_of(plan), **surroundings(plan.source.base), "command": command}
        changed = changed_versions(held.manifest, manifest)
        if changed:
            say(f"warning: this run is continued with other versions: {changed}")
        (held.settle if write else held.check)(manifest)
        yield held
