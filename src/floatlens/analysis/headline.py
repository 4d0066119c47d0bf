"""The headline numbers of a run as data: one row for each number, with an estimate for each model.

The page and the terminal render these rows; those of anchors are the numbers of the claims.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pandas as pd

from floatlens.analysis.anchors import QueryGroup
from floatlens.analysis.drift import QUERIES
from floatlens.analysis.effects import edit_effects
from floatlens.analysis.flow import gold_lift
from floatlens.analysis.intervals import Estimate
from floatlens.analysis.patching import patching_means
from floatlens.analysis.result import Result
from floatlens.analysis.scores import gains
from floatlens.analysis.stress import curves, robustness_frame
from floatlens.data.stress import STRESS_TESTS

__all__ = ["POINTS", "HeadlineRow", "headline"]

_LAYERS = "mean over the layers that have anchors"
_DRIFT: tuple[tuple[str, QueryGroup, str, str, str], ...] = (
    ("strongest", "answer", "Attention on the strongest key", "share above uniform", "0 = no anchor"),
    ("strongest", "all", "Attention on the strongest key", "share above uniform", "0 = no anchor"),
    ("first", "all", "Attention on the first position", "share above uniform", "0 = no sink there"),
    ("quarter_jaccard", "answer", "Anchor stability", "Jaccard, first to last quarter", "1 = fixed, 0 = all elsewhere"),
    ("quarter_jaccard", "all", "Anchor stability", "Jaccard, first to last quarter", "1 = fixed, 0 = all elsewhere"),
    ("speed", "answer", "Anchor speed", "positions per token written", "above 0 = to the right"),
    ("effective_anchors", "all", "Effective number of anchors", "", "1 = a single one, 0 = none"),
)
"""Variables of drift: name, query group, title, unit and reading."""
_LIFT = "rows that decided the answer: gold document ÷ mean of the others, ÷ the same for uniform attention; 1 = even"
POINTS = "percentage points"
"""The unit of gains and effects."""


@dataclass(frozen=True)
class HeadlineRow:
    """`values` are by model, in `unit`; `hint` says how to read them, `section` where they come from: the name of an
    analysis, or the kind of condition (rag, stress, edit, patch)."""

    title: str
    unit: str
    hint: str
    section: str
    values: Mapping[str, Estimate]

    @property
    def label(self) -> str:
        """Title and unit, as the head of the row."""
        return f"{self.title} ({self.unit})" if self.unit else self.title

    def cell(self, model: str) -> str:
        """The number of a model with its interval, as text; "" where it has none."""
        one = self.values.get(model)
        if one is None or np.isnan(one.mean):
            return ""
        number = "+.1f" if self.unit == POINTS else ".3g"
        if np.isnan(one.low):
            return f"{float(one.mean):{number}} (n = {int(one.n)}, no interval)"
        return f"{float(one.mean):{number}} [{float(one.low):{number}}, {float(one.high):{number}}]"


def headline(
    results: Mapping[str, Result],
    answers: pd.DataFrame | None = None,
    models: Sequence[str] = (),
    patching: pd.DataFrame | None = None,
) -> list[HeadlineRow]:
    """The headline numbers of these results, answers and patched questions; each row has its models in the order of
    `models`. Controls have none, and of a training course only the last snapshot has any.

    Example: `[(row.title, row.cell("scale:llada")) for row in headline(fl.analyse("runs/a", ["drift", "absorption"]))]`
    """
    results = {name: result.without_controls().last_steps() for name, result in results.items()}
    rows = [*_attention(results), *_flow(results)]
    if answers is not None and not answers.empty:
        rows += [*_gains(answers), *_robustness(answers), *_effects(answers)]
    if patching is not None and not patching.empty:
        rows += _patching(patching)
    found = dict.fromkeys([*models, *(model for row in rows for model in row.values)])
    ordered = [replace(row, values={m: row.values[m] for m in found if m in row.values}) for row in rows]
    return [row for row in ordered if row.values]


def _attention(results: Mapping[str, Result]) -> Iterator[HeadlineRow]:
    """Of drift, without controls; the title names the query group."""
    groups = results["drift"].without_controls().groups if "drift" in results else ()
    for variable, queries, title, unit, reading in _DRIFT:
        place = QUERIES.index(queries)
        values = {g.model: g.estimated(g.values(variable)[:, place]) for g in groups}
        yield HeadlineRow(f"{title}, {queries} rows", unit, f"{reading}; {_LAYERS}", "drift", values)
    spread = {g.model: g.estimated(g.values("entropy")[:, QUERIES.index("all")]) for g in groups}
    yield HeadlineRow("Spread of attention, all rows", "", "normalised entropy; 1 = uniform", "drift", spread)


def _flow(results: Mapping[str, Result]) -> Iterator[HeadlineRow]:
    groups = [group for group in results["flow"] if group.keys["gold"]] if "flow" in results else []
    ways: tuple[tuple[Literal["direct", "rollout"], str], ...]
    ways = (("direct", "Gold lift of attention"), ("rollout", "Gold lift of the rollout"))
    for gold, documents in sorted({(g.keys["gold"], g.keys["documents"]) for g in groups}, key=lambda at: at[::-1]):
        own = [g for g in groups if (g.keys["gold"], g.keys["documents"]) == (gold, documents)]
        where = f"gold at position {gold} of {documents}"
        for how, title in ways:
            values = {g.model: gold_lift(g, how) for g in own}
            yield HeadlineRow(f"{title}, {where}", "× uniform", _LIFT, "flow", values)


def _gains(answers: pd.DataFrame) -> Iterator[HeadlineRow]:
    found = gains(answers)
    found = found[(found["metric"] == "accuracy") & (found["data"] != "average")]
    hint = "accuracy with documents minus accuracy closed book, same questions"
    for data, own in found.groupby("data", sort=False):
        yield HeadlineRow(f"Gain from documents, {data}", POINTS, hint, "rag", _values(own, "gain", 100))


def _robustness(answers: pd.DataFrame) -> Iterator[HeadlineRow]:
    found = robustness_frame(curves(answers))
    hint = "accuracy over all points ÷ accuracy of the reference; 1 = unaffected"
    if not found.empty:
        for (data, test, series), own in found.groupby(["data", "test", "series"], sort=False):
            if STRESS_TESTS[str(test)].headline:
                words = STRESS_TESTS[str(test)].series_label(str(series))
                title = f"Robustness to {test}{f' ({words})' if words else ''}, {data}"
                yield HeadlineRow(title, "", hint, "stress", _values(own, "robustness"))


def _effects(answers: pd.DataFrame) -> Iterator[HeadlineRow]:
    """For each edit, its first dose."""
    found = edit_effects(answers)
    found = found[(found["metric"] == "accuracy") & (found["control"] == "")]
    for (data, _), own in found.groupby(["data", "edit"], sort=False):
        first = own[own["condition"] == own["condition"].iloc[0]]
        title = f"Effect of {first['condition'].iloc[0].label}, {data}"
        hint = "accuracy under the edit minus unedited, same questions"
        yield HeadlineRow(title, POINTS, hint, "edit", _values(first, "difference", 100))


def _patching(frame: pd.DataFrame) -> Iterator[HeadlineRow]:
    found = patching_means(frame)
    hint = "effect minus that of random keys that receive as much, mean over layers; 1 = the counterfactual answer"
    for (data, what), own in found[found["part"] == "difference"].groupby(["data", "what"], sort=False):
        yield HeadlineRow(f"Effect of patching anchors ({what}), {data}", "", hint, "patch", _values(own, "effect"))


def _values(rows: pd.DataFrame, mean: str, times: float = 1) -> dict[str, Estimate]:
    made = {}
    for row in rows.to_dict("records"):
        middle, low, high = (np.asarray(times * float(row[name])) for name in (mean, "low", "high"))
        made[str(row["model"])] = Estimate(middle, np.asarray(np.nan), low, high, np.asarray(int(row["n"])))
    return made
