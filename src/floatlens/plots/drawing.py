"""What every `plot_…` function does: take a result, or what an analysis takes, and draw its description."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from floatlens.analysis import ANALYSES, Result
from floatlens.core.errors import FloatlensError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as MatplotlibFigure

    from floatlens.analysis.sources import Traces
    from floatlens.plots.description import Figure

__all__ = ["Ax", "Size", "draw", "result_of"]

Ax = Any
"""matplotlib axes, or as many as a figure has panels; None for a new figure."""
Size = tuple[float, float] | None


def result_of(of: Result | Traces, analysis: str, settings: Mapping[str, Any] | None = None) -> Result:
    """A result as it is; a trace, several, or a run folder analysed under the given settings."""
    if not isinstance(of, Result):
        found: Result = ANALYSES[analysis](of, **(settings or {}))
        return found
    if of.analysis != analysis:
        raise FloatlensError(
            f"this is a result of {of.analysis}; the figure draws {analysis}, so give it {analysis}(…)"
        )
    if settings:
        raise FloatlensError(f"{', '.join(settings)}: settings of the analysis; a result has its own already")
    return of


def draw(
    figure: Figure, ax: Axes | Sequence[Axes] | None = None, figsize: Size = None, panel: str | None = None
) -> MatplotlibFigure:
    """Draw a description with matplotlib, which is imported here and not before."""
    from floatlens.plots.matplotlib_renderer import render

    return render(figure, ax, figsize, panel)
