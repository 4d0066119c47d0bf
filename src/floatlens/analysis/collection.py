"""Answers over the snapshots of a changing collection: rates at each snapshot, and agreement where nothing changed.

- accuracy: on the answer that is right at the snapshot, over the questions that have one then;
- stale: gives an answer that was right before and none that is right now, over the questions that have such an answer;
- withdrawn: the same for answers that only withdrawn documents stated;
- recall: share of the documents that state a current answer among those retrieved, over the questions that have any.

Over all snapshots a question counts once, with the mean over the snapshots at which its number is defined.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from floatlens.analysis.intervals import share
from floatlens.analysis.kernels import Floats
from floatlens.evaluation.metrics import normalise
from floatlens.records.record import Snapshot

__all__ = ["AGREEMENT", "ALL", "RATES", "collection_agreement", "collection_rates", "of_collection"]

RATES: Mapping[str, str] = {
    "accuracy": "accuracy on the current answer",
    "stale": "stale answers",
    "withdrawn": "answers of withdrawn documents",
    "recall": "retrieval recall",
}
"""The rates in words."""
AGREEMENT: Mapping[str, str] = {
    "all": "same answer where nothing relevant changed",
    "same prompt": "the same prompt",
    "other documents": "other documents retrieved",
}
"""Pairs of snapshots in words: all, those with the same prompt, and those for which retrieval gave other documents."""
ALL = "all"
"""In place of a date: over all snapshots."""
Row: TypeAlias = Mapping[Any, Any]
_NUMBERS = ("mean", "low", "high", "n")


def of_collection(answers: pd.DataFrame) -> pd.DataFrame:
    """The answers that were given at snapshots."""
    return answers[answers["snapshot"].notna()]


def collection_rates(answers: pd.DataFrame) -> pd.DataFrame:
    """A row for each model, data set, rate and snapshot, and one over all snapshots (`date` "all", `x` undefined).

    Example: `collection_rates(open_answers("runs/collection")[0]).query("rate == 'stale'")`
    """
    rows = []
    for who, own in _groups(answers):
        for rate in RATES:
            wide = _wide(own, _VALUES[rate])
            each = share(wide.to_numpy(dtype=np.float64))
            for i, column in enumerate(wide.columns):
                numbers = {name: float(getattr(each, name)[i]) for name in _NUMBERS}
                rows.append({**who, "rate": rate, "x": column[0], "date": column[1], **numbers})
            rows.append({**who, "rate": rate, "x": np.nan, "date": ALL, **share(_means(wide)).numbers})
    return pd.DataFrame(rows, columns=["model", "kind", "data", "rate", "x", "date", *_NUMBERS])


def collection_agreement(answers: pd.DataFrame) -> pd.DataFrame:
    """How often the answer (normalised) stays the same from one snapshot to the next when no document that answers the
    question has changed: mean over pairs, then over questions, and apart for pairs with the same prompt and for those
    in which retrieval gave other documents. `pairs` is their number.

    Example: `collection_agreement(open_answers("runs/collection")[0])`
    """
    rows = []
    for who, own in _groups(answers):
        pairs = [pair for question in _by_question(own) for pair in _untouched(question)]
        for part in AGREEMENT:
            chosen = pd.DataFrame([one for one in pairs if part in ("all", one["part"])], columns=["id", "agree"])
            found = share(chosen.groupby("id")["agree"].mean().to_numpy(dtype=np.float64)).numbers
            rows.append({**who, "pairs_with": part, "pairs": len(chosen), **found})
    return pd.DataFrame(rows, columns=["model", "kind", "data", "pairs_with", "pairs", *_NUMBERS])


def _untouched(question: list[Row]) -> Iterator[dict[str, Any]]:
    """The pairs of successive snapshots of a question between which no document that answers it has changed."""
    for before, now in pairwise(question):
        if now["condition"].x == before["condition"].x + 1 and now["snapshot"].changes == ():
            part = "same prompt" if now["prompt"] == before["prompt"] else "other documents"
            agree = float(normalise(now["prediction"]) == normalise(before["prediction"]))
            yield {"id": now["id"], "part": part, "agree": agree}


def _groups(answers: pd.DataFrame) -> Iterator[tuple[dict[str, str], pd.DataFrame]]:
    groups = of_collection(answers).groupby(["model", "model_kind", "data"], sort=False)
    for (model, kind, data), own in groups:
        yield {"model": str(model), "kind": str(kind), "data": str(data)}, own


def _by_question(own: pd.DataFrame) -> list[list[Row]]:
    """The answers to each question, in the order of the snapshots."""
    found: dict[str, list[Row]] = {}
    for row in own.to_dict("records"):
        found.setdefault(row["id"], []).append(row)
    return [sorted(rows, key=lambda row: row["condition"].x) for rows in found.values()]


def _wide(own: pd.DataFrame, value: Callable[[Row], float | None]) -> pd.DataFrame:
    """(question, snapshot), snapshots in order with their place and date; NaN where a number is not defined."""
    cells = [
        (row["id"], (row["condition"].x, row["snapshot"].date), value(row))
        for question in _by_question(own)
        for row in question
    ]
    columns = sorted({column for _, column, _ in cells})
    places = {id: place for place, id in enumerate(dict.fromkeys(id for id, _, _ in cells))}
    table = np.full((len(places), len(columns)), np.nan)
    for id, column, found in cells:
        table[places[id], columns.index(column)] = np.nan if found is None else found
    return pd.DataFrame(table, columns=pd.MultiIndex.from_tuples(columns))


def _means(wide: pd.DataFrame) -> Floats:
    """(question): the mean of what is defined; questions for which nothing is are left out."""
    return wide.mean(axis=1).dropna().to_numpy(dtype=np.float64)


def _recall(snapshot: Snapshot) -> float | None:
    return snapshot.gold_found / snapshot.gold if snapshot.gold else None


_VALUES: Mapping[str, Callable[[Row], float | None]] = {
    "accuracy": lambda row: row["accuracy"],
    "stale": lambda row: row["snapshot"].stale,
    "withdrawn": lambda row: row["snapshot"].used_withdrawn,
    "recall": lambda row: _recall(row["snapshot"]),
}
