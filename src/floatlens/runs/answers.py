"""What a run of questions came to, written beside its records: tables as Markdown, CSV, LaTeX and Parquet, and figures.

It reads records and the manifest, and computes nothing itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from floatlens.analysis.sources import has_traces
from floatlens.analysis.tables import METRICS, Table, gains, scores, table_one
from floatlens.core.errors import FloatlensError
from floatlens.runs.publish import FORMATS, save_figure, save_frame, save_table
from floatlens.runs.records import AnswerRecord, StudyRecord, read_records

if TYPE_CHECKING:
    import pandas as pd

    from floatlens.analysis.curves import Curve
    from floatlens.claims import Claim
    from floatlens.data.stress import Point

__all__ = [
    "answer_claims_of",
    "answers_frame",
    "asked_points",
    "by_command",
    "edited_answers",
    "has_answers",
    "open_answers",
    "publish_qa",
    "publish_stress",
    "read_manifest",
    "traced_runs",
]


def answers_frame(records: Iterable[AnswerRecord], models: Mapping[str, Mapping[str, Any]]) -> pd.DataFrame:
    """One row per question that was answered: who, what, where, and the scores. `models` are those of the manifest."""
    import pandas as pd

    columns = ["model", "kind", "data", "condition", "index", "id", "prediction", *METRICS, "kl", "measured", "moved"]
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
    manifest = read_manifest(folder)
    if not has_answers(folder):
        raise FloatlensError(
            f"{folder}: a run of kind {manifest.get('kind')!r}; expected one of floatlens qa, stress, intervene or run"
        )
    kind = StudyRecord if manifest["kind"] in StudyRecord.runs else AnswerRecord
    records = read_records(folder / "records.jsonl", kind)
    answers = (one for one in records if not isinstance(one, StudyRecord) or one.what == "answer")
    return answers_frame(answers, manifest["models"]), manifest


def has_answers(run: Path) -> bool:
    """Whether a folder is a run that asks for answers; one of a study may hold traces as well."""
    there = (run / "manifest.json").is_file()
    return there and read_manifest(run).get("kind") in (*AnswerRecord.runs, *StudyRecord.runs)


def traced_runs(runs: Iterable[Path]) -> list[Path]:
    """Of these those whose traces are to be read: all but runs of answers without any."""
    return [run for run in runs if not has_answers(run) or has_traces(run)]


def read_manifest(folder: Path) -> dict[str, Any]:
    """What a run folder was made for."""
    path = folder / "manifest.json"
    if not path.is_file():
        raise FloatlensError(f"{folder}: not a run (no manifest.json in it)")
    try:
        found = json.loads(path.read_bytes())
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise FloatlensError(f"{path}: not valid JSON ({error}); was the file changed?") from None
    if not isinstance(found, dict):
        raise FloatlensError(f"{path}: not a manifest; was the file changed?")
    return found


def asked_points(manifest: Mapping[str, Any]) -> list[Point]:
    """The points of all stress tests under the settings of a run."""
    from floatlens.data.stress import TESTS, StressSettings, points

    settings: StressSettings = StressSettings.model_validate(manifest.get("stress") or {})
    return [point for test in TESTS for point in points(test, settings)]


def by_command(answers: pd.DataFrame, manifest: Mapping[str, Any]) -> dict[str, pd.DataFrame]:
    """The answers by the command that would ask for them, qa, stress or intervene; without those that have none.

    All are of one command, but for a study's."""
    if answers.empty:
        return {}
    if manifest["kind"] != "study":
        return {manifest["kind"]: answers}
    from floatlens.data.stress import TESTS
    from floatlens.runs.choosing import MODES

    points = [point.name for point in asked_points(manifest) if point.test in TESTS]
    parts = {
        "qa": answers[answers["condition"].isin(MODES)],
        "stress": answers[answers["condition"].isin(points)],
        "intervene": edited_answers(answers),
    }
    return {name: part for name, part in parts.items() if not part.empty}


def edited_answers(answers: pd.DataFrame) -> pd.DataFrame:
    """Of a study's answers those that edits are judged by: the edits, and `rag` as the plain condition beside them."""
    from floatlens.edits import EDITS
    from floatlens.runs.intervening import PLAIN

    edits = answers["condition"].str.partition(" ")[0].isin(list(EDITS))
    sets = set(answers.loc[edits, "data"])
    kept = answers[edits | ((answers["condition"] == "rag") & answers["data"].isin(sets))]
    return kept.assign(condition=kept["condition"].replace("rag", PLAIN))


def answer_claims_of(folder: Path) -> list[Claim]:
    """Every claim that the answers of a run speak of, whichever command made it."""
    from floatlens.claims import answer_claims, edit_claims
    from floatlens.runs.interventions import specs_of

    answers, manifest = open_answers(folder)
    if answers.empty:
        return []
    if manifest["kind"] == "intervene":
        return edit_claims(answers, specs_of(answers))
    found = answer_claims(answers, asked_points(manifest))
    if manifest["kind"] == "study":
        edited = edited_answers(answers)
        found += edit_claims(edited, specs_of(edited)) if not edited.empty else []
    return found


def publish_qa(
    answers: pd.DataFrame,
    columns: Sequence[tuple[str, str]],
    out: Path,
    *,
    paper: bool = False,
    formats: Sequence[str] = FORMATS,
) -> tuple[Table, list[Path]]:
    """Table 1 and what is behind it in OUT/tables, the gains in OUT/figures."""
    from floatlens.plots.stress import plot_gain
    from floatlens.plots.style import label_of

    models = list(dict.fromkeys(answers["model"]))
    table = table_one(answers, columns, paper=paper, labels={model: label_of(model, models) for model in models})
    gained = gains(answers)
    files = save_table(table, out / "tables" / "table1")
    files += save_frame(scores(answers), out / "tables" / "scores") + save_frame(gained, out / "tables" / "gains")
    if not gained.empty:
        kinds = dict(zip(answers["model"], answers["kind"], strict=True))
        rows = gained.assign(kind=gained["model"].map(kinds)).to_dict("records")
        files += save_figure(plot_gain(rows), out / "figures" / "gain", formats)
    return table, files


def publish_stress(
    answers: pd.DataFrame,
    points: Sequence[Point],
    out: Path,
    *,
    metric: str = "accuracy",
    formats: Sequence[str] = FORMATS,
) -> tuple[list[Curve], pd.DataFrame, list[Path]]:
    """Curves and robustness in OUT/tables, a figure per test in OUT/figures; also the agreement over orders."""
    from floatlens.analysis.curves import agreement, curves, curves_frame, robustness_frame
    from floatlens.plots.stress import plot_stress

    found = curves(answers, points, metric=metric)
    agreed = agreement(answers, points)
    frames = {"curves": curves_frame(found), "robustness": robustness_frame(found), "agreement": agreed}
    files = [file for name, frame in frames.items() for file in save_frame(frame, out / "tables" / name)]
    for test in dict.fromkeys(curve.test for curve in found):
        files += save_figure(plot_stress(found, test), out / "figures" / f"stress-{test}", formats)
    return found, agreed, files
