"""Commit order: a map of step × position per model, and rank correlations of the order."""

from __future__ import annotations

import numpy as np

from floatlens.analysis import Result
from floatlens.analysis.order import TENTHS, TOKENS
from floatlens.plots.description import Axis, Figure, Panel
from floatlens.plots.drawing import plot
from floatlens.plots.panels import beside_maps, map_panel, peak_of, points_by_name
from floatlens.plots.registry import FigureType
from floatlens.plots.style import looks, note

__all__ = ["plot_order"]

_TAUS = {"position_tau": "position", "confidence_tau": "confidence"}
_SHARES = [f"{100 * place // TENTHS + 100 // (2 * TENTHS)} %" for place in range(TENTHS)]


@plot("order")
def plot_order(result: Result) -> Figure:
    """Commit order, from `order(…)` or what it takes. Panels: each model by its label, "order".

    Example: `fl.plot_order(fl.order(trace))`
    """
    style = looks(result)
    means = [group.estimate("commits").mean for group in result]
    axes = ("part of the passes", _SHARES), ("part of the answer", _SHARES)
    top = peak_of(means)
    maps = [
        map_panel(style[group.model].label, mean, *axes, "share of the tokens of a column", top)
        for group, mean in zip(result, means, strict=True)
    ]
    every = TOKENS.index("all")
    found = {g.model: g.estimated(np.stack([g.values(name)[:, every] for name in _TAUS], axis=-1)) for g in result}
    points, x = points_by_name(result, style, found, ("correlation of the step with", list(_TAUS.values())))
    y = Axis("Kendall's τ", range=(-1.05, 1.05))
    beside = Panel("order", "Rank correlation", x, y, points, reference=0.0)
    return beside_maps("Commit order", maps, beside, f"all tokens · {note(result, intervals='bars')}")


ORDER = FigureType(("order",), lambda data: plot_order.describe(data["order"]))
