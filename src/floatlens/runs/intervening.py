"""Interventions as conditions of a run: every question plain, under every edit, and under its random control.

The first questions are also traced under each edit, so that drift and absorption stand beside accuracy. Retrieval heads
are chosen from traces that were made before, model by model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from floatlens.analysis.intervals import Estimate, estimate

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from floatlens.edits.spec import EditSpec

__all__ = ["PLAIN", "effects", "measured", "moved"]

PLAIN = "plain"
"""The condition without an edit."""
_WHO = ("model", "kind", "data", "edit", "settings", "dose", "control", "metric")
_NUMBERS = ("plain", "edited", "difference", "low", "high")


def _names(spec: EditSpec) -> list[str]:
    """Names of the conditions of an edit, the same for every model."""
    from floatlens.edits import EDITS

    controls = [spec.with_control(0).label] if EDITS[spec.name].has_control else []
    return [spec.label, *controls]


# -- what came of it ----------------------------------------------------------------------------------------------


def effects(answers: pd.DataFrame, specs: Sequence[EditSpec]) -> pd.DataFrame:
    """One row per model, data, edit and metric: the score, and its difference from plain on the same questions."""
    rows = []
    for (model, kind, data), own in answers.groupby(["model", "kind", "data"], sort=False):
        for metric in ("accuracy", "f1", "kl"):
            wide = own.pivot(index="id", columns="condition", values=metric)
            if metric == "kl":
                wide[PLAIN] = 0.0
            for spec, name, control in _all(specs):
                if name in wide.columns and PLAIN in wide.columns:
                    pair = wide[[PLAIN, name]].dropna().to_numpy(dtype=np.float64)
                    who = {"model": model, "kind": kind, "data": data, "edit": spec.name, "settings": _settings(spec)}
                    who |= {"dose": spec.dose, "control": control, "metric": metric}
                    rows.append(who | _compared(pair))
    return pd.DataFrame(rows, columns=[*_WHO, *_NUMBERS, "n"])  # also where no edit has an answer


def _all(specs: Sequence[EditSpec]) -> list[tuple[EditSpec, str, bool]]:
    return [(spec, name, i == 1) for spec in specs for i, name in enumerate(_names(spec))]


def _settings(spec: EditSpec) -> str:
    return spec.label.removeprefix(spec.name).strip()


def _compared(pair: NDArray[np.float64]) -> dict[str, float]:
    if not len(pair):  # such as divergences of an edit that no answer lived to see
        return {**dict.fromkeys(_NUMBERS, float("nan")), "n": 0}
    found: Estimate = estimate(pair[:, 1] - pair[:, 0])
    plain, edited = (float(x) for x in pair.mean(axis=0))
    values = {"plain": plain, "edited": edited, "difference": float(found.mean)}
    return values | {"low": float(found.low), "high": float(found.high), "n": int(found.n)}


def measured(answers: pd.DataFrame, specs: Sequence[EditSpec]) -> pd.DataFrame:
    """One row per model, data, edit and quantity of the traced questions: drift, absorption, and attention moved."""
    rows = []
    traced = answers[answers["measured"].notna()]
    labels = {name: (spec, control) for spec, name, control in _all(specs)}
    for (model, data, condition), own in traced.groupby(["model", "data", "condition"], sort=False):
        spec, control = labels.get(str(condition), (None, False))
        for quantity in own["measured"].iloc[0]:
            found = estimate(np.array([one.get(quantity, np.nan) for one in own["measured"]], dtype=np.float64))
            what = {"edit": PLAIN, "settings": ""} if spec is None else {"edit": spec.name, "settings": _settings(spec)}
            numbers = {"mean": float(found.mean), "low": float(found.low), "high": float(found.high), "n": int(found.n)}
            rows.append({"model": model, "data": data, **what, "control": control, "quantity": quantity, **numbers})
    return pd.DataFrame(rows)


def moved(answers: pd.DataFrame, specs: Sequence[EditSpec]) -> pd.DataFrame:
    """One row per model, data, edit, step and layer of the traced questions: rows changed, attention moved in them."""
    labels = {name: (spec, control) for spec, name, control in _all(specs)}
    rows: list[dict[str, Any]] = []
    some = answers[answers["moved"].notna() & answers["condition"].isin(list(labels))]
    for model, data, condition, changes in some[["model", "data", "condition", "moved"]].to_numpy(dtype=object):
        spec, control = labels[condition]
        who = {"model": model, "data": data, "edit": spec.name, "settings": _settings(spec), "control": control}
        rows += [who | dict(zip(("step", "layer", "rows", "mass"), change, strict=True)) for change in changes]
    if not rows:
        return pd.DataFrame(rows)
    keys = ["model", "data", "edit", "settings", "control", "step", "layer"]
    found = (
        pd.DataFrame(rows).groupby(keys, sort=False).agg(rows=("rows", "sum"), mass=("mass", "sum"), n=("rows", "size"))
    )
    return found.assign(mean=found["mass"] / found["rows"].where(found["rows"] > 0)).reset_index()
