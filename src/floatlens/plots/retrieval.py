"""Retrieval heads: a heatmap of layer × head per model, all on one scale, and the mean over heads by depth beside."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from floatlens.analysis.retrieval import THRESHOLDS
from floatlens.plots.parts import from_zero, grid_shape, heatmap, legend, line, numbered, over_heads, whole_numbers
from floatlens.plots.style import GREY, SMALL, canvas, corner, looks, note, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from floatlens.analysis.result import Group, Result
    from floatlens.analysis.retrieval import Score

__all__ = ["plot_retrieval"]

_WORDS = {
    "copy": "copied share of the evidence",
    "copy_code": "copy score as Wu's code counts",
    "focus": "answer tokens that look at the evidence (share)",
    "mass": "attention on the evidence (share)",
    "qr": "attention of the question on gold (share)",
}


@styled
def plot_retrieval(result: Result, score: Score = "copy") -> Figure:
    """Mean score of every head, and the mean over heads of each layer with its band."""
    style = looks(result)
    rows, columns = grid_shape(len(result.groups), 2 if len(result.groups) == 4 else 3)
    figure = canvas(2.3 * columns + 3.4, 0.9 + 2.9 * rows)
    grid = figure.add_gridspec(rows, columns + 1, width_ratios=[*[2.1] * columns, 2.6])
    top = max((_peak(group, score) for group in result), default=0.0) or 1.0
    maps = []
    for i, group in enumerate(result):
        axes = figure.add_subplot(grid[i // columns, i % columns])
        image = heatmap(axes, group.estimate(score).mean, origin="lower", vmin=0, vmax=top)
        _label(axes, group, score, style[group.model].label)
        _share(axes, result, group, score)
        maps.append(axes)
    if maps:
        figure.colorbar(image, ax=maps, label=_WORDS[score], pad=0.02, aspect=28)
    profile = figure.add_subplot(grid[:, -1])
    for group in result:
        layers, found = over_heads(group, score)
        line(profile, layers, found, style[group.model], upright=True)
    profile.set(xlabel="mean over heads", ylabel="layer")
    from_zero(profile, "x", least=0.01)
    profile.set_title("By depth")
    whole_numbers(profile.yaxis)
    legend(figure, style)
    corner(figure, f"score: {score} · {note(result)}")
    return figure


def _share(axes: Axes, result: Result, group: Group, score: str) -> None:
    """Below the title, how many of the heads are retrieval heads, by half of the depth."""
    by_half = {
        one.labels["half"]: float(one.found.mean)
        for of, one in result.summary
        if of is group and one.variable == f"{score}_heads" and one.labels["above"] == THRESHOLDS[0]
    }
    told = [f"{share:.0%} {half}" for half, share in by_half.items() if np.isfinite(share)]
    if told:
        axes.set_title(axes.get_title("left"), pad=6 + 1.6 * SMALL)
        words = f"above {THRESHOLDS[0]:g}: {', '.join(told)}"
        axes.text(0, 1.02, words, transform=axes.transAxes, fontsize=SMALL, color=GREY, va="bottom")


def _peak(group: Group, score: str) -> float:
    mean = group.estimate(score).mean
    return float(np.max(mean, where=np.isfinite(mean), initial=0.0))


def _label(axes: Axes, group: Group, score: str, title: str) -> None:
    """Rows and columns by the numbers of layers and heads, not all of them where there are many."""
    for axis, dim in ((axes.yaxis, "layer"), (axes.xaxis, "head")):
        numbered(axis, group.coordinate(score, dim), 8)
        axis.set_label_text(dim)
    axes.set_title(title)
    axes.spines[["left", "bottom"]].set_visible(False)
    axes.tick_params(length=2)
