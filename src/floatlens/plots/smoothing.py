"""Over-smoothing: how alike tokens are, by layer, one line per model."""

from __future__ import annotations

from floatlens.analysis import Result
from floatlens.plots.description import Axis, Figure, Panel, grid
from floatlens.plots.drawing import plot
from floatlens.plots.registry import FigureType
from floatlens.plots.style import depth_series, note

__all__ = ["plot_smoothing"]

_PANELS = (
    ("cosine", "States, all tokens", Axis("mean cosine of two tokens")),
    ("masked_cosine", "States, masked tokens", Axis("mean cosine of two tokens")),
    ("rank_share", "Effective rank", Axis("effective rank ÷ tokens", range=(0, None))),
    ("row_distance", "Attention rows", Axis("Jensen-Shannon distance", range=(0, None))),
)


@plot("smoothing")
def plot_smoothing(result: Result) -> Figure:
    """Over-smoothing by layer, from `smoothing(…)` or what it takes. Panels: cosine, masked_cosine, rank_share,
    row_distance.

    Example: `fl.plot_smoothing(fl.trace(model, question="Who?", gen_length=4, probes=["smoothing"]))`
    """
    panels = tuple(
        Panel(name, title, Axis("layer", whole=True), y, depth_series(result, name)) for name, title, y in _PANELS
    )
    return Figure("Over-smoothing, by layer", panels, note(result), grid(4, 2), (7.6, 6.0))


SMOOTHING = FigureType(("smoothing",), lambda data: plot_smoothing.describe(data["smoothing"]))
