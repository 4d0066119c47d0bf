"""Figures of answers: what documents gain, and accuracy along the axis of each stress test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from floatlens.core.errors import FloatlensError
from floatlens.data.stress import STRESS_TESTS
from floatlens.plots.description import Axis, Figure, Panel, Series, grid, series
from floatlens.plots.drawing import Ax, Size, draw
from floatlens.plots.registry import FigureType
from floatlens.plots.style import label_of, looks_of, span

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure as MatplotlibFigure

    from floatlens.analysis.stress import Curve
    from floatlens.plots.description import Look

__all__ = ["GAINS", "STRESS", "gains_figure", "plot_gains", "plot_stress", "stress_figure"]

METRICS = {"accuracy": "accuracy", "f1": "F1", "exact_match": "exact match"}
_SHARE = (-0.03, 1.03)


def gains_figure(rows: pd.DataFrame, metric: str = "accuracy") -> Figure:
    """Closed book to RAG: a dumbbell per model and data set, as long as the gain, with the gain's interval at its end.

    `rows` are those of `gains`, with a column "kind" for the kind of each model.
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
    panel = Panel("gains", "", x, y, drawn)
    return Figure(
        "Accuracy closed book and with documents", (panel,), words, size=size, page_width=300 + 130 * len(data)
    )


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


def stress_figure(curves: Sequence[Curve], test: str) -> Figure:
    """Accuracy along the axis of one test: a panel per data set and series, a line per model.

    Where the axis has no scale, points stand side by side without a line between them.
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
    words_below = f"{STRESS_TESTS[test].about} n = {span(counts)} questions per point; 95 % bootstrap intervals"
    size = (max(5.6, 3.1 * len(layout[0]) + 0.6), 1.0 + 2.6 * len(layout))
    title = STRESS_TESTS[test].title
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


GAINS = FigureType(("gains",), lambda data: gains_figure(data["gains"]), section="qa")
STRESS = FigureType(
    ("stress",),
    lambda data: {test: stress_figure(data["stress"], test) for test in dict.fromkeys(c.test for c in data["stress"])},
)


def plot_gains(
    gains: pd.DataFrame, metric: str = "accuracy", *, ax: Ax = None, figsize: Size = None
) -> MatplotlibFigure:
    """What documents gain, from the frame of `gains` with a column "kind" ("arm" or "mdm") of each model.

    Example: `fl.plot_gains(gains(answers).assign(kind="mdm"))`
    """
    return draw(gains_figure(gains, metric), ax, figsize)


def plot_stress(
    curves: Sequence[Curve], test: str, *, ax: Ax = None, figsize: Size = None, panel: str | None = None
) -> MatplotlibFigure:
    """Accuracy under one stress test, from `curves(answers)`. Panels are named after the series.

    Example: `fl.plot_stress(curves(answers), "noise")`
    """
    return draw(stress_figure(curves, test), ax, figsize, panel)
