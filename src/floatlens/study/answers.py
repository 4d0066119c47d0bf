"""What a run of questions came to, written beside its records: tables as Markdown, CSV, LaTeX and Parquet, and figures.

It reads records and the manifest, and computes nothing itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from floatlens.errors import FloatlensError
from floatlens.qa.tables import METRICS, Table, gains, scores, table_one
from floatlens.study.publish import save_figure, save_frame
from floatlens.study.records import AnswerRecord, read_records, write_atomically

if TYPE_CHECKING:
    import pandas as pd

    from floatlens.qa.conditions import Point
    from floatlens.qa.curves import Curve

__all__ = ["answers_frame", "open_answers", "publish_qa", "publish_stress"]


def answers_frame(records: Iterable[AnswerRecord], models: Mapping[str, Mapping[str, Any]]) -> pd.DataFrame:
    """One row per question that was answered: who, what, where, and the scores. `models` are those of the manifest."""
    import pandas as pd

    columns = ["model", "kind", "data", "condition", "index", "id", "prediction", *METRICS, "kl", "measured"]
    rows = [
        {"kind": models[record.model]["kind"], **record.model_dump(include=set(columns))}
        for record in records
        if record.status == "done"
    ]
    frame = pd.DataFrame(rows, columns=columns)
    order = {ref: place for place, ref in enumerate(models)}
    frame["place"] = frame["model"].map(order)
    return frame.sort_values(["place", "data", "condition", "index"], kind="stable").drop(columns="place")


def open_answers(folder: Path) -> tuple[pd.DataFrame, dict[str, Any]]:
    """The answers of a run folder and its manifest. Example: `open_answers(Path("runs/qa"))[0].accuracy.mean()`"""
    path = folder / "manifest.json"
    if not path.is_file():
        raise FloatlensError(f"{folder}: not a run (no manifest.json in it)")
    manifest: dict[str, Any] = json.loads(path.read_bytes())
    if manifest.get("kind") not in AnswerRecord.runs:
        raise FloatlensError(
            f"{folder}: a run of kind {manifest.get('kind')!r}; expected one of floatlens qa or stress"
        )
    return answers_frame(read_records(folder / "records.jsonl", AnswerRecord), manifest["models"]), manifest


def publish_qa(
    answers: pd.DataFrame, columns: Sequence[tuple[str, str]], out: Path, *, paper: bool = False
) -> tuple[Table, list[Path]]:
    """Table 1 and what is behind it in OUT/tables, the gains in OUT/figures."""
    from floatlens.figures.stress import plot_gain
    from floatlens.figures.style import label_of

    models = list(dict.fromkeys(answers["model"]))
    table = table_one(answers, columns, paper=paper, labels={model: label_of(model, models) for model in models})
    gained = gains(answers)
    files = _write_table(table, out / "tables" / "table1")
    files += save_frame(scores(answers), out / "tables" / "scores") + save_frame(gained, out / "tables" / "gains")
    if not gained.empty:
        kinds = dict(zip(answers["model"], answers["kind"], strict=True))
        rows = gained.assign(kind=gained["model"].map(kinds)).to_dict("records")
        files += save_figure(plot_gain(rows), out / "figures" / "gain")
    return table, files


def publish_stress(
    answers: pd.DataFrame, points: Sequence[Point], out: Path, *, metric: str = "accuracy"
) -> tuple[list[Curve], pd.DataFrame, list[Path]]:
    """Curves and robustness in OUT/tables, a figure per test in OUT/figures; also the agreement over orders."""
    from floatlens.figures.stress import plot_stress
    from floatlens.qa.curves import agreement, curves, curves_frame, robustness_frame

    found = curves(answers, points, metric=metric)
    agreed = agreement(answers, points)
    frames = {"curves": curves_frame(found), "robustness": robustness_frame(found), "agreement": agreed}
    files = [file for name, frame in frames.items() for file in save_frame(frame, out / "tables" / name)]
    for test in dict.fromkeys(curve.test for curve in found):
        files += save_figure(plot_stress(found, test), out / "figures" / f"stress-{test}")
    return found, agreed, files


def _write_table(table: Table, path: Path) -> list[Path]:
    path.parent.mkdir(parents=True, exist_ok=True)
    texts = {".md": table.to_markdown(), ".csv": table.to_csv(), ".tex": table.to_latex()}
    for suffix, text in texts.items():
        write_atomically(path.with_suffix(suffix), text.encode())
    return [path.with_suffix(suffix) for suffix in texts]
