"""Answers frames made by hand: a score for each question under each condition."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd

from floatlens.records.condition import CLOSED, RAG, Condition, Edited, Stressed
from floatlens.records.frame import COLUMNS

__all__ = ["CLEAN", "CLOSED", "RAG", "answers", "control", "edit", "stressed"]

CLEAN = Stressed(test="clean", series="clean", x=0.0, point="")


def edit(name: str, **settings: Any) -> Edited:
    return Edited(name=name, settings=settings)


def control(one: Edited, kind: str = "mass", seed: int = 0) -> Edited:
    return one.model_copy(update={"control": kind, "seed": seed})


def stressed(test: str, x: float, point: str | None = None, series: str | None = None) -> Stressed:
    return Stressed(test=test, series=series or test, x=x, point=f"{x:g}" if point is None else point)


def answers(
    given: Mapping[Condition, Sequence[float]],
    *,
    model: str = "m",
    kind: str = "mdm",
    data: str = "d",
    more: Callable[[Condition, int, float], Mapping[str, Any]] = lambda condition, index, value: {},
) -> pd.DataFrame:
    """One model on one data set: accuracies of questions 0, 1, … under each condition; F1 is half of them.

    Answers have two tokens, decided in steps 0 and 1; edits act from step 1 on and move a tenth of the attention.

    `more` gives further columns of a row; questions whose accuracy is NaN have no row.
    """
    rows: list[dict[str, Any]] = []
    for condition, values in given.items():
        for i, value in enumerate(values):
            if value != value:
                continue
            row: dict[str, Any] = dict.fromkeys(COLUMNS)
            row |= {"model": model, "model_kind": kind, "data": data, "index": i, "id": f"q{i}"}
            row |= {"condition": condition, "kind": condition.kind}
            row |= {"prediction": "x", "accuracy": float(value), "f1": value / 2, "exact_match": 0.0}
            row |= {"decided_at": (0, 1)} | (
                {"earliest_step": 1, "moved_share": 0.1} if condition.kind == "edit" else {}
            )
            rows.append(row | dict(more(condition, i, value)))
    return pd.DataFrame(rows, columns=list(COLUMNS))
