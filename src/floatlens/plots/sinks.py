"""Sinks: a map of layer × head per model with the mean by layer; kinds of sinks, and what they follow."""

from __future__ import annotations

import numpy as np

from floatlens.analysis import Result
from floatlens.analysis.kernels import nanmean
from floatlens.analysis.sinks import KINDS
from floatlens.plots.description import Axis, Figure, Panel, series
from floatlens.plots.drawing import plot
from floatlens.plots.panels import beside_maps, map_panel, points_by_name
from floatlens.plots.registry import FigureType
from floatlens.plots.style import looks, note

__all__ = ["plot_sink_kinds", "plot_sinks"]

_NAMES = ("any", "first\nposition", "special\ntoken", "mask", "other")
_FOLLOWS = {"position_beyond_chance": "its position", "token_beyond_chance": "its token"}


@plot("sinks")
def plot_sinks(result: Result) -> Figure:
    """Sink rate of all heads, from `sinks(…)` or what it takes. Panels: each model by its label, "by layer".

    Example: `fl.plot_sinks(fl.sinks(trace))`
    """
    style, maps, lines = looks(result), [], []
    for group in result:
        layers, heads = group.coordinate("rate", "layer"), group.coordinate("rate", "head")
        values = group.values("rate")[:, KINDS.index("any")]  # (sample, layer, head)
        rate = group.estimated(values).mean
        label = style[group.model].label
        maps.append(map_panel(label, rate, ("layer", layers), ("head", heads), "sink rate (share of steps)", 1.0))
        lines.append(series(style[group.model], layers, group.estimated(nanmean(values, axis=-1))))
    y = Axis("sink rate, mean over heads", range=(0, None))
    beside = Panel("by layer", "By layer", Axis("layer", whole=True), y, tuple(lines), upright=True)
    return beside_maps("Sink rate by layer and head", maps, beside, f"{_above(result)} · {note(result)}")


@plot("sinks")
def plot_sink_kinds(result: Result) -> Figure:
    """Which keys are sinks and what they follow, from `sinks(…)` or what it takes. Panels: kinds, follows.

    Example: `fl.plot_sink_kinds(fl.sinks(trace))`
    """
    style = looks(result)
    kinds, x = points_by_name(
        result, style, {g.model: g.estimate("sink_heads") for g in result}, ("kind of key", _NAMES)
    )
    y = Axis("heads with a sink rate above 0.5", range=(0, None), percent=True)
    panels = [Panel("kinds", "Kinds of sinks", x, y, kinds)]
    found = {g.model: g.estimated(np.stack([g.values(name) for name in _FOLLOWS], axis=-1)) for g in result}
    follows, x = points_by_name(result, style, found, ("what a sink follows", list(_FOLLOWS.values())))
    y = Axis("share of sinks, beyond chance", range=(None, 1.0))
    panels.append(Panel("follows", "When documents change places", x, y, follows, reference=0.0))
    words = f"{_above(result)} · {note(result, intervals='bars')} · follows: lasting sinks inside documents"
    return Figure("Kinds of sinks", tuple(panels), words, size=(8.4, 3.7), widths=(3, 2))


def _above(result: Result) -> str:
    return f"sink: more than {result.settings.get('above', 0.3):g} from the queries that see it"


SINKS = FigureType(("sinks",), lambda data: plot_sinks.describe(data["sinks"]))
SINK_KINDS = FigureType(("sinks",), lambda data: plot_sink_kinds.describe(data["sinks"]))
