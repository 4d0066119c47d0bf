"""Drift over depth: how far, how fast and how surely anchors move, by layer, one line and band per model."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from floatlens.plots.parts import below_one, by_layer, depth_lines, legend, reference
from floatlens.plots.style import canvas, corner, looks, note, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from floatlens.analysis.result import Result

__all__ = ["plot_drift_profile"]

_PANELS = {
    "jaccard_by_layer": ("Overlap from step to step", "Jaccard of anchor sets (1 = fixed)"),
    "slope_by_layer": ("Speed of the strongest key", "slope (positions per step)"),
    "lifetime_share_by_layer": ("Lifetime of an anchor", "consecutive steps, as a share of all"),
    "entropy_by_layer": ("Spread of attention", "normalised entropy (1 = even)"),
}


@styled
def plot_drift_profile(result: Result) -> Figure:
    """Overlap, slope, lifetime and entropy by layer."""
    figure = canvas(7.6, 5.8)
    style = looks(result)
    for axes, (variable, (title, what)) in zip(figure.subplots(2, 2).flat, _PANELS.items(), strict=True):
        depth_lines(axes, result.groups, style, partial(by_layer, variable=variable))
        axes.set_ylabel(what)
        axes.set_title(title)
        if variable == "slope_by_layer":
            reference(axes, 0.0)
        if variable == "jaccard_by_layer":
            below_one(axes)
    legend(figure, style)
    corner(figure, note(result))
    return figure
