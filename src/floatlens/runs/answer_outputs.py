"""Tables and figures of answers: Table 1 and gains, stress curves and robustness, effects of edits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from floatlens.analysis.conditions import edited
from floatlens.analysis.effects import METRICS, edit_effects, effects_table, measured, moved
from floatlens.analysis.scores import gains, scores, table_one
from floatlens.analysis.stress import agreement, curves, curves_frame, robustness_frame
from floatlens.records.store import open_answers
from floatlens.runs.outputs import FORMATS, save_figure, save_frame, save_table

if TYPE_CHECKING:
    import pandas as pd

    from floatlens.analysis.stress import Curve
    from floatlens.analysis.tables import Table

__all__ = ["AnswerOutputs", "publish_answers"]


@dataclass
class AnswerOutputs:
    """What was found in the answers and written. Parts that there are no answers for stay empty."""

    table: Table | None = None
    gains: pd.DataFrame | None = None
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
        _publish_scores(plain, columns, out, made, paper=paper)
    stressed = answers[answers["kind"] == "stress"]
    if not stressed.empty:
        _publish_stress(stressed, out, made)
    if (answers["kind"] == "edit").any():
        _publish_edits(edited(answers), out, made)
    _draw(out, made, formats)
    return made


def _draw(out: Path, made: AnswerOutputs, formats: Sequence[str]) -> None:
    """Every figure that the statistics allow."""
    from floatlens.plots.drawing import draw
    from floatlens.plots.registry import FIGURES, describe_figures

    data = {"gains": made.gains, "stress": made.curves, "edits": made.effects}
    wanted = [name for name, kind in FIGURES.items() if set(kind.needs) <= set(data)]
    for name, figure in describe_figures(data, wanted).figures.items():
        made.files += save_figure(draw(figure), out / "figures" / name, formats)


def _publish_scores(
    answers: pd.DataFrame,
    columns: Sequence[tuple[str, str]],
    out: Path,
    made: AnswerOutputs,
    *,
    paper: bool,
) -> None:
    made.table = table_one(answers, columns, paper=paper, labels=_labels(answers))
    gained = gains(answers)
    made.files += save_table(made.table, out / "tables" / "table1")
    made.files += save_frame(scores(answers), out / "tables" / "scores") + save_frame(gained, out / "tables" / "gains")
    made.gains = gained.assign(
        kind=gained["model"].map(dict(zip(answers["model"], answers["model_kind"], strict=True)))
    )


def _publish_stress(answers: pd.DataFrame, out: Path, made: AnswerOutputs) -> None:
    found = made.curves = curves(answers)
    made.agreed = agreement(answers)
    frames = {"curves": curves_frame(found), "robustness": robustness_frame(found), "agreement": made.agreed}
    for name, frame in frames.items():
        made.files += save_frame(frame, out / "tables" / name)


def _publish_edits(answers: pd.DataFrame, out: Path, made: AnswerOutputs) -> None:
    """Nothing where no edit can be compared with unedited answers."""
    from floatlens.plots.registry import file_name

    made.effects = edit_effects(answers)
    if made.effects.empty:
        return
    told = made.effects.drop(columns="condition")
    made.files += save_frame(told.assign(dose=told["dose"].map(_dose)), out / "tables" / "effects")
    for name, frame in (("measured", measured(answers)), ("moved", moved(answers))):
        if not frame.empty:
            made.files += save_frame(frame, out / "tables" / name)
    sets = list(dict.fromkeys(made.effects["data"]))
    for data in sets:
        own = made.effects[made.effects["data"] == data]
        for metric in METRICS:
            name = file_name(f"edits-{metric}", data if len(sets) > 1 else "", [])
            made.files += save_table(effects_table(own, metric, _labels(answers)), out / "tables" / name)


def _dose(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.12g}"


def _labels(answers: pd.DataFrame) -> dict[str, str]:
    from floatlens.plots.style import label_of

    models = list(dict.fromkeys(answers["model"]))
    return {model: label_of(model, models) for model in models}
