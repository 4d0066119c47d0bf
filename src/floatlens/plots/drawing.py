"""What every `plot_…` function does: take a result, or what an analysis takes, and draw its description."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any, Protocol, cast

from floatlens.analysis import ANALYSES, Result
from floatlens.analysis.anchors import Anchors
from floatlens.core.errors import FloatlensError
from floatlens.plots.description import Figure, measured

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as MatplotlibFigure

__all__ = ["Plot", "draw", "plot"]

Size = tuple[float, float] | None


class Plot(Protocol):
    """A function that draws; `describe` is the one that makes the description it draws.

    `ax` are matplotlib axes, one or as many as the figure has panels; None for a new figure. `panel` names one panel.
    """

    describe: Callable[..., Figure]

    def __call__(
        self, of: Any, /, *args: Any, ax: Any = None, figsize: Size = None, panel: str | None = None, **settings: Any
    ) -> MatplotlibFigure: ...


_CALL = signature(Plot.__call__)


def plot(analysis: str | None = None, *, controls: bool = False) -> Callable[[Callable[..., Figure]], Plot]:
    """Turn a function that describes a figure into one that draws it, with the arguments `ax`, `figsize` and `panel`.

    With the name of an analysis it draws a result of it, and takes what the analysis takes, settings included. Groups
    of controls are left out, unless the figure shows `controls` beside their models.
    """

    def decorate(given: Callable[..., Figure]) -> Plot:
        own = signature(given).parameters

        @wraps(given)
        def describe(of: Any, /, *args: Any, **more: Any) -> Figure:
            return measured(given(of if controls else _without_controls(of), *args, **more), _measure_of(of))

        @wraps(describe)
        def drawn(
            of: Any, /, *args: Any, ax: Any = None, figsize: Size = None, panel: str | None = None, **more: Any
        ) -> MatplotlibFigure:
            if analysis is not None:
                of = _result(of, analysis, {key: more.pop(key) for key in [*more] if key not in own})
            return draw(describe(of, *args, **more), ax, figsize, panel)

        kinds = {Parameter.KEYWORD_ONLY, Parameter.VAR_KEYWORD} if analysis else {Parameter.KEYWORD_ONLY}
        keywords = [one for one in _CALL.parameters.values() if one.kind in kinds]
        made = cast(Any, drawn)
        made.describe, made.__signature__ = describe, _CALL.replace(parameters=[*own.values(), *keywords])
        return cast(Plot, made)

    return decorate


def _result(of: Any, analysis: str, settings: Mapping[str, Any]) -> Result:
    """A result as it is; a trace, several, or a run folder analysed under the given settings."""
    if not isinstance(of, Result):
        found: Result = ANALYSES[analysis](of, **settings)
        return found
    if of.analysis != analysis:
        raise FloatlensError(
            f"this is a result of {of.analysis}; the figure draws {analysis}, so give it {analysis}(…)"
        )
    if settings:
        raise FloatlensError(f"{', '.join(settings)}: settings of the analysis; a result has its own already")
    return of


def _measure_of(of: Any) -> str:
    """What was measured: attention, unless a result or anchors say otherwise."""
    if isinstance(of, Anchors):
        return of.measure
    results = [of] if isinstance(of, Result) else [*of.values()] if isinstance(of, Mapping) else []
    found = {one.settings.get("measure", "attention") for one in results if isinstance(one, Result)}
    return "contribution" if "contribution" in found else "attention"


def _without_controls(of: Any) -> Any:
    """A result, or results by analysis, without the groups of controls, unless there are no others."""
    if isinstance(of, Result):
        own = of.without_controls()
        return own if own.groups else of
    if isinstance(of, Mapping):
        return {name: _without_controls(one) if isinstance(one, Result) else one for name, one in of.items()}
    return of


def draw(
    figure: Figure, ax: Axes | Sequence[Axes] | None = None, figsize: Size = None, panel: str | None = None
) -> MatplotlibFigure:
    """Draw a description with matplotlib, which is imported here and not before."""
    from floatlens.plots.matplotlib_renderer import render

    return render(figure, ax, figsize, panel)
