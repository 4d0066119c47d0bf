"""Four findings on one page, over depth: drift, absorption, token classes, and retrieval heads or gold lift."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from floatlens.analysis import analyse
from floatlens.analysis.rules import as_rule
from floatlens.plots.description import Axis, Figure, Look, Panel, Series, grid, series
from floatlens.plots.drawing import Ax, Size, draw
from floatlens.plots.registry import FigureType
from floatlens.plots.style import by_layer, depth_series, looks, note

if TYPE_CHECKING:
    from matplotlib.figure import Figure as MatplotlibFigure

    from floatlens.analysis.result import Result
    from floatlens.analysis.sources import Traces

__all__ = ["SUMMARY", "plot_summary", "summary_figure"]

_NAMES = ("drift", "absorption", "token_classes", "retrieval_heads")
Style = Mapping[str, Look]


def summary_figure(results: Mapping[str, Result]) -> Figure:
    """Drift, absorption, token classes and retrieval (or gold lift) by layer; a panel without its result says so."""
    last = "retrieval_heads" if "retrieval_heads" in results else "flow"
    used = {name: results[name] for name in (*_NAMES[:-1], last) if name in results}
    style = looks([group for result in used.values() for group in result])
    panels = [
        _MAKERS[name](used[name], style) if name in used else Panel(shown, empty=f"no result of {shown}")
        for name, shown in zip((*_NAMES[:-1], last), _NAMES, strict=True)
    ]
    return Figure("The findings by layer", tuple(panels), _note(used), grid(4, 2), (7.6, 6.0))


def _note(used: Mapping[str, Result]) -> str:
    """Rules differ between panels, so each is named with its own; attention on classes needs none."""
    rules = [f"{as_rule(used[name].settings['rule'])} in {name}" for name in ("drift", "absorption") if name in used]
    bare = [replace(result, settings={}) for result in used.values()]
    return " · ".join([f"anchors: {', '.join(rules)}"] * bool(rules) + [note(*bare)])


def _panel(name: str, title: str, y: Axis, lines: tuple[Series, ...], reference: float | None = None) -> Panel:
    return Panel(name, title, Axis("layer", whole=True), y, lines, reference=reference)


def _drift(result: Result, style: Style) -> Panel:
    y = Axis("Jaccard, step to step (1 = fixed)", range=(None, 1.0))
    return _panel("drift", "Anchor stability", y, depth_series(result, "jaccard_by_layer", style))


def _absorption(result: Result, style: Style) -> Panel:
    lines = depth_series(result, "excess", style, view="floating")
    y = Axis("excess over uniform (pp)", unit=" pp")
    return _panel("absorption", "Absorption by anchors", y, lines, 0.0)


def _classes(result: Result, style: Style) -> Panel:
    lines = depth_series(result, "lexical", style)
    return _panel("token_classes", "Attention on lexical tokens", Axis("enrichment (1 = as the text)"), lines, 1.0)


def _retrieval(result: Result, style: Style) -> Panel:
    scores = [name for name in ("copy", "focus", "mass", "qr") if all(name in group.samples for group in result)]
    lines = depth_series(result, scores[0], style)
    return _panel("retrieval_heads", "Retrieval heads", Axis(f"{scores[0]} score, mean over heads"), lines)


def _lift(result: Result, style: Style) -> Panel:
    """Over every position of gold."""
    lines = tuple(
        series(style[model], *by_layer(result.pooled(model, "lift_by_layer"), "lift_by_layer"))
        for model in result.models
    )
    y = Axis("gold ÷ mean of other documents", unit=" ×")
    return _panel("retrieval_heads", "Gold lift, all gold positions", y, lines, 1.0)


_MAKERS = {
    "drift": _drift,
    "absorption": _absorption,
    "token_classes": _classes,
    "retrieval_heads": _retrieval,
    "flow": _lift,
}
SUMMARY = FigureType(_NAMES, summary_figure, on_page=False)
"""Not on the page, whose sections show the same."""


def plot_summary(
    of: Mapping[str, Result] | Traces, *, ax: Ax = None, figsize: Size = None, panel: str | None = None
) -> MatplotlibFigure:
    """The findings by layer, from results by analysis or from traces. Panels are named after their analyses.

    Example: `fl.plot_summary(fl.analyse("runs/demo", ["drift", "absorption", "token_classes", "retrieval_heads"]))`
    """
    results: Any = of if isinstance(of, Mapping) else analyse(of, [*_NAMES, "flow"], skipped={})
    return draw(summary_figure(results), ax, figsize, panel)
