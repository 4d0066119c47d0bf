"""Tables and figures of answers: Table 1 and gains, stress curves and robustness, effects of edits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from floatlens.analysis.scores import gains, scores, table_one
from floatlens.records.store import open_answers
from floatlens.runs.answers import answer_claims_of, asked_points, by_command, named
from floatlens.runs.outputs import FORMATS, save_figure, save_frame, save_table

if TYPE_CHECKING:
    import pandas as pd

    from floatlens.analysis.curves import Curve
    from floatlens.analysis.tables import Table

__all__ = ["AnswerOutputs", "answer_claims_of", "publish_answers"]


@dataclass
class AnswerOutputs:
    """What was found in the answers and written. Parts that there are no answers for stay empty."""

    table: Table | None = None
    curves: Sequence[Curve] = ()
    agreed: pd.DataFrame | None = None
    effects: pd.DataFrame | None = None
    files: list[Path] = field(default_factory=list)


def publish_answers(folder: Path, out: Path, *, paper: bool = False, formats: Sequence[str] = FORMATS) -> AnswerOutputs:
    """Tables and figures of the answers of a run folder, in OUT."""
    answers, manifest = open_answers(folder)
    made = AnswerOutputs()
    plain = answers[answers["kind"].isin(["closed", "rag"])]
    if not plain.empty:
        columns = [(name, str(one["column"])) for name, one in manifest["data"].items() if name in set(plain["data"])]
        _publish_scores(plain, columns, out, made, paper=paper, formats=formats)
    parts = by_command(named(answers), manifest)
    if "stress" in parts:
        _publish_stress(parts["stress"], manifest, out, made, formats=formats)
    if "intervene" in parts:
        from floatlens.runs.interventions import publish_interventions

        made.effects, files = publish_interventions(parts["intervene"], out, formats=formats)
        made.files += files
    return made


def _publish_scores(
    answers: pd.DataFrame,
    columns: Sequence[tuple[str, str]],
    out: Path,
    made: AnswerOutputs,
    *,
    paper: bool,
    formats: Sequence[str],
) -> None:
    from floatlens.plots.stress import plot_gain
    from floatlens.plots.style import label_of

    models = list(dict.fromkeys(answers["model"]))
    made.table = table_one(answers, columns, paper=paper, labels={model: label_of(model, models) for model in models})
    gained = gains(answers)
    made.files += save_table(made.table, out / "tables" / "table1")
    made.files += save_frame(scores(answers), out / "tables" / "scores") + save_frame(gained, out / "tables" / "gains")
    if not gained.empty:
        kinds = dict(zip(answers["model"], answers["model_kind"], strict=True))
        rows = gained.assign(kind=gained["model"].map(kinds)).to_dict("records")
        made.files += save_figure(plot_gain(rows), out / "figures" / "gain", formats)


def _publish_stress(
    answers: pd.DataFrame, manifest: Any, out: Path, made: AnswerOutputs, *, formats: Sequence[str]
) -> None:
    from floatlens.analysis.curves import agreement, curves, curves_frame, robustness_frame
    from floatlens.plots.stress import plot_stress

    points = asked_points(manifest)
    made.curves, made.agreed = curves(answers, points), agreement(answers, points)
    frames = {"curves": curves_frame(made.curves), "robustness": robustness_frame(made.curves)}
    for name, frame in (frames | {"agreement": made.agreed}).items():
        made.files += save_frame(frame, out / "tables" / name)
    for test in dict.fromkeys(curve.test for curve in made.curves):
        made.files += save_figure(plot_stress(made.curves, test), out / "figures" / f"stress-{test}", formats)
