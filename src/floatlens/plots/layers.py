"""Figures by layer, one line and band per model: drift, absorption, q·k, extreme tokens, and all findings at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from floatlens.analysis import Result, analyse
from floatlens.analysis.drift import QUERIES
from floatlens.analysis.rules import as_rule
from floatlens.plots.description import Axis, Figure, Look, Panel, Series, grid, series
from floatlens.plots.drawing import plot
from floatlens.plots.registry import FigureType
from floatlens.plots.style import by_layer, depth_series, looks, note

__all__ = ["plot_absorption", "plot_drift", "plot_extremes", "plot_qk", "plot_summary"]

_STABILITY = Axis("Jaccard, first to last quarter (1 = fixed)", range=(-0.02, 1.02))
_VIEWS = {"fixed": "Fixed sink: first position", "floating": "Floating: anchors of each step"}
_FINDINGS = ("drift", "absorption", "token_classes", "retrieval_heads")


def _panel(name: str, title: str, y: Axis, lines: tuple[Series, ...], reference: float | None = None) -> Panel:
    return Panel(name, title, Axis("layer", whole=True), y, lines, reference=reference)


@plot("drift", controls=True)
def plot_drift(result: Result) -> Figure:
    """How anchors move, from `drift(…)` or what it takes. Panels: all, answer, masked (overlap of the anchors of two
    steps over their distance, by query group), and by layer for rows of the answer strongest, effective_anchors, speed.

    Step by step in one trace: `plot_anchors`. Thin grey lines are controls, if there are any.

    Example: `fl.plot_drift(fl.drift(trace))`
    """
    panels = [_by_lag(result, queries) for queries in QUERIES]
    panels += [
        _panel(name, title, y, depth_series(some, f"{name}_by_layer", looks(result), queries="answer"), reference)
        for some, name, title, y, reference in (
            (result, "strongest", "Strongest key, answer rows", Axis("share of attention above uniform"), 0.0),
            (result, "effective_anchors", "Anchors, answer rows", Axis("effective number", range=(0, None)), None),
            (_writing(result), "speed", "Speed of floaters, answer rows", Axis("positions per token written"), 0.0),
        )
    ]
    return Figure("Drift of anchors", tuple(panels), note(result), grid(6, 3), (9.6, 6.0), page_width=330)


def _by_lag(result: Result, queries: str) -> Panel:
    """Overlap of anchor sets over the distance of two steps; says so where no model has such rows."""
    lines = depth_series(result, "lag_jaccard", over="lag", queries=queries)
    if not any(np.isfinite(one.mean).any() for one in lines):
        return Panel(queries, f"Anchor stability, {queries} rows", empty=f"no anchors, or no {queries} rows")
    lines = tuple(_defined(one) for one in lines)  # few steps leave lags without a pair
    x = Axis("lag (share of the generation)", range=(0.0, 1.05))
    y = Axis("Jaccard (1 = same anchors)", range=(-0.02, 1.02))
    return Panel(queries, f"Anchor stability, {queries} rows", x, y, lines)


def _defined(one: Series) -> Series:
    """The same series without points whose mean is undefined, so its line has no gaps."""
    kept = np.flatnonzero(np.isfinite(one.mean))
    parts: dict[str, Any] = {
        name: tuple(getattr(one, name)[i] for i in kept) for name in ("x", "mean", "low", "high", "n")
    }
    return replace(one, **parts)


def _writing(result: Result) -> Result:
    """Diffusion models alone, if there are any: speed per token says little of the two or three tokens that an
    autoregressive answer has, and its scale would hide theirs."""
    groups = tuple(group for group in result.groups if group.facts["kind"] == "mdm")
    return replace(result, groups=groups) if groups else result


@plot("absorption", controls=True)
def plot_absorption(result: Result) -> Figure:
    """Attention absorbed by layer, from `absorption(…)` or what it takes. Panels: fixed, floating.

    Dotted lines show what uniform attention would give, thin grey ones controls, if there are any.

    Example: `fl.plot_absorption(fl.absorption("runs/demo"))`
    """
    style, own, panels = looks(result), result.without_controls(), []
    for view, title in _VIEWS.items():
        lines = depth_series(result, "absorbed", style, view=view)
        nulls = [series(style[g.model], *by_layer(g, "uniform", view=view), role="null") for g in own]
        y = Axis("attention absorbed (% of all)", range=(0, None), unit=" %")
        panels.append(_panel(view, title, y, (*lines, *nulls)))
    return Figure("Absorption by layer", tuple(panels), note(result), share_y="all")


@plot("qk")
def plot_qk(result: Result) -> Figure:
    """The advantage of anchors in q·k by layer, from `qk(…)` or what it takes. Panels: norm_part, angle_part.

    Example: `fl.plot_qk(fl.qk(trace))`
    """
    y = Axis("advantage of anchors in q·k (unscaled)")
    panels = tuple(
        _panel(part, title, y, depth_series(result, part), 0.0)
        for part, title in (("norm_part", "By the norm of the key"), ("angle_part", "By its direction"))
    )
    return Figure("Advantage of anchors in q·k, by layer", panels, f"{note(result)} · mean over heads", share_y="all")


@plot("extremes")
def plot_extremes(result: Result) -> Figure:
    """Norms of anchors by layer, from `extremes(…)` or what it takes. Panels: value_ratio, residual_ratio, dormant.

    Example: `fl.plot_extremes(fl.extremes(trace), panel="dormant")`
    """
    panels = tuple(
        _panel(name, title, y, depth_series(result, name), reference)
        for name, title, y, reference in (
            ("value_ratio", "Value norm", Axis("|v| of anchors ÷ median token"), 1.0),
            ("residual_ratio", "Residual norm", Axis("|x| of anchors ÷ median token"), 1.0),
            ("dormant", "Dormant heads", Axis("share of heads", range=(0, None), percent=True), None),
        )
    )
    above = result.settings.get("dormant_above", 0.5)
    words = f"{note(result)} · dormant: above {above * 100:g} % of a head's attention on anchors"
    return Figure("Norms of anchors and dormant heads, by layer", panels, words, size=(9.6, 3.4), page_width=330)


@plot()
def plot_summary(of: Any) -> Figure:
    """The findings by layer, from results by analysis or from traces. Panels are named after their analyses.

    The last panel shows retrieval heads, or without them gold lift. A panel without its result says so.

    Example: `fl.plot_summary(fl.analyse("runs/demo", ["drift", "absorption", "token_classes", "retrieval_heads"]))`
    """
    results: Mapping[str, Result] = of if isinstance(of, Mapping) else _analysed(of)
    last = "retrieval_heads" if "retrieval_heads" in results else "flow"
    used = {name: results[name] for name in (*_FINDINGS[:-1], last) if name in results}
    style = looks([group for result in used.values() for group in result])
    panels = [
        _finding(name, used[name], style) if name in used else Panel(shown, empty=f"no result of {shown}")
        for name, shown in zip((*_FINDINGS[:-1], last), _FINDINGS, strict=True)
    ]
    rules = [f"{as_rule(used[name].settings['rule'])} in {name}" for name in ("drift", "absorption") if name in used]
    bare = [replace(result, settings={}) for result in used.values()]  # rules differ, so each is named with its panel
    words = " · ".join([f"anchors: {', '.join(rules)}"] * bool(rules) + [note(*bare)])
    return Figure("The findings by layer", tuple(panels), words, grid(4, 2), (7.6, 6.0))


def _analysed(traces: Any) -> dict[str, Result]:
    found = analyse(traces, [*_FINDINGS, "flow"], skipped={})
    return {name: result.without_controls() for name, result in found.items()}


def _finding(name: str, result: Result, style: Mapping[str, Look]) -> Panel:
    if name == "drift":
        lines = depth_series(result, "quarter_jaccard_by_layer", style, queries="answer")
        return _panel(name, "Anchor stability, answer rows", _STABILITY, lines)
    if name == "absorption":
        lines = depth_series(result, "excess", style, view="floating")
        return _panel(name, "Absorption by anchors", Axis("excess over uniform (pp)", unit=" pp"), lines, 0.0)
    if name == "token_classes":
        lines = depth_series(result, "lexical", style)
        return _panel(name, "Attention on lexical tokens", Axis("enrichment (1 = as the text)"), lines, 1.0)
    if name == "retrieval_heads":
        score = next(one for one in ("copy", "focus", "mass", "qr") if all(one in group.samples for group in result))
        y = Axis(f"{score} score, mean over heads")
        return _panel(name, "Retrieval heads", y, depth_series(result, score, style))
    pooled = {model: result.pooled(model, "lift_by_layer") for model in result.models}
    lines = tuple(series(style[model], *by_layer(group, "lift_by_layer")) for model, group in pooled.items())
    y = Axis("gold ÷ other documents, over uniform", unit=" ×")
    return _panel("retrieval_heads", "Gold lift of attention", y, lines, 1.0)


DRIFT = FigureType(("drift",), lambda data: plot_drift.describe(data["drift"]))
ABSORPTION = FigureType(("absorption",), lambda data: plot_absorption.describe(data["absorption"]))
QK = FigureType(("qk",), lambda data: plot_qk.describe(data["qk"]))
EXTREMES = FigureType(("extremes",), lambda data: plot_extremes.describe(data["extremes"]))
SUMMARY = FigureType(_FINDINGS, plot_summary.describe, on_page=False)
"""Not on the page, whose sections show the same."""
