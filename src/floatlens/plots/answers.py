"""Figures of answers: what documents gain, accuracy under stress tests, and the effect of edits beside controls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from floatlens.analysis.conditions import DosePanel, dose_panels
from floatlens.core.errors import FloatlensError
from floatlens.data.stress import STRESS_TESTS
from floatlens.plots.description import Axis, Figure, Look, Panel, Series, grid, series
from floatlens.plots.drawing import plot
from floatlens.plots.registry import FigureType
from floatlens.plots.style import label_of, looks_of, span

if TYPE_CHECKING:
    import pandas as pd

    from floatlens.analysis.stress import Curve

__all__ = ["plot_edits", "plot_gains", "plot_stress"]

METRICS = {"accuracy": "accuracy", "f1": "F1", "exact_match": "exact match", "misled": "misled rate"}
_SHARE = (-0.03, 1.03)
_EFFECTS = {
    "accuracy": (
        "Accuracy under edits of attention",
        Axis("change in accuracy\n(percentage points)", unit=" pp"),
        100.0,
    ),
    "f1": ("F1 under edits of attention", Axis("change in F1\n(percentage points)", unit=" pp"), 100.0),
    "kl": ("Change of the first token under edits", Axis("KL divergence (nats)", unit=" nats"), 1.0),
}


@plot()
def plot_gains(rows: pd.DataFrame, metric: str = "accuracy") -> Figure:
    """What documents gain, from the frame of `gains` with a column "kind" ("arm" or "mdm") of each model.

    Example: `fl.plot_gains(gains(answers).assign(kind="mdm"))`
    """
    chosen = rows[(rows["metric"] == metric) & (rows["data"] != "average")]
    if chosen.empty:
        raise FloatlensError("no question was answered both closed book and with documents: there is no gain to draw")
    data = list(dict.fromkeys(chosen["data"]))
    style = looks_of(dict(zip(chosen["model"], chosen["kind"], strict=True)))
    drawn = tuple(_gained(look, chosen[chosen["model"] == model], data) for model, look in style.items())
    ticks = tuple((float(i), label_of(name)) for i, name in enumerate(data))
    x, y = Axis("", ticks, range=(-0.6, len(data) - 0.4)), Axis(METRICS[metric], range=_SHARE, percent=True)
    words = (
        "dash: score closed book, marker: score with documents · whiskers: paired 95 % interval of the gain · "
        f"n = {span([int(n) for n in chosen['n']])} questions per model and data set"
    )
    size = (max(4.2, 1.4 + 1.9 * len(data)), 3.4)
    title, width = "Accuracy closed book and with documents", 300 + 130 * len(data)
    return Figure(title, (Panel("gains", "", x, y, drawn),), words, size=size, page_width=width)


def _gained(look: Look, rows: pd.DataFrame, data: Sequence[str]) -> Series:
    before = rows["before"].to_numpy(dtype=float)
    parts = {key: tuple(map(float, rows[key])) for key in ("after", "low", "high", "n")}
    return Series(
        look,
        tuple(float(data.index(name)) for name in rows["data"]),
        parts["after"],
        tuple(before + parts["low"]),
        tuple(before + parts["high"]),
        tuple(int(n) for n in parts["n"]),
        "dumbbell",
        start=tuple(before),
    )


@plot()
def plot_stress(curves: Sequence[Curve], test: str) -> Figure:
    """Accuracy under one stress test, from `curves(answers)`, or the misled rate, from `misled_curves(answers)`. Panels
    are named after the series.

    Where the axis has no scale, points are side by side without a line between them.

    Example: `fl.plot_stress(curves(answers), "noise")`
    """
    found = [curve for curve in curves if curve.test == test]
    if not found:
        raise FloatlensError(f'no curve of the test "{test}"; there are {sorted({curve.test for curve in curves})}')
    style = looks_of({curve.model: curve.kind for curve in found})
    several = len({curve.data for curve in found}) > 1
    panels = []
    for data, name in dict.fromkeys((curve.data, curve.series) for curve in found):
        own = [curve for curve in found if (curve.data, curve.series) == (data, name)]
        words = [label_of(data) if several else "", STRESS_TESTS[test].series_label(name)]
        panels.append(_stressed(f"{data} {name}" if several else name, ": ".join(filter(None, words)), own, style))
    layout = grid(len(panels), 3)
    counts = [int(n) for curve in found for n in np.ravel(curve.scores.n)]
    words_below = f"{STRESS_TESTS[test].about} n = {span(counts)} questions per point; 95 % intervals (Wilson)"
    size = (max(5.6, 3.1 * len(layout[0]) + 0.6), 1.0 + 2.6 * len(layout))
    title = STRESS_TESTS[test].title + (": misled rate" if found[0].metric == "misled" else "")
    return Figure(title, tuple(panels), words_below, layout, size, share_y="all", page_width=320)


def _stressed(name: str, title: str, curves: Sequence[Curve], style: Mapping[str, Look]) -> Panel:
    test = STRESS_TESTS[curves[0].test]
    scaled = test.summary == "area"
    points = {point.x: point for curve in curves for point in curve.points}
    at = {x: x if scaled else float(i) for i, x in enumerate(points)}
    ticks = tuple((at[x], test.tick(x, point.point)) for x, point in points.items())
    x = Axis(test.axis, ticks, test.scale, None if scaled else (-0.6, len(points) - 0.4))
    kind: Any = "line" if scaled else "points"
    drawn = tuple(series(style[one.model], [at[x] for x in one.x], one.scores, kind=kind) for one in curves)
    y = Axis(METRICS[curves[0].metric], range=_SHARE, percent=True)
    return Panel(name, title, x, y, drawn)


@plot()
def plot_edits(rows: pd.DataFrame, metric: str = "accuracy") -> Figure:
    """What edits do to a metric ("accuracy", "f1" or "kl"), from `edit_effects(answers)`. Panels are named by title.

    Crosses are the random controls by mass, plus signs those by count. A variant of an edit with several doses has a
    panel of its own.

    Example: `fl.plot_edits(edit_effects(answers), "kl")`
    """
    own = rows[rows["metric"] == metric]
    if own.empty:
        raise FloatlensError(f'no effect on "{metric}" to draw')
    style = looks_of(dict(zip(own["model"], own["kind"], strict=True)))
    several = own["data"].nunique() > 1
    panels = []
    for data, some in own.groupby("data", sort=False):
        for doses in dose_panels(some["condition"]):
            words = f"{label_of(str(data))}: {doses.title}" if several else doses.title
            panels.append(_edited(words.replace("_", " "), some, doses, style, metric))
    layout = grid(len(panels), 4 if len(panels) > 6 else 3)
    counts = [int(n) for n in own["n"] if n]
    words = f"n = {span(counts)} questions · bars: paired 95 % intervals over questions"
    size = (max(5.6, 3.2 * len(layout[0]) + 0.6), 1.1 + 2.7 * len(layout))
    return Figure(_EFFECTS[metric][0], tuple(panels), words, layout, size, share_y="all", page_width=340)


def _edited(title: str, rows: pd.DataFrame, doses: DosePanel, style: Mapping[str, Look], metric: str) -> Panel:
    places = {edit: float(place) for place, edit in enumerate(doses.ticks)}
    rows = rows[[one.edited in places for one in rows["condition"]]]
    _, y, factor = _EFFECTS[metric]
    kind: Any = "joined" if doses.curve else "points"
    drawn = []
    for model, look in style.items():
        for control in ("", "count", "mass"):
            some = rows[(rows["model"] == model) & (rows["control"] == control)]
            if some.empty:
                continue
            x = tuple(places[one.edited] for one in some["condition"])
            mean, low, high = (
                tuple(factor * some[name].to_numpy(dtype=float)) for name in ("difference", "low", "high")
            )
            counts = tuple(int(n) for n in some["n"])
            drawn.append(Series(look, x, mean, low, high, counts, kind, control))
    ticks = tuple((place, doses.ticks[edit]) for edit, place in places.items())
    return Panel(title, title, Axis("", ticks, range=(-0.6, len(ticks) - 0.4)), y, tuple(drawn), reference=0.0)


def _effects(data: Any) -> dict[str, Figure]:
    found = data["edits"]
    return {
        metric: plot_edits.describe(found, metric) for metric in ("accuracy", "kl") if (found["metric"] == metric).any()
    }


GAINS = FigureType(("gains",), lambda data: plot_gains.describe(data["gains"]), section="qa")


def _by_test(curves: Sequence[Curve]) -> dict[str, Figure]:
    return {test: plot_stress.describe(curves, test) for test in dict.fromkeys(curve.test for curve in curves)}


STRESS = FigureType(("stress",), lambda data: _by_test(data["stress"]))
MISLED = FigureType(("misled",), lambda data: _by_test(data["misled"]), section="stress")
EDITS = FigureType(("edits",), _effects)
