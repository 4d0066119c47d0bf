"""Absorption over depth: how much attention the first position takes, and how much the anchors, beside the null."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from matplotlib.lines import Line2D

from floatlens.plots.parts import by_layer, depth_lines, from_zero, legend
from floatlens.plots.style import GREY, canvas, corner, looks, note, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from floatlens.analysis.result import Result

__all__ = ["plot_absorption"]

_TITLES = {"fixed": "Fixed sink: first position", "floating": "Floating: anchors of each step"}
_NULL: dict[str, Any] = {"lw": 1.0, "ls": (0, (2, 2))}


@styled
def plot_absorption(result: Result) -> Figure:
    """One line and band per model in each of the two views; dashed and thin, what uniform attention would give."""
    figure = canvas(7.6, 3.7)
    style = looks(result)
    panels = figure.subplots(1, 2, sharey=True)
    for axes, view in zip(panels, _TITLES, strict=True):
        depth_lines(axes, result.groups, style, partial(by_layer, variable="absorbed", view=view))
        for group in result:
            layers, null = by_layer(group, "uniform", view=view)
            axes.plot(layers, null.mean, color=style[group.model].colour, zorder=1, **_NULL)
        axes.set_title(_TITLES[view])
    panels[0].set_ylabel("attention absorbed (% of all)")
    from_zero(panels[0])
    legend(figure, style, [Line2D([], [], color=GREY, label="null: uniform attention", **_NULL)])
    corner(figure, note(result))
    return figure
