"""Drift by layer: how far, how fast and how long anchors move, one line and band per model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from floatlens.plots.description import Axis, Figure, Panel, grid
from floatlens.plots.drawing import Ax, Size, draw, result_of
from floatlens.plots.registry import FigureType
from floatlens.plots.style import depth_series, note

if TYPE_CHECKING:
    from matplotlib.figure import Figure as MatplotlibFigure

    from floatlens.analysis.result import Result
    from floatlens.analysis.sources import Traces

__all__ = ["DRIFT", "drift_figure", "plot_drift"]


def drift_figure(result: Result) -> Figure:
    """Anchor stability, slope, lifetime and entropy by layer."""
    panels = []
    for name, title, y, reference in (
        ("jaccard", "Anchor stability", Axis("Jaccard, step to step (1 = fixed)", range=(None, 1.0)), None),
        ("slope", "Speed of the strongest key", Axis("slope (positions per step)"), 0.0),
        ("lifetime_share", "Lifetime of an anchor", Axis("consecutive steps (share of all)", range=(0, None)), None),
        ("entropy", "Spread of attention", Axis("normalised entropy (1 = even)"), None),
    ):
        lines = depth_series(result, f"{name}_by_layer")
        panels.append(Panel(name, title, Axis("layer", whole=True), y, lines, reference=reference))
    return Figure("Drift by layer", tuple(panels), note(result), grid(4, 2), (7.6, 5.8))


DRIFT = FigureType(("drift",), lambda data: drift_figure(data["drift"]))


def plot_drift(
    of: Result | Traces, *, ax: Ax = None, figsize: Size = None, panel: str | None = None, **settings: Any
) -> MatplotlibFigure:
    """How anchors move, by layer, from `drift(…)` or what it takes. Panels: jaccard, slope, lifetime_share, entropy.

    Step by step in one trace: `plot_anchors`.

    Example: `fl.plot_drift(fl.drift(trace))`
    """
    return draw(drift_figure(result_of(of, "drift", settings)), ax, figsize, panel)
