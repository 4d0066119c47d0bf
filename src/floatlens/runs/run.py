"""`run`: a study from Python, from the plan to the report."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from floatlens.core.errors import FloatlensError
from floatlens.core.text import file_name
from floatlens.core.validation import validate
from floatlens.runs.folder import RunFolder
from floatlens.runs.manifest import changed_versions, manifest_of, surroundings
from floatlens.runs.opened import Run, open_run
from floatlens.runs.study import Machine, Output
from floatlens.runs.study_file import Source, StudyLike, read_study

if TYPE_CHECKING:
    from floatlens.records.record import Record
    from floatlens.runs.plan import Plan

__all__ = ["folder_of", "opened_folder", "run", "with_options"]

_EVERY = 10.0
"""Seconds between lines of progress."""


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
    from floatlens.runs.engine import Stop, run_plan
    from floatlens.runs.plan import make_plan
    from floatlens.runs.publish import publish_study
    from floatlens.runs.workers import team_for

    source = with_options(read_study(study), machine={"workers": workers, "executor": executor, "address": address})
    told = _Progress(show=progress)
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
        told.say(f"done: {made.report or folder}")
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
    return Path(source.path(source.study.out)) if source.study.out is not None else Path("runs") / _below(source)


def _below(source: Source) -> str:
    """The name of the study as that of a folder: as it is, or as far as it is none, with other characters."""
    name = source.study.name
    plain = name.isprintable() and not set(name) & set("/\\") and not name.startswith(".")
    return name if plain and len(name.encode()) <= _LONGEST else file_name(name, _LONGEST)


_LONGEST = 100
"""Bytes of the longest name of a folder made from the name of a study."""


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
    with RunFolder.open(folder) as held:
        manifest = {**manifest_of(plan), **surroundings(plan.source.base), "command": command}
        changed = changed_versions(held.manifest, manifest)
        if changed:
            say(f"warning: this run is continued with other versions: {changed}")
        (held.settle if write else held.check)(manifest)
        yield held


# -- progress -----------------------------------------------------------------------------------------------------


class _Progress:
    """Progress on stderr: a bar on a terminal, a line every ten seconds elsewhere, or nothing.

    Example: `with _Progress().over("items", 100, 0) as advance: advance()`
    """

    def __init__(self, *, show: bool = True) -> None:
        self._show = show

    def say(self, message: str) -> None:
        """A line, if progress is shown."""
        if self._show:
            sys.stderr.write(f"floatlens: {' '.join(message.split())}\n")
            sys.stderr.flush()

    @contextmanager
    def over(self, what: str, total: int, done: int) -> Iterator[Callable[[], None]]:
        """Calls of what is given count one more item each."""
        if not self._show or done >= total:
            yield lambda: None
        elif sys.stderr.isatty():
            with self._bar(what, total, done) as advance:
                yield advance
        else:
            yield self._lines(what, total, done)

    @contextmanager
    def _bar(self, what: str, total: int, done: int) -> Iterator[Callable[[], None]]:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        with Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=Console(stderr=True)) as bar:
            task = bar.add_task(what, total=total, completed=done)
            yield lambda: bar.advance(task)

    def _lines(self, what: str, total: int, done: int) -> Callable[[], None]:
        count, last = done, time.monotonic()
        self.say(f"{what}: {total - done} to do")

        def advance() -> None:
            nonlocal count, last
            count += 1
            if time.monotonic() - last >= _EVERY and count < total:
                last = time.monotonic()
                self.say(f"{what}: {count} of {total}")

        return advance
