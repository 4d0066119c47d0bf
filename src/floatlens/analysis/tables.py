"""Table 1 of the paper from scored answers: models closed book and with retrieval, their average and their gain.

Takes a frame with one row per answer (model, data, condition, id and the scores) and gives numbers with intervals, or
the table as Markdown, CSV or LaTeX. Text from data and models is escaped for each of them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from floatlens.analysis.intervals import Estimate, estimate, mean_of_means
from floatlens.analysis.paper import AVERAGES, PAPER, VALUES

__all__ = ["METRICS", "Table", "gains", "scores", "table_one"]

METRICS = ("accuracy", "f1", "exact_match")
_SHOWN = {"accuracy": "Acc", "f1": "F1"}
_BOTH = tuple(_SHOWN)
_LATEX = {c: f"\\{c}" for c in "&%$#_{}"} | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\^{}"}


def scores(answers: pd.DataFrame) -> pd.DataFrame:
    """Mean of every metric for each model, data set and condition, with its interval over questions (shares)."""
    rows = []
    for (model, data, condition), group in answers.groupby(["model", "data", "condition"], sort=False):
        for metric in METRICS:
            found = estimate(group[metric].dropna().to_numpy(dtype=np.float64))
            rows.append({"model": model, "data": data, "condition": condition, "metric": metric, **_numbers(found)})
    return pd.DataFrame(rows)


def gains(answers: pd.DataFrame, before: str = "closed", after: str = "rag") -> pd.DataFrame:
    """What a metric gains from one condition to the other on the questions answered in both, with paired intervals.

    One row per model, data set and metric; data "average" is the mean over data sets, each counting alike; the metric
    "average" is the mean of accuracy and F1, which is what the Avg. of the table means.
    """
    rows = []
    for model, own in answers.groupby("model", sort=False):
        pairs = {
            str(data): pair
            for data, group in own.groupby("data", sort=False)
            if len(pair := _pairs(group, before, after))
        }
        for metric in (*METRICS, "average"):
            values = {data: _of(pair, metric) for data, pair in pairs.items()}
            for data, (old, new) in values.items():
                rows.append(_gain(str(model), data, metric, old.mean(), new.mean(), estimate(new - old)))
            if values:
                old, new = (np.mean([value[i].mean() for value in values.values()]) for i in (0, 1))
                found = mean_of_means([new - old for old, new in values.values()])
                rows.append(_gain(str(model), "average", metric, float(old), float(new), found))
    return pd.DataFrame(rows, columns=["model", "data", "metric", "before", "after", "gain", "low", "high", "n"])


def _pairs(group: pd.DataFrame, before: str, after: str) -> pd.DataFrame:
    """Questions that have scores in both conditions, side by side."""
    kept = group[group["condition"].isin([before, after])].dropna(subset=list(METRICS))
    wide = kept.pivot(index="id", columns="condition", values=list(METRICS))
    wanted = [(metric, condition) for metric in METRICS for condition in (before, after)]
    if not all(column in wide.columns for column in wanted):
        return wide.iloc[:0]
    paired = wide.dropna()
    side = {before: "old", after: "new"}
    return paired.set_axis([f"{name[0]} {side[name[1]]}" for name in paired.columns], axis=1)


def _of(pair: pd.DataFrame, metric: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    names = _BOTH if metric == "average" else (metric,)
    old, new = (
        np.mean([pair[f"{name} {side}"].to_numpy(dtype=np.float64) for name in names], axis=0)
        for side in ("old", "new")
    )
    return old, new


def _numbers(found: Estimate) -> dict[str, float]:
    return {"mean": float(found.mean), "low": float(found.low), "high": float(found.high), "n": int(found.n)}


def _gain(model: str, data: str, metric: str, old: float, new: float, found: Estimate) -> dict[str, object]:
    values = _numbers(found)
    gain = values.pop("mean")
    return {"model": model, "data": data, "metric": metric, "before": old, "after": new, "gain": gain, **values}


# -- the table as it is printed -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Table:
    """A table of texts with two header rows: groups (each over `span` columns) and columns. Text is escaped for each
    format."""

    groups: tuple[tuple[str, int], ...]
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    caption: str

    def to_frame(self) -> pd.DataFrame:
        """With one header row: group and column in one name."""
        names = [f"{group} {name}".strip() for group, name in zip(self._over(), self.columns, strict=True)]
        return pd.DataFrame(list(self.rows), columns=names)

    def to_markdown(self) -> str:
        frame = self.to_frame()
        lines = [list(map(_in_markdown, frame.columns)), ["---", *["---:"] * (len(self.columns) - 1)]]
        lines += [list(map(_in_markdown, row)) for row in self.rows]
        return "".join(f"| {' | '.join(line)} |\n" for line in lines) + f"\n{_in_markdown(self.caption)}\n"

    def to_csv(self) -> str:
        return self.to_frame().map(_in_csv).to_csv(index=False, lineterminator="\n")

    def to_latex(self) -> str:
        """For the package booktabs."""
        heads = pd.MultiIndex.from_arrays([[_in_latex(name) for name in row] for row in (self._over(), self.columns)])
        frame = pd.DataFrame([[_in_latex(cell) for cell in row] for row in self.rows], columns=heads)
        right = "r" * (len(self.columns) - 1)
        return frame.to_latex(
            index=False, multicolumn_format="c", column_format="l" + right, caption=_in_latex(self.caption)
        )

    def _over(self) -> list[str]:
        return [name for name, span in self.groups for _ in range(span)]


def table_one(
    answers: pd.DataFrame,
    columns: Sequence[tuple[str, str]],
    *,
    paper: bool = False,
    labels: dict[str, str] | None = None,
) -> Table:
    """Rows model and model with RAG, columns Acc and F1 of every data set, their average and the gain, in per cent.

    `columns` are data sets by name with the titles they get, in order. `labels` are short names of models. With `paper`
    the published rows stand below, as far as they are known exactly.
    """
    found, gained = scores(answers), gains(answers)
    models = list(dict.fromkeys(answers["model"]))
    rows = []
    for model in models:
        label = (labels or {}).get(model, model)
        for condition, name in (("closed", label), ("rag", f"{label} w/ RAG")):
            cells = [_cell(found, model, data, condition, metric) for data, _ in columns for metric in _SHOWN]
            if any(cells):
                rows.append((name, *cells, *_last(gained, model, condition, [data for data, _ in columns], found)))
    if paper:
        rows += _published([data for data, _ in columns])
    groups = (("", 1), *((title, len(_SHOWN)) for _, title in columns), ("Avg.", 1), ("Gain", 1))
    names = ("model", *(name for _ in columns for name in _SHOWN.values()), "", "")
    return Table(groups, names, tuple(rows), _caption(gained, paper))


def _cell(found: pd.DataFrame, model: str, data: str, condition: str, metric: str) -> str:
    wanted = (found["model"] == model) & (found["data"] == data) & (found["condition"] == condition)
    mean = found.loc[wanted & (found["metric"] == metric), "mean"]
    return "" if mean.empty or np.isnan(mean.iloc[0]) else f"{100 * mean.iloc[0]:.1f}"


def _last(
    gained: pd.DataFrame, model: str, condition: str, data: Sequence[str], found: pd.DataFrame
) -> tuple[str, str]:
    """Average and gain; the average is of what stands in the row, where one of the two conditions is missing."""
    row = gained[(gained["model"] == model) & (gained["data"] == "average") & (gained["metric"] == "average")]
    if row.empty:
        own = found[(found["model"] == model) & (found["condition"] == condition) & found["metric"].isin(_BOTH)]
        mean = own[own["data"].isin(data)]["mean"].mean()
        return ("" if np.isnan(mean) else f"{100 * mean:.1f}"), ""
    values = row.iloc[0]
    if condition == "closed":
        return f"{100 * values['before']:.1f}", ""
    return (
        f"{100 * values['after']:.1f}",
        f"{100 * values['gain']:+.1f} [{100 * values['low']:.1f}, {100 * values['high']:.1f}]",
    )


def _published(data: Sequence[str]) -> list[tuple[str, ...]]:
    rows = []
    for model, average in AVERAGES.items():
        for i, name in enumerate((f"{model} ({PAPER})", f"{model} w/ RAG ({PAPER})")):
            pairs = [VALUES.get((one, metric), {}).get(model) for one in data for metric in _SHOWN]
            cells = ["" if pair is None else f"{pair[i]:.2f}" for pair in pairs]
            total, gain = (average.rag, f"{average.gain:+.2f}") if i else (average.closed, "")
            rows.append((name, *cells, f"{total:.2f}", gain))
    return rows


def _caption(gained: pd.DataFrame, paper: bool) -> str:
    text = (
        "Per cent. Acc: a normalised accepted answer is part of the normalised answer; F1: over bags of words; Avg.: "
        "the mean of Acc and F1 over data sets, on questions answered in both conditions; gain: closed book to RAG, "
        "with a paired 95 % bootstrap interval over questions."
    )
    if not gained.empty:
        text += f" {int(gained.loc[gained['data'] == 'average', 'n'].max())} questions."
    return text + (" Rows of the paper are of 7-8B models on its own data." if paper else "")


def _in_markdown(text: str) -> str:
    return re.sub(r"([\\`*_{}\[\]<>|#~])", r"\\\1", " ".join(text.split())) if not _NUMBER.fullmatch(text) else text


def _in_csv(text: str) -> str:
    """A cell that a spreadsheet would take for a formula is quoted by an apostrophe, numbers aside."""
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") and not _NUMBER.fullmatch(text) else text


def _in_latex(text: str) -> str:
    return "".join(_LATEX.get(c, c) for c in " ".join(text.split()))


_NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?(?: \[-?\d+(?:\.\d+)?, -?\d+(?:\.\d+)?\])?")
