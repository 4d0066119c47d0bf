"""Stress curves: accuracy over the dose of one test, a panel per data set and series, a line per model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from floatlens.core.errors import FloatlensError
from floatlens.data.stress import STRESS_TESTS
from floatlens.plots.parts import grid_shape, legend, line, reference
from floatlens.plots.style import Look, canvas, corner, label_of, looks_of, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from floatlens.analysis.curves import Curve

__all__ = ["plot_gain", "plot_stress"]

_WORDS = {"accuracy": "accuracy", "f1": "F1", "exact_match": "exact match"}


@styled
def plot_stress(curves: Sequence[Curve], test: str) -> Figure:
    """Every curve of one test. Where the axis has no scale, points stand side by side without a line between."""
    found = [curve for curve in curves if curve.test == test]
    if not found:
        raise FloatlensError(f'no curve of the test "{test}" among {sorted({curve.test for curve in curves})}')
    style = looks_of({curve.model: curve.kind == "arm" for curve in found})
    panels = list(dict.fromkeys((curve.data, curve.series) for curve in found))
    rows, columns = grid_shape(len(panels), 3)
    figure = canvas(max(5.6, 3.1 * columns + 0.6), 1.0 + 2.6 * rows)
    grid = figure.subplots(rows, columns, sharey=True, squeeze=False)
    for axes, (data, series) in zip(grid.flat, panels, strict=False):
        _panel(axes, [c for c in found if (c.data, c.series) == (data, series)], style)
        axes.set_title(_title(data, series, test, several=len({d for d, _ in panels}) > 1))
    for axes in grid.flat[len(panels) :]:
        axes.set_visible(False)
    for axes in grid[:, 0]:
        axes.set_ylabel(_WORDS[found[0].metric])
    grid[0, 0].set_ylim(-0.03, 1.03)
    legend(figure, style)
    asked = max(int(np.max(curve.scores.n)) for curve in found)
    corner(figure, f"{STRESS_TESTS[test].about} Up to {asked} questions a point; 95 % bootstrap intervals.")
    return figure


def _panel(axes: Axes, curves: Sequence[Curve], style: dict[str, Look]) -> None:
    points, test = curves[0].points, STRESS_TESTS[curves[0].test]
    scaled = test.summary == "area"
    for i, curve in enumerate(curves):
        look = style[curve.model]
        if scaled:
            line(axes, curve.x, curve.scores, look)
            continue
        at = np.arange(len(curve.points)) + 0.14 * (i - (len(curves) - 1) / 2)
        found = curve.scores
        spread = np.abs(np.stack([found.mean - found.low, found.high - found.mean]))
        axes.errorbar(at, found.mean, spread, lw=1.2, capsize=2, **look.line | {"linestyle": ""})
    if test.scale == "log2":
        axes.set_xscale("log", base=2)
    if scaled:
        axes.set_xticks([p.x for p in points], [test.tick(p) for p in points])
        axes.minorticks_off()
    else:
        axes.set_xticks(range(len(points)), [test.tick(p) for p in points])
        axes.set_xlim(-0.6, len(points) - 0.4)
    axes.set_xlabel(test.axis)
    reference(axes, 0.0)


def _title(data: str, series: str, test: str, *, several: bool) -> str:
    words = STRESS_TESTS[test].series_label(series)
    return ": ".join(part for part in (label_of(data) if several else "", words) if part)


@styled
def plot_gain(rows: Sequence[Mapping[Any, Any]], metric: str = "accuracy") -> Figure:
    """Closed book to RAG: for each data set a pair of marks per model, joined by a line as long as the gain.

    `rows` are those of `qa.tables.gains` with the model's kind: model, kind, data, metric, before, after, gain with its
    interval low to high, n. A whisker at the end of the line is the interval of the gain, counted from its beginning.
    """
    chosen = [row for row in rows if row["metric"] == metric and row["data"] != "average"]
    if not chosen:
        raise FloatlensError(
            "no question was answered both closed book and with documents, so there is no gain to draw"
        )
    style = looks_of({str(row["model"]): row["kind"] == "arm" for row in chosen})
    data = list(dict.fromkeys(str(row["data"]) for row in chosen))
    figure = canvas(max(4.2, 1.4 + 1.9 * len(data)), 3.4)
    axes = figure.subplots()
    for i, (model, look) in enumerate(style.items()):
        for row in (row for row in chosen if row["model"] == model):
            at = data.index(str(row["data"])) + 0.17 * (i - (len(style) - 1) / 2)
            before, after = float(row["before"]), float(row["after"])
            axes.plot([at, at], [before, after], color=look.colour, lw=1.6, ls=look.line["linestyle"], zorder=2)
            ends = [before + float(row["low"]), before + float(row["high"])]
            axes.errorbar(at, after, np.abs(np.subtract(ends, after))[:, None], color=look.colour, lw=0.8, capsize=3)
            axes.plot(at, before, ls="", marker="_", ms=9, color=look.colour, zorder=3)
            axes.plot(at, after, **look.line | {"linestyle": ""}, zorder=3)
    axes.set_xticks(range(len(data)), [label_of(name) for name in data])
    axes.set(xlim=(-0.6, len(data) - 0.4), ylim=(-0.03, 1.03), ylabel=_WORDS[metric])
    legend(figure, style)
    counts = sorted({int(row["n"]) for row in chosen})
    count = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]}–{counts[-1]}"
    corner(
        figure,
        "Bars begin at the score closed book and end, at the mark, at the score with documents · "
        f"n = {count} questions per model and data set · whiskers: 95 % interval of the gain, paired",
    )
    return figure
