"""What edits of attention do, from the answers frame: scores, measurements and attention moved, beside the controls."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from floatlens.analysis.conditions import dose, draws_of, edits_of, exposed
from floatlens.analysis.intervals import estimate, share_difference
from floatlens.analysis.kernels import Floats
from floatlens.analysis.tables import Table
from floatlens.records.condition import RAG, Edited

__all__ = ["UNEDITED", "edit_effects", "effects_table", "measured", "moved"]

UNEDITED = "unedited"
"""What tables call the answers without an edit."""
METRICS = ("accuracy", "f1", "kl")
_NUMBERS = ("unedited", "edited", "difference", "low", "high")
_EDIT = ("edit", "settings", "control")
_COLUMNS = (
    *("model", "kind", "data", "condition", *_EDIT, "dose", "draws", "moved", "metric", *_NUMBERS, "n"),
    *("exposed", "difference_exposed", "low_exposed", "high_exposed"),
)
_CONTROLS = {"count": "count control", "mass": "mass control"}
_CAPTIONS = {
    "accuracy": "Accuracy: change vs. unedited, in percentage points",
    "f1": "F1: change vs. unedited, in percentage points",
    "kl": "KL divergence (nats) from the unedited distribution, at the first token that an edit can change",
}


def edit_effects(answers: pd.DataFrame) -> pd.DataFrame:
    """One row for each model, data set, edit (or kind of control) and metric: the score, and its change vs. unedited.

    Both are means over the questions answered under both; the draws of a control are averaged per question first, and
    `draws` is their number. `exposed` is how many of the questions the edit can change at all (see
    `conditions.exposed`), and the columns that end in `_exposed` are the change over these. `control` is "", "count"
    or "mass", `moved` the attention moved per row, `condition` the edit or control itself, for grouping.

    Example: `edit_effects(answers).query("metric == 'accuracy' and control == ''")`
    """
    rows = []
    order = edits_of(answers)
    for (model, kind, data), own in answers.groupby(["model", "model_kind", "data"], sort=False):
        draws = draws_of(own)
        reached = {edit: exposed(own, edit) for edit in order}
        moved_by = own.groupby("condition", sort=False)["moved_share"].apply(lambda x: x.astype(float).mean())
        for metric in METRICS:
            wide = own.pivot(index="id", columns="condition", values=metric).astype(float)
            if metric == "kl":
                wide[RAG] = 0.0
            for one, drawn in draws.items() if RAG in wide.columns else ():
                pair = pd.DataFrame({"unedited": wide[RAG], "edited": wide[drawn].mean(axis=1)}).dropna()
                who = {"model": model, "kind": kind, "data": data, "condition": one, **_named(one)}
                who |= {
                    "dose": dose(one),
                    "draws": len(drawn),
                    "moved": moved_by[moved_by.index.isin(drawn)].mean(),
                    "metric": metric,
                }
                some = pair[pair.index.isin(reached[one.edited])]
                found = _compared(some.to_numpy(dtype=np.float64), metric)
                narrow = {f"{name}_exposed": found[name] for name in ("difference", "low", "high")}
                rows.append(who | _compared(pair.to_numpy(dtype=np.float64), metric) | {"exposed": len(some)} | narrow)
    return pd.DataFrame(rows, columns=list(_COLUMNS))


def _named(one: Edited) -> dict[str, Any]:
    return {"edit": one.name, "settings": one.settings_label, "control": one.control or ""}


def _compared(pair: Floats, metric: str) -> dict[str, float]:
    if not len(pair):  # such as KL: the answers ended before the edit applied
        return {**dict.fromkeys(_NUMBERS, float("nan")), "n": 0}
    unedited, edited = (float(x) for x in pair.mean(axis=0))
    before, after = pair.T
    found = (estimate(after - before) if metric == "kl" else share_difference(after, before, paired=True)).numbers
    return {"unedited": unedited, "edited": edited, "difference": found.pop("mean"), **found}


def measured(answers: pd.DataFrame) -> pd.DataFrame:
    """One row for each model, data set, edit and quantity, over the traced questions: drift, absorption, and so on. The
    draws of a control are averaged per question first."""
    rows: list[dict[str, Any]] = []
    traced = answers[answers["measured"].notna()]
    for (model, data), some in traced.groupby(["model", "data"], sort=False):
        for one, drawn in ({RAG: [RAG]} | draws_of(some)).items():
            own = some[some["condition"].isin(drawn)]
            found: list[dict[str, float]] = [
                dict(pd.DataFrame(list(values)).mean()) for _, values in own.groupby("id")["measured"]
            ]
            who = {"model": model, "data": data}
            who |= _named(one) if isinstance(one, Edited) else {"edit": UNEDITED, "settings": "", "control": ""}
            rows += [who | row for row in _quantities(found)]
    return pd.DataFrame(rows)


def _quantities(found: Sequence[Mapping[str, float]]) -> Iterator[dict[str, Any]]:
    for quantity in dict.fromkeys(name for values in found for name in values):
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
    """Edits by models, each beside its random controls; `effects` are of one data set, `labels` short names of models.
    Example: `print(effects_table(edit_effects(answers)).to_markdown())`"""
    own = effects[effects["metric"] == metric]
    models = list(dict.fromkeys(own["model"]))
    kinds = ["", *(kind for kind in _CONTROLS if (own["control"] == kind).any())]
    cells = {(one["model"], one["condition"].edited, one["control"]): _cell(one, metric) for _, one in own.iterrows()}
    body = [
        (one.label, *(cells.get((model, one, kind), "") for model in models for kind in kinds))
        for one in dict.fromkeys(condition.edited for condition in own["condition"])
    ]
    if metric != "kl":
        unedited = own.groupby("model")["unedited"].first()
        blank = [""] * (len(kinds) - 1)
        body.insert(0, (UNEDITED, *(text for model in models for text in (f"{100 * unedited[model]:.1f}", *blank))))
    groups = (("", 1), *(((labels or {}).get(model, model), len(kinds)) for model in models))
    names = ("edit", *(_CONTROLS.get(kind, "edit") for _ in models for kind in kinds))
    return Table(groups, names, tuple(body), _caption(own, metric))


def _caption(rows: pd.DataFrame, metric: str) -> str:
    words = [_CAPTIONS[metric]]
    drawn = rows[rows["control"] != ""]
    if not drawn.empty:
        words.append("controls: random keys or heads, as many (count) or as much attention (mass)")
        if drawn["draws"].max() > 1:
            words.append(f"means over {_span(drawn['draws'])} draws of each control")
    return (
        f"{'; '.join(words)}. In brackets: paired 95 % intervals over {_span(rows['n'])} questions, of which "
        f"{_span(rows['exposed'])} are exposed: the edit can change the answer."
    )


def _span(numbers: pd.Series) -> str:
    least, most = int(numbers.min()), int(numbers.max())
    return f"{most}" if least == most else f"{least} to {most}"


def _cell(effect: pd.Series, metric: str) -> str:
    mean, low, high = (float(effect[name]) for name in ("difference", "low", "high"))
    if math.isnan(mean):
        return "–"
    if metric == "kl":
        return f"{mean:.3f} [{low:.3f}, {high:.3f}]"
    return f"{100 * mean:+.1f} [{100 * low:.1f}, {100 * high:.1f}]"
