"""Extreme tokens over depth: are anchors value drains or residual peaks, and how many heads do nothing else?"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from matplotlib.ticker import PercentFormatter

from floatlens.plots.parts import by_layer, depth_lines, from_zero, legend, reference
from floatlens.plots.style import canvas, corner, looks, note, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from floatlens.analysis.result import Result

__all__ = ["plot_extremes"]

_PANELS = {
    "value_ratio": ("Value norm", "|v| of anchors ÷ median token"),
    "residual_ratio": ("Residual norm", "|x| of anchors ÷ median token"),
    "dormant": ("Dormant heads", "share of heads"),
}


@styled
def plot_extremes(result: Result) -> Figure:
    """Value ratio, residual ratio and share of dormant heads by layer, one line and band per model."""
    figure = canvas(9.6, 3.4)
    style = looks(result)
    panels = figure.subplots(1, 3)
    for axes, (variable, (title, what)) in zip(panels, _PANELS.items(), strict=True):
        depth_lines(axes, result.groups, style, partial(by_layer, variable=variable))
        axes.set(ylabel=what)
        axes.set_title(title)
        if variable != "dormant":
            reference(axes, 1.0)
    panels[2].yaxis.set_major_formatter(PercentFormatter(1.0, symbol=" %"))
    from_zero(panels[2], least=0.05)
    legend(figure, style)
    above = result.settings.get("dormant_above", 0.5)
    corner(figure, f"{note(result)} · dormant: above {above * 100:g} % of a head's attention on anchors")
    return figure
