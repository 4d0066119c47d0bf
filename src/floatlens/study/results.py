"""What a study came to, written beside its records: tables, figures, verdicts and the report. It computes nothing.

Traces are walked over once for everything that rests on them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from floatlens.analysis.sources import has_traces
from floatlens.qa.conditions import TESTS
from floatlens.study.answers import (
    answer_claims_of,
    asked_points,
    edited_answers,
    open_answers,
    publish_qa,
    publish_stress,
)
from floatlens.study.choosing import MODES
from floatlens.study.publish import publish, save_frame
from floatlens.study.spec import Output
from floatlens.verdicts import Claim, claims_frame

if TYPE_CHECKING:
    import pandas as pd

    from floatlens.analysis import Result
    from floatlens.qa.curves import Curve
    from floatlens.qa.tables import Table
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

        return headline(self.results, self.claims) if self.results else []


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
    if has_traces(folder):
        _publish_traces(folder, output, analyses, each, made)
    else:
        made.claims = answer_claims_of(folder)
        made.files += save_frame(claims_frame(made.claims), folder / "tables" / "claims")
        made.skipped["report.html"] = "no traces in this study"
    return made


def publish_answers(folder: Path, out: Path, output: Output, made: Findings) -> None:
    """Tables and figures of a study's answers in OUT; `made` gets them."""
    answers, manifest = open_answers(folder)
    if answers.empty:  # nothing was asked, or nothing answered
        return
    asked = answers[answers["condition"].isin(MODES)]
    if not asked.empty:
        columns = [(name, one.get("column", name)) for name, one in manifest["data"].items()]
        columns = [pair for pair in columns if pair[0] in set(asked["data"])]
        made.table, files = publish_qa(asked, columns, out, paper=output.paper, formats=output.figures)
        made.files += files
    points = asked_points(manifest)
    stressed = answers[answers["condition"].isin([point.name for point in points if point.test in TESTS])]
    if not stressed.empty:
        made.curves, made.agreed, files = publish_stress(stressed, points, out, formats=output.figures)
        made.files += files
    edited = edited_answers(answers)
    if not edited.empty:
        from floatlens.study.interventions import publish_interventions

        made.effects, files = publish_interventions(edited, out, formats=output.figures)
        made.files += files


def _publish_traces(
    folder: Path,
    output: Output,
    analyses: Sequence[str] | None,
    each: Callable[[int, int], None],
    made: Findings,
) -> None:
    from floatlens.report import report
    from floatlens.report.build import Analysed
    from floatlens.report.subjects import Seen, look, opened

    seen: list[Seen] = []

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
    if output.report:
        wrote = report(
            [folder],
            folder / "report.html",
            examples=output.examples,
            rule=output.rule,
            largest=int(output.max_mb * 1e6),
            analysed=Analysed(found.results, seen, found.skipped),
        )
        made.report = wrote.path
        made.files.append(wrote.path)
