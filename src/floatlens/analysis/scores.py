"""Scores and gains from the answers frame, and Table 1 of the paper: models closed book and with retrieval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from floatlens.analysis.intervals import Estimate, average_share_difference, share, share_difference
from floatlens.analysis.kernels import Floats
from floatlens.analysis.tables import Table
from floatlens.records.condition import CLOSED, RAG, Condition

__all__ = ["AVERAGES", "METRICS", "VALUES", "gains", "scores", "table_one", "with_outcomes"]

METRICS = ("accuracy", "f1", "exact_match")
_SOME = ("parts", "misled", "right", "none")
"""Scores that only some data has: answers of several parts, and wrong answers that are named."""
_SHOWN = {"accuracy": "Acc", "f1": "F1"}
_MISLED = "Misled"
_GAIN = ["model", "data", "metric", "before", "after", "gain", "low", "high", "n"]


def scores(answers: pd.DataFrame) -> pd.DataFrame:
    """Mean of each metric for each model, data set and condition, as a share, with Wilson's interval over questions.

    `parts` is there for answers of several parts; where wrong answers are named, `right`, `misled` and `none` are there
    and add up to 1.
    Example: `scores(answers).query("metric == 'accuracy'")`"""
    rows = []
    for (model, data, condition), group in with_outcomes(answers).groupby(["model", "data", "condition"], sort=False):
        who = {"model": model, "data": data, "condition": str(condition), "kind": group["kind"].iloc[0]}
        for metric in (*METRICS, *(one for one in _SOME if group[one].notna().any())):
            found = share(group[metric].dropna().to_numpy(dtype=np.float64))
            rows.append({**who, "metric": metric, **found.numbers})
    return pd.DataFrame(rows, columns=["model", "data", "condition", "kind", "metric", "mean", "low", "high", "n"])


def with_outcomes(answers: pd.DataFrame) -> pd.DataFrame:
    """The answers with the columns `right` (an accepted answer and no wrong one is stated) and `none` (neither is), 0
    or 1; NaN where the data names no wrong answers."""
    right, misled = (answers[name].astype(float) for name in ("accuracy", "misled"))
    return answers.assign(misled=misled, right=right * (1 - misled), none=(1 - right) * (1 - misled))


def gains(answers: pd.DataFrame, before: Condition = CLOSED, after: Condition = RAG) -> pd.DataFrame:
    """What each metric gains from one condition to the other, on the questions answered in both, with the interval
    of `share_difference` for pairs. One row for each model, data set and metric. Data "average" is the mean over data
    sets, each counting alike; the metric "average" is the mean of accuracy and F1 (the Avg. of Table 1)."""
    rows = []
    for model, own in answers.groupby("model", sort=False):
        pairs = {
            str(data): pair
            for data, group in own.groupby("data", sort=False)
            if len(pair := _pairs(group, before, after))
        }
        for metric in (*METRICS, "average", "misled"):
            values = {data: _of(pair, metric) for data, pair in pairs.items()}
            values = {data: one for data, one in values.items() if len(one[0])}
            found = {data: share_difference(new, old, paired=True) for data, (old, new) in values.items()}
            for data, (old, new) in values.items():
                rows.append(_gain(str(model), data, metric, old.mean(), new.mean(), found[data]))
            if values:
                old, new = (np.mean([value[i].mean() for value in values.values()]) for i in (0, 1))
                whole = average_share_difference([(later, earlier) for earlier, later in values.values()])
                rows.append(_gain(str(model), "average", metric, float(old), float(new), whole))
    return pd.DataFrame(rows, columns=_GAIN)


def _pairs(group: pd.DataFrame, before: Condition, after: Condition) -> pd.DataFrame:
    """Questions with scores in both conditions, side by side: columns (metric, "old" or "new")."""
    side = {before: "old", after: "new"}
    kept = group[group["condition"].isin(list(side))].dropna(subset=list(METRICS))
    named = kept.assign(side=kept["condition"].map(side), misled=kept["misled"].astype(float))
    wide = named.pivot(index="id", columns="side", values=[*METRICS, "misled"])
    wanted = [(metric, name) for metric in METRICS for name in side.values()]
    return wide.dropna(subset=wanted) if all(column in wide.columns for column in wanted) else wide.iloc[:0]


def _of(pair: pd.DataFrame, metric: str) -> tuple[Floats, Floats]:
    names = tuple(_SHOWN) if metric == "average" else (metric,)
    pair = pair.dropna(subset=[(name, side) for name in names for side in ("old", "new")])
    old, new = (
        np.mean([pair[name, side].to_numpy(dtype=np.float64) for name in names], axis=0) for side in ("old", "new")
    )
    return old, new


def _gain(model: str, data: str, metric: str, old: float, new: float, found: Estimate) -> dict[str, object]:
    values = found.numbers
    gain = values.pop("mean")
    return {"model": model, "data": data, "metric": metric, "before": old, "after": new, "gain": gain, **values}


# -- Table 1 ------------------------------------------------------------------------------------------------------

PAPER = "arXiv 2601.07894, Table 1"


class Average(NamedTuple):
    """A model's average over the table. The gain is the printed one, which was rounded by itself."""

    closed: float
    rag: float
    gain: float


# What the paper printed, in percent; only values that are known exactly.
VALUES: dict[tuple[str, str], dict[str, tuple[float, float]]] = {
    ("nq", "accuracy"): {
        "Llama": (15.69, 35.92),
        "Qwen": (14.95, 34.16),
        "LLaDA": (11.77, 55.30),
        "Dream": (17.48, 38.66),
    }
}
"""(data set, metric) → model → (closed book, with retrieved passages)."""

AVERAGES = {
    "Llama": Average(28.89, 36.25, 7.37),
    "Qwen": Average(28.09, 37.74, 9.64),
    "Dream": Average(26.16, 39.39, 13.23),
    "LLaDA": Average(22.52, 48.20, 25.68),
}


def table_one(
    answers: pd.DataFrame,
    columns: Sequence[tuple[str, str]],
    *,
    paper: bool = False,
    labels: Mapping[str, str] | None = None,
) -> Table:
    """Rows model and model with RAG; columns Acc and F1 of each data set, their average and the gain, in percent.

    A data set that names wrong answers has a column Misled as well, which is no part of the average. `columns` are data
    sets by name with their titles, in order. `labels` are short names of models. `paper` adds the published rows below,
    where they are known exactly.

    Example: `print(table_one(answers, [("nq", "NQ")]).to_markdown())`
    """
    found, gained = scores(answers), gains(answers)
    names = [data for data, _ in columns]
    misled = set(found.loc[found["metric"] == "misled", "data"])
    heads = {data: _SHOWN | ({"misled": _MISLED} if data in misled else {}) for data in names}
    rows = []
    for model in dict.fromkeys(answers["model"]):
        label = (labels or {}).get(model, model)
        for kind, name in (("closed", label), ("rag", f"{label} w/ RAG")):
            own = found[(found["model"] == model) & (found["kind"] == kind)].set_index(["data", "metric"])["mean"]
            cells = [_percent(own.get((data, metric), np.nan)) for data in names for metric in heads[data]]
            if any(cells):
                rows.append((name, *cells, *_last(gained, model, kind, own[own.index.isin(names, level="data")])))
    if paper:
        rows += _published(heads)
    covered = [title for data, title in columns if data in set(gained["data"])]
    average = "Avg." if gained.empty or len(covered) == len(columns) else f"Avg. ({', '.join(covered)})"
    groups = (("", 1), *((title, len(heads[data])) for data, title in columns), (average, 1), ("Gain", 1))
    shown = ("model", *(name for data in names for name in heads[data].values()), "", "")
    return Table(groups, shown, tuple(rows), _caption(gained, paper, misled=bool(misled)))


def _percent(share: float) -> str:
    return "" if np.isnan(share) else f"{100 * share:.1f}"


def _last(gained: pd.DataFrame, model: str, kind: str, own: pd.Series[float]) -> tuple[str, str]:
    """Average and gain; where one of the two conditions is missing, the average of what the row shows."""
    row = gained[(gained["model"] == model) & (gained["data"] == "average") & (gained["metric"] == "average")]
    if row.empty:
        return _percent(own[own.index.isin(list(_SHOWN), level="metric")].mean()), ""
    values = row.iloc[0]
    if kind == "closed":
        return _percent(values["before"]), ""
    gain = f"{100 * values['gain']:+.1f} [{100 * values['low']:.1f}, {100 * values['high']:.1f}]"
    return _percent(values["after"]), gain


def _published(heads: Mapping[str, Mapping[str, str]]) -> list[tuple[str, ...]]:
    rows = []
    for model, average in AVERAGES.items():
        for i, name in enumerate((f"{model} ({PAPER})", f"{model} w/ RAG ({PAPER})")):
            pairs = [VALUES.get((data, metric), {}).get(model) for data, shown in heads.items() for metric in shown]
            cells = ["" if pair is None else f"{pair[i]:.2f}" for pair in pairs]
            total, gain = (average.rag, f"{average.gain:+.2f}") if i else (average.closed, "")
            rows.append((name, *cells, f"{total:.2f}", gain))
    return rows


def _caption(gained: pd.DataFrame, paper: bool, *, misled: bool) -> str:
    named = " Misled: the answer states a wrong answer that the data names." if misled else ""
    text = (
        "In percent. Acc: the answer states an accepted answer (docs/qa.md); F1: over bags of words; Avg.: "
        "the mean of Acc and F1 over data sets, on the questions answered in both conditions; gain: from closed book "
        "to RAG, in percentage points, with a paired 95 % interval over questions (Tango)."
    )
    if not gained.empty:
        text += f" {int(gained.loc[gained['data'] == 'average', 'n'].max())} questions."
    text += named
    return text + (" The paper's rows are of 7-8B models on its own data." if paper else "")
