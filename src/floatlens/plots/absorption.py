"""Absorption by layer: attention on the first position, and on the anchors of each step, beside uniform attention."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from floatlens.plots.description import Axis, Figure, Panel, series
from floatlens.plots.drawing import Ax, Size, draw, result_of
from floatlens.plots.registry import FigureType
from floatlens.plots.style import by_layer, depth_series, looks, note

if TYPE_CHECKING:
    from matplotlib.figure import Figure as MatplotlibFigure

    from floatlens.analysis.result import Result
    from floatlens.analysis.sources import Traces

__all__ = ["ABSORPTION", "absorption_figure", "plot_absorption"]

_TITLES = {"fixed": "Fixed sink: first position", "floating": "Floating: anchors of each step"}


def absorption_figure(result: Result) -> Figure:
    """One line and band per model in each of the two views; dotted, what uniform attention would give."""
    style = looks(result)
    panels = []
    for view, title in _TITLES.items():
        lines = depth_series(result, "absorbed", style, view=view)
        nulls = [series(style[g.model], *by_layer(g, "uniform", view=view), role="null") for g in result]
        y = Axis("attention absorbed (% of all)", range=(0, None), unit=" %")
        panels.append(Panel(view, title, Axis("layer", whole=True), y, (*lines, *nulls)))
    return Figure("Absorption by layer", tuple(panels), note(result), share_y="all")


ABSORPTION = FigureType(("absorption",), lambda data: absorption_figure(data["absorption"]))


def plot_absorption(
    of: Result | Traces, *, ax: Ax = None, figsize: Size = None, panel: str | None = None, **settings: Any
) -> MatplotlibFigure:
    """Attention absorbed by layer, from `absorption(…)` or what it takes. Panels: fixed, floating.

    Example: `fl.plot_absorption(fl.absorption("runs/demo"))`
    """
    return draw(absorption_figure(result_of(of, "absorption", settings)), ax, figsize, panel)
