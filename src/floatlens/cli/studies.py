"""From a study to a finished run on a terminal: the plan, a progress bar, messages, and the summary.

Every command that runs models over data comes here: `run`, `demo` and the presets.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from floatlens.cli.options import MachineOptions, OutputOptions
from floatlens.cli.terminal import Bar, console, duration, progress, say, say_skipped
from floatlens.core.errors import FloatlensError

if TYPE_CHECKING:
    from floatlens.records.record import Record
    from floatlens.runs.counts import Counts
    from floatlens.runs.folder import RunFolder
    from floatlens.runs.plan import Plan
    from floatlens.runs.publish import Findings
    from floatlens.runs.study_file import StudyLike
    from floatlens.runs.workers import Team

__all__ = ["run_study"]

_SHOWN = 3
"""Warnings and failures of a run that are shown as they come."""


def run_study(
    study: StudyLike, out: Path | None, context: typer.Context, output: OutputOptions, machine: MachineOptions
) -> int:
    """Plan, run and publish a study; gives the exit code."""
    from floatlens.runs.plan import make_plan
    from floatlens.runs.run import folder_of, opened_folder, with_options
    from floatlens.runs.study_file import read_study

    command = shlex.join(["floatlens", *context.obj])
    report = {"report": False} if output.no_report else {}
    source = with_options(read_study(study), machine=machine.values(), output=report)
    folder = folder_of(source, out)
    _check_folder(folder)
    say(f"planning {source.study.name}")  # models and data are looked at, which may take a moment
    plan = make_plan(source, say)
    if output.dry_run and not folder.exists():
        _show_plan(plan, None, folder)
        return 0
    with opened_folder(plan, folder, command, write=not output.dry_run, say=say) as held:
        counts, team = _show_plan(plan, held, folder)
        if output.dry_run:
            return 0
        session = _Session(folder, counts)
        try:
            if not _do(plan, held, team, session):
                raise KeyboardInterrupt
            made = _publish(plan, folder)
        except KeyboardInterrupt:
            say(f"stopped with {session.done} of {session.total} items on record")
            say(f"to continue: {command}")
            return 130
        return session.summary(made, [model.ref for model in plan.subjects], plan.notes)


def _check_folder(folder: Path) -> None:
    """Refuse what cannot be a run folder, before models and data are looked at."""
    if folder.name.endswith(".zarr.zip"):
        raise FloatlensError(f"--out {folder}: this is a run folder; give a name without .zarr.zip")
    for place in (folder, *folder.parents):
        if place.exists():
            if not place.is_dir():
                raise FloatlensError(f"--out {folder}: {place} is a file; give a folder")
            return


def _show_plan(plan: Plan, held: RunFolder | None, folder: Path) -> tuple[Counts, Team]:
    from floatlens.cli.study_views import plan_view
    from floatlens.runs.counts import count, forecast
    from floatlens.runs.workers import team_for

    counts = count(plan, held)
    team = team_for(plan, counts.left)
    records = held.records.values() if held is not None else ()
    told = forecast(plan, counts, records, team.count or 1, team.threads, elsewhere=team.elsewhere)
    screen = console()
    screen.print(plan_view(plan, counts, team, told, folder, screen.width))
    return counts, team


def _do(plan: Plan, held: RunFolder, team: Team, session: _Session) -> bool:
    """Do what is left; False where the user stopped it."""
    from floatlens.runs.engine import Stop, run_plan

    if session.done == session.total:
        return True
    stop = Stop(lambda: say("finishing the items under way, then stopping; press Ctrl-C again to stop at once"))
    if team.count != 1:
        say(f"starting {team.count or 'all'} workers; each loads its libraries and the first model")
    records = run_plan(plan, held, team.executor, stop)
    with stop.listening(), progress("running", session.total, session.done) as bar:
        try:
            for record in records:
                session.take(record, bar)
        except OSError as error:
            hint = "; finished items are kept, run it again to continue" if error.errno is not None else ""
            raise FloatlensError(f"{error.filename or session.out}: {error.strerror or error}{hint}") from error
    return not stop.asked


def _publish(plan: Plan, folder: Path) -> Findings:
    from floatlens.analysis.sources import has_traces, trace_files
    from floatlens.runs.publish import publish_study

    traces = len(trace_files(folder)) if has_traces(folder) else 0
    with progress("analysing", traces) as bar:
        return publish_study(
            folder, plan.study.output, analyses=plan.study.analyses, each=lambda done, total: bar.item()
        )


class RunningAccuracy:
    """Accuracy so far of each model in each condition, from the answers of this session."""

    def __init__(self) -> None:
        self._right: dict[str, list[float]] = {}

    def after(self, record: Record) -> str:
        """One more answer: where it belongs, and the accuracy there."""
        part = f"{record.model}, {record.data}, {record.condition.label}"
        right = self._right.setdefault(part, [])
        if record.accuracy is not None:
            right.append(record.accuracy)
        return f"{part}: accuracy {sum(right) / len(right):.1%} of {len(right)}" if right else part


class _Session:
    """Counts what became of the items, and says what a user should know at once."""

    def __init__(self, out: Path, counts: Counts) -> None:
        self.out, self.total, self.done = out, counts.total, counts.done
        self.failed = self._warned = 0
        self._begun = False
        self._began = time.monotonic()
        self._accuracy = RunningAccuracy()

    def take(self, record: Record, bar: Bar) -> None:
        """One more record: the bar moves and shows the accuracy so far."""
        where = f"{record.model}, {record.data}, {record.condition.label}"
        named = f"{where}, question {record.index} ({record.id})"
        if record.warnings:
            self._warned += 1
            self._tell(self._warned, [f"warning: {named}: {one}" for one in record.warnings], "warning: more warnings")
        if record.status == "failed":
            self.failed += 1
            self._tell(self.failed, [f"{named} failed: {record.error}"], "more failures")
        else:
            self.done += 1
        if not self._begun:  # until now workers and models were loading
            self._begun = True
            bar.start()
        if record.what == "trace":
            bar.item(f"{where}: {record.answer or ''}")
        elif record.what == "patch":
            bar.item("", where)
        else:
            bar.item(record.prediction or "", self._accuracy.after(record))

    def _tell(self, number: int, lines: Sequence[str], more: str) -> None:
        """The first few as they come; the others are in the records."""
        for line in lines if number <= _SHOWN else ():
            say(line)
        if number == _SHOWN + 1:
            say(f"{more} are listed in {self.out / 'records.jsonl'}")

    def summary(self, made: Findings, models: Sequence[str], notes: Sequence[str]) -> int:
        """The tables, the last lines, and the exit code."""
        from floatlens.claims import floating_sentence
        from floatlens.cli.study_views import findings_view, verdicts_line

        screen = console()
        if made.unchanged:
            say(f"nothing has changed: tables, figures and report in {self.out} are up to date")
        else:
            screen.print(findings_view(made, models, screen.width))
        for note in notes:  # said before the run, which may be long ago
            say(note)
        say_skipped(made.skipped)
        if "drift" in made.results:
            say(f"does attention float? {floating_sentence(made.claims)}")
        if made.claims:
            say(f"{verdicts_line(made.claims)}; list them with: {shlex.join(['floatlens', 'claims', str(self.out)])}")
        parts = [f"{self.done} of {self.total} items in {self.out}, {duration(time.monotonic() - self._began)}"]
        if self._warned:
            parts.append(f"{self._warned} with warnings")
        if self.failed:
            parts.append(f"{self.failed} failed, see {self.out / 'records.jsonl'}; run again to retry them")
        say("; ".join(parts))
        if made.report is not None:
            say(f"report: {made.report}")
        return 1 if self.failed else 0
