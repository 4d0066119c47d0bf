"""Extreme tokens by layer: value and residual norms of anchors, and heads that attend to little else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from floatlens.plots.description import Axis, Figure, Panel
from floatlens.plots.drawing import Ax, Size, draw, result_of
from floatlens.plots.registry import FigureType
from floatlens.plots.style import depth_series, note

if TYPE_CHECKING:
    from matplotlib.figure import Figure as MatplotlibFigure

    from floatlens.analysis.result import Result
    from floatlens.analysis.sources import Traces

__all__ = ["EXTREMES", "extremes_figure", "plot_extremes"]


def extremes_figure(result: Result) -> Figure:
    """Value ratio, residual ratio and share of dormant heads by layer, one line and band per model."""
    panels = []
    for name, title, y, reference in (
        ("value_ratio", "Value norm", Axis("|v| of anchors ÷ median token"), 1.0),
        ("residual_ratio", "Residual norm", Axis("|x| of anchors ÷ median token"), 1.0),
        ("dormant", "Dormant heads", Axis("share of heads", range=(0, None), percent=True), None),
    ):
        lines = depth_series(result, name)
        panels.append(Panel(name, title, Axis("layer", whole=True), y, lines, reference=reference))
    above = result.settings.get("dormant_above", 0.5)
    words = f"{note(result)} · dormant: above {above * 100:g} % of a head's attention on anchors"
    return Figure("Norms of anchors and dormant heads, by layer", tuple(panels), words, size=(9.6, 3.4), page_width=330)


EXTREMES = FigureType(("extremes",), lambda data: extremes_figure(data["extremes"]))


def plot_extremes(
    of: Result | Traces, *, ax: Ax = None, figsize: Size = None, panel: str | None = None, **settings: Any
) -> MatplotlibFigure:
    """Norms of anchors by layer, from `extremes(…)` or what it takes. Panels: value_ratio, residual_ratio, dormant.

    Example: `fl.plot_extremes(fl.extremes(trace), panel="dormant")`
    """
    return draw(extremes_figure(result_of(of, "extremes", settings)), ax, figsize, panel)
