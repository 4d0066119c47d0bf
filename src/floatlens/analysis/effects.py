"""What edits of attention do, from the answers frame: scores, measurements and attention moved, beside the controls."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from floatlens.analysis.conditions import dose, edits_of
from floatlens.analysis.intervals import estimate, share_difference
from floatlens.analysis.kernels import Floats
from floatlens.analysis.tables import Table
from floatlens.records.condition import RAG, Edited

if TYPE_CHECKING:
    pass

__all__ = ["UNEDITED", "edit_effects", "effects_table", "measured", "moved"]

UNEDITED = "unedited"
"""What tables call the answers without an edit."""
METRICS = ("accuracy", "f1", "kl")
_NUMBERS = ("unedited", "edited", "difference", "low", "high")
_EDIT = ("edit", "settings", "control")
_CAPTIONS = {
    "accuracy": "Accuracy: change vs. unedited, in percentage points",
    "f1": "F1: change vs. unedited, in percentage points",
    "kl": "KL divergence (nats) from the unedited distribution, at the first token that an edit can change",
}


def edit_effects(answers: pd.DataFrame) -> pd.DataFrame:
    """One row for each model, data set, edit (or control) and metric: the score, and its change vs. unedited.

    Both are means over the questions answered under both. `condition` is the edit itself, for grouping.

    Example: `edit_effects(answers).query("metric == 'accuracy' and not control")`
    """
    rows = []
    edits = edits_of(answers)
    for (model, kind, data), own in answers.groupby(["model", "model_kind", "data"], sort=False):
        present = _with_controls(edits, own)
        for metric in METRICS:
            wide = own.pivot(index="id", columns="condition", values=metric)
            if metric == "kl":
                wide[RAG] = 0.0
            for one in present:
                if RAG in wide.columns:
                    pair = wide[[RAG, one]].dropna().to_numpy(dtype=np.float64)
                    who = {"model": model, "kind": kind, "data": data, "condition": one, **_named(one)}
                    rows.append(who | {"dose": dose(one), "metric": metric} | _compared(pair, metric))
    return pd.DataFrame(rows, columns=["model", "kind", "data", "condition", *_EDIT, "dose", "metric", *_NUMBERS, "n"])


def _with_controls(edits: list[Edited], own: pd.DataFrame) -> list[Edited]:
    """The edits that have answers, each followed by its control."""
    there = [one for one in dict.fromkeys(own["condition"]) if isinstance(one, Edited)]
    return [one for edit in edits for one in sorted(there, key=lambda c: c.control or "") if one.edited == edit]


def _named(one: Edited) -> dict[str, Any]:
    return {"edit": one.name, "settings": one.settings_label, "control": one.control is not None}


def _compared(pair: Floats, metric: str) -> dict[str, float]:
    if not len(pair):  # such as KL: the answers ended before the edit applied
        return {**dict.fromkeys(_NUMBERS, float("nan")), "n": 0}
    unedited, edited = (float(x) for x in pair.mean(axis=0))
    before, after = pair.T
    found = (estimate(after - before) if metric == "kl" else share_difference(after, before, paired=True)).numbers
    return {"unedited": unedited, "edited": edited, "difference": found.pop("mean"), **found}


def measured(answers: pd.DataFrame) -> pd.DataFrame:
    """One row for each model, data set, edit and quantity, over the traced questions: drift, absorption, and so on."""
    rows: list[dict[str, Any]] = []
    traced = answers[answers["measured"].notna()]
    for (model, data), some in traced.groupby(["model", "data"], sort=False):
        for one in [RAG, *_with_controls(edits_of(some), some)]:
            found = list(some.loc[some["condition"] == one, "measured"])
            who = {"model": model, "data": data}
            who |= _named(one) if isinstance(one, Edited) else {"edit": UNEDITED, "settings": "", "control": False}
            rows += [who | row for row in _quantities(found)]
    return pd.DataFrame(rows)


def _quantities(found: list[Mapping[str, float]]) -> Iterator[dict[str, Any]]:
    for quantity in found[0] if found else ():
        one = estimate(np.array([values.get(quantity, np.nan) for values in found], dtype=np.float64))
        yield {"quantity": quantity, **one.numbers}


def moved(answers: pd.DataFrame) -> pd.DataFrame:
    """One row for each model, data set, edit, step and layer, over the traced questions. `rows` is how many rows of
    attention were changed, `mass` the attention moved in all of them, `mean` that per row."""
    some = answers[answers["moved"].notna() & (answers["kind"] == "edit")]
    rows: list[dict[str, Any]] = []
    for model, data, condition, changes in some[["model", "data", "condition", "moved"]].to_numpy(dtype=object):
        who = {"model": model, "data": data, **_named(condition)}
        rows += [who | dict(zip(("step", "layer", "rows", "mass"), change, strict=True)) for change in changes]
    if not rows:
        return pd.DataFrame(rows)
    keys = ["model", "data", *_EDIT, "step", "layer"]
    groups = pd.DataFrame(rows).groupby(keys, sort=False)
    found = groups.agg(rows=("rows", "sum"), mass=("mass", "sum"), n=("rows", "size"))
    return found.assign(mean=found["mass"] / found["rows"].where(found["rows"] > 0)).reset_index()


def effects_table(effects: pd.DataFrame, metric: str = "accuracy", labels: Mapping[str, str] | None = None) -> Table:
    """Edits by models, each beside its random control; `effects` are of one data set, `labels` short names of models.
    Example: `print(effects_table(edit_effects(answers)).to_markdown())`"""
    own = effects[effects["metric"] == metric]
    models = list(dict.fromkeys(own["model"]))
    cells = {(one["model"], one["condition"].edited, one["control"]): _cell(one, metric) for _, one in own.iterrows()}
    body = [
        (one.label, *(cells.get((model, one, control), "") for model in models for control in (False, True)))
        for one in dict.fromkeys(condition.edited for condition in own["condition"])
    ]
    if metric != "kl":
        unedited = own.groupby("model")["unedited"].first()
        body.insert(0, (UNEDITED, *(text for model in models for text in (f"{100 * unedited[model]:.1f}", ""))))
    groups = (("", 1), *(((labels or {}).get(model, model), 2) for model in models))
    names = ("edit", *(name for _ in models for name in ("edit", "random")))
    return Table(groups, names, tuple(body), _caption(own, metric))


def _caption(rows: pd.DataFrame, metric: str) -> str:
    least, most = (int(of(rows["n"])) for of in (min, max))
    asked = f"{most}" if least == most else f"{least} to {most}"
    return (
        f"{_CAPTIONS[metric]}; random: under the matched random control. In brackets: paired 95 % intervals "
        f"over {asked} questions."
    )


def _cell(effect: pd.Series, metric: str) -> str:
    mean, low, high = (float(effect[name]) for name in ("difference", "low", "high"))
    if math.isnan(mean):
        return "–"
    if metric == "kl":
        return f"{mean:.3f} [{low:.3f}, {high:.3f}]"
    return f"{100 * mean:+.1f} [{100 * low:.1f}, {100 * high:.1f}]"
