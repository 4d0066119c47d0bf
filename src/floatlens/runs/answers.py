"""Answers under the names of conditions, for rooms that do not take the answers frame yet. To be deleted with them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from floatlens.analysis.sources import has_traces
from floatlens.data.stress import Point
from floatlens.records import store
from floatlens.records.condition import Condition, Stressed
from floatlens.records.store import is_run, read_manifest

if TYPE_CHECKING:
    import pandas as pd

    from floatlens.claims import Claim

__all__ = [
    "answer_claims_of",
    "asked_points",
    "by_command",
    "edited_answers",
    "has_answers",
    "named",
    "open_answers",
    "read_manifest",
    "traced_runs",
]


def open_answers(folder: Path) -> tuple[pd.DataFrame, dict[str, Any]]:
    answers, manifest = store.open_answers(folder)
    return named(answers), {**manifest, "kind": "study"}


def named(answers: pd.DataFrame) -> pd.DataFrame:
    """The answers frame with conditions by name, and the kind of the model as `kind`."""
    return answers.assign(condition=answers["condition"].map(_name), kind=answers["model_kind"])


def _name(condition: Condition) -> str:
    if isinstance(condition, Stressed):
        return Point(condition.test, condition.series, condition.x, condition.point).name
    return condition.label


def has_answers(run: Path) -> bool:
    """Whether a folder is a run with answers, or one that has nothing yet."""
    return is_run(run) and (store.has_answers(run) or not has_traces(run))


def traced_runs(runs: Iterable[Path]) -> list[Path]:
    """Those whose traces are to be read: all but runs of answers without any."""
    return [run for run in runs if not has_answers(run) or has_traces(run)]


def asked_points(manifest: Mapping[str, Any]) -> list[Point]:
    """The points of all stress tests under the settings of a run."""
    from floatlens.data.stress import STRESS_TESTS, StressSettings, points

    settings: StressSettings = StressSettings.model_validate(manifest.get("stress") or {})
    return [point for test in STRESS_TESTS for point in points(test, settings)]


def by_command(answers: pd.DataFrame, manifest: Mapping[str, Any]) -> dict[str, pd.DataFrame]:
    """The answers by the command that would ask for them, qa, stress or intervene; without those that have none."""
    if answers.empty:
        return {}
    points = [point.name for point in asked_points(manifest)]
    parts = {
        "qa": answers[answers["condition"].isin(["closed", "rag"])],
        "stress": answers[answers["condition"].isin(points)],
        "intervene": edited_answers(answers),
    }
    if not parts["intervene"].empty and set(parts["qa"]["condition"]) == {"rag"}:
        del parts["qa"]  # asked for the sake of the edits
    return {name: part for name, part in parts.items() if not part.empty}


def edited_answers(answers: pd.DataFrame) -> pd.DataFrame:
    """The answers under edits, and `rag` as the plain condition beside them."""
    from floatlens.edits import EDITS
    from floatlens.runs.intervening import PLAIN

    edits = answers["condition"].str.partition(" ")[0].isin(list(EDITS))
    sets = set(answers.loc[edits, "data"])
    kept = answers[edits | ((answers["condition"] == "rag") & answers["data"].isin(sets))]
    return kept.assign(condition=kept["condition"].replace("rag", PLAIN))


def answer_claims_of(folder: Path) -> list[Claim]:
    """Every claim that the answers of a run can test."""
    from floatlens.claims import answer_claims, edit_claims
    from floatlens.runs.interventions import specs_of

    answers, manifest = open_answers(folder)
    if answers.empty:
        return []
    found = answer_claims(answers, asked_points(manifest))
    edited = edited_answers(answers)
    return found + (edit_claims(edited, specs_of(edited)) if not edited.empty else [])
