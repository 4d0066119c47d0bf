"""The headline numbers of a run as data: one row for each number, with an estimate for each model.

The page and the terminal render these rows; anchor stability, speed and strength are those of the claims.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pandas as pd

from floatlens.analysis.absorption import VIEWS, anchored, strength
from floatlens.analysis.effects import edit_effects
from floatlens.analysis.flow import gold_lift
from floatlens.analysis.intervals import Estimate
from floatlens.analysis.result import Result
from floatlens.analysis.scores import gains
from floatlens.analysis.stress import curves, robustness_frame
from floatlens.data.stress import STRESS_TESTS

__all__ = ["POINTS", "HeadlineRow", "headline"]

_LAYERS = "mean over the layers that have an anchor"
_WHOLE = "of attention averaged over layers"
_LIFT = "rows that decided the answer: gold document ÷ mean of the others, ÷ the same for uniform attention; 1 = even"
POINTS = "percentage points"
"""The unit of gains and effects."""


@dataclass(frozen=True)
class HeadlineRow:
    """`values` are by model, in `unit`; `hint` says how to read them, `section` where they come from: the name of an
    analysis, or the kind of condition (rag, stress, edit)."""

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
    results: Mapping[str, Result], answers: pd.DataFrame | None = None, models: Sequence[str] = ()
) -> list[HeadlineRow]:
    """The headline numbers of these results and answers; each row has its models in the order of `models`. Controls
    have none.

    Example: `[(row.title, row.cell("scale:llada")) for row in headline(fl.analyse("runs/a", ["drift", "absorption"]))]`
    """
    results = {name: result.without_controls() for name, result in results.items()}
    rows = [*_attention(results), *_flow(results)]
    if answers is not None and not answers.empty:
        rows += [*_gains(answers), *_robustness(answers), *_effects(answers)]
    found = dict.fromkeys([*models, *(model for row in rows for model in row.values)])
    ordered = [replace(row, values={m: row.values[m] for m in found if m in row.values}) for row in rows]
    return [row for row in ordered if row.values]


def _attention(results: Mapping[str, Result]) -> Iterator[HeadlineRow]:
    drift, absorption = results.get("drift"), results.get("absorption")
    if drift is not None and absorption is not None:
        for variable, title, unit, hint in (
            ("jaccard_by_layer", "Anchor stability", "Jaccard, step to step", "1 = the same anchors at every step"),
            ("slope_by_layer", "Anchor speed", "positions per step", "above 0 = to the right"),
        ):
            values = {g.model: g.estimated(anchored(g, absorption.group(**g.keys), variable)) for g in drift}
            yield HeadlineRow(title, unit, f"{hint}; {_LAYERS}", "drift", values)
    if absorption is not None:
        hint = "1 = no more than uniform attention; mean over layers"
        first, strongest = ({g.model: g.estimated(strength(g, v)) for g in absorption} for v in VIEWS)
        yield HeadlineRow("Attention on the first position", "× uniform", hint, "absorption", first)
        yield HeadlineRow("Anchor strength of the strongest key", "× uniform", hint, "absorption", strongest)
    if drift is not None:
        for variable, title, hint in (
            ("distinct", "Distinct anchors", f"tokens that are an anchor at some step, {_WHOLE}"),
            ("entropy", "Spread of attention", f"normalised entropy, {_WHOLE}; 1 = uniform"),
        ):
            yield HeadlineRow(title, "", hint, "drift", {g.model: g.estimate(variable) for g in drift})


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
    found = found[(found["metric"] == "accuracy") & ~found["control"].astype(bool)]
    for (data, _), own in found.groupby(["data", "edit"], sort=False):
        first = own[own["condition"] == own["condition"].iloc[0]]
        title = f"Effect of {first['condition'].iloc[0].label}, {data}"
        hint = "accuracy under the edit minus unedited, same questions"
        yield HeadlineRow(title, POINTS, hint, "edit", _values(first, "difference", 100))


def _values(rows: pd.DataFrame, mean: str, times: float = 1) -> dict[str, Estimate]:
    made = {}
    for row in rows.to_dict("records"):
        middle, low, high = (np.asarray(times * float(row[name])) for name in (mean, "low", "high"))
        made[str(row["model"])] = Estimate(middle, np.asarray(np.nan), low, high, np.asarray(int(row["n"])))
    return made
