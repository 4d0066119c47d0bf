"""What a study came to, written beside its records: tables, figures, verdicts and the report. It computes nothing.

Traces are walked over once for everything that rests on them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from floatlens.analysis.sources import has_traces
from floatlens.claims import Claim, claims_frame
from floatlens.runs.answers import (
    answer_claims_of,
    asked_points,
    by_command,
    open_answers,
    publish_qa,
    publish_stress,
)
from floatlens.runs.publish import publish, save_frame
from floatlens.runs.study import Output

if TYPE_CHECKING:
    import pandas as pd

    from floatlens.analysis import Result
    from floatlens.analysis.curves import Curve
    from floatlens.analysis.tables import Table
    from floatlens.report.subjects import Seen
    from floatlens.traces import Trace

__all__ = ["Findings", "publish_answers", "publish_study"]


@dataclass
class Findings:
    """What was found and written. Parts that the study did not ask for stay empty."""

    table: Table | None = None
    curves: Sequence[Curve] = ()
    agreed: pd.DataFrame | None = None
    effects: pd.DataFrame | None = None
    results: Mapping[str, Result] = field(default_factory=dict)
    claims: list[Claim] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    report: Path | None = None

    @property
    def headline(self) -> list[dict[str, Any]]:
        """The numbers at the top of the report: a row per number, with an estimate for each model."""
        from floatlens.report.findings import headline

        return headline(self.results) if self.results else []


def publish_study(
    folder: Path,
    output: Output | None = None,
    *,
    analyses: Sequence[str] | None = None,
    each: Callable[[int, int], None] = lambda done, total: None,
) -> Findings:
    """Tables, figures, claims and report of everything that is on record. `each` is told after every trace."""
    output = output or Output()
    made = Findings()
    publish_answers(folder, folder, output, made)
    answered = bool(made.files)
    seen: list[Seen] = []
    if has_traces(folder):
        _publish_traces(folder, output, analyses, each, made, seen)
    else:
        made.claims = answer_claims_of(folder)
        made.files += save_frame(claims_frame(made.claims), folder / "tables" / "claims")
    if output.report and (seen or answered):
        _write_report(folder, output, made, seen)
    return made


def _write_report(folder: Path, output: Output, made: Findings, seen: Sequence[Seen]) -> None:
    from floatlens.report import report
    from floatlens.report.build import Analysed

    wrote = report(
        [folder],
        folder / "report.html",
        examples=output.examples,
        rule=output.rule,
        largest=int(output.max_mb * 1e6),
        analysed=Analysed(made.results, seen, made.skipped),
    )
    made.report = wrote.path
    made.files.append(wrote.path)


def publish_answers(folder: Path, out: Path, output: Output, made: Findings) -> None:
    """Tables and figures of a study's answers in OUT; `made` gets them."""
    answers, manifest = open_answers(folder)
    parts = by_command(answers, manifest)
    if "qa" in parts:
        columns = [(name, one.get("column", name)) for name, one in manifest["data"].items()]
        columns = [pair for pair in columns if pair[0] in set(parts["qa"]["data"])]
        made.table, files = publish_qa(parts["qa"], columns, out, paper=output.paper, formats=output.figures)
        made.files += files
    if "stress" in parts:
        points = asked_points(manifest)
        made.curves, made.agreed, files = publish_stress(parts["stress"], points, out, formats=output.figures)
        made.files += files
    if "intervene" in parts:
        from floatlens.runs.interventions import publish_interventions

        made.effects, files = publish_interventions(parts["intervene"], out, formats=output.figures)
        made.files += files


def _publish_traces(
    folder: Path,
    output: Output,
    analyses: Sequence[str] | None,
    each: Callable[[int, int], None],
    made: Findings,
    seen: list[Seen],
) -> None:
    from floatlens.report.subjects import look, opened

    def see(trace: Trace, file: Path) -> None:
        seen.append(look(opened(trace), file))

    found = publish(
        [folder],
        folder,
        formats=output.figures,
        rule=output.rule,
        analyses=analyses,
        more=answer_claims_of(folder),
        each=each,
        see=see,
    )
    made.results, made.skipped = found.results, found.skipped
    made.claims = found.claims
    made.files += found.files
