"""The four findings on one page, over depth: anchors that move, what they absorb, what they are, where answers lie."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from floatlens.analysis.rules import as_rule
from floatlens.plots.parts import below_one, by_layer, depth_lines, legend, over_heads, reference
from floatlens.plots.style import GREY, Look, canvas, corner, looks, note, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from floatlens.analysis.intervals import Estimate
    from floatlens.analysis.result import Group, Result

__all__ = ["plot_summary"]


@styled
def plot_summary(results: Mapping[str, Result]) -> Figure:
    """Drift, absorption, token classes and retrieval (or gold lift) by layer; a panel without its result says so."""
    figure = canvas(7.6, 6.0)
    panels = figure.subplots(2, 2)
    used = {name: results[name] for name in _wanted(results) if name in results}
    style = looks([group for result in used.values() for group in result])
    for axes, (name, draw) in zip(panels.flat, _PANELS.items(), strict=True):
        chosen = name if name in results or name != "retrieval_heads" else "flow"
        if chosen in results:
            (draw if chosen == name else _lift)(axes, results[chosen], style)
        else:
            axes.text(0.5, 0.5, f"no result of {name}", ha="center", transform=axes.transAxes, color=GREY)
            axes.set_axis_off()
    legend(figure, style)
    corner(figure, _note(used))
    return figure


def _wanted(results: Mapping[str, Result]) -> list[str]:
    return [*list(_PANELS)[:-1], "retrieval_heads" if "retrieval_heads" in results else "flow"]


def _note(used: Mapping[str, Result]) -> str:
    """Rules differ between panels, so each is named with its own; that of attention on classes rests on none."""
    rules = [f"{as_rule(used[name].settings['rule'])} in {name}" for name in ("drift", "absorption") if name in used]
    bare = [replace(result, settings={}) for result in used.values()]
    return " · ".join([f"anchors: {', '.join(rules)}"] * bool(rules) + [note(*bare)])


def _drift(axes: Axes, result: Result, style: Mapping[str, Look]) -> None:
    depth_lines(axes, result.groups, style, partial(by_layer, variable="jaccard_by_layer"))
    axes.set_ylabel("Jaccard, step to step (1 = fixed)")
    below_one(axes)
    axes.set_title("Drift of anchors")


def _absorption(axes: Axes, result: Result, style: Mapping[str, Look]) -> None:
    depth_lines(axes, result.groups, style, partial(by_layer, variable="excess", view="floating"))
    reference(axes, 0.0)
    axes.set_ylabel("excess over null (% points)")
    axes.set_title("Absorption by anchors")


def _classes(axes: Axes, result: Result, style: Mapping[str, Look]) -> None:
    depth_lines(axes, result.groups, style, partial(by_layer, variable="lexical"))
    reference(axes, 1.0)
    axes.set_ylabel("enrichment (1 = as the tokens)")
    axes.set_title("Attention on lexical tokens")


def _retrieval(axes: Axes, result: Result, style: Mapping[str, Look]) -> None:
    scores = [name for name in ("copy", "focus", "mass", "qr") if all(name in group.samples for group in result)]
    depth_lines(axes, result.groups, style, partial(over_heads, variable=scores[0]))
    axes.set_ylabel(f"{scores[0]} score, mean over heads")
    axes.set_title("Retrieval heads")


def _lift(axes: Axes, result: Result, style: Mapping[str, Look]) -> None:
    pooled = [next(group for group in result if group.model == model) for model in result.models]
    depth_lines(axes, pooled, style, partial(_pooled, result))
    reference(axes, 1.0)
    axes.set_ylabel("gold ÷ mean of other documents")
    axes.set_title("Gold lift, all places")


def _pooled(result: Result, group: Group) -> tuple[list[Any], Estimate]:
    """Over every place of gold."""
    return by_layer(result.pooled(group.model, "lift_by_layer"), "lift_by_layer")


_PANELS: dict[str, Callable[[Axes, Result, Mapping[str, Look]], None]] = {
    "drift": _drift,
    "absorption": _absorption,
    "token_classes": _classes,
    "retrieval_heads": _retrieval,
}
