"""Token classes: what anchors and received attention stand on, layer by layer, and whether that is more than chance."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import PercentFormatter

from floatlens.plots.parts import by_layer, line, outside, reference
from floatlens.plots.style import GREY, Look, canvas, corner, looks, note, styled

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from floatlens.analysis.result import Group, Result

__all__ = ["plot_token_classes"]

_COLOURS = {
    "special": "#0072B2",
    "punctuation": "#56B4E9",
    "function": "#009E73",
    "content": "#D55E00",
    "number": "#E69F00",
    "mask": "0.75",
}
_SIDES = {"structural": "#0072B2", "lexical": "#D55E00"}
_ROWS = {"anchors": "share of anchors", "mass": "share of attention"}


@styled
def plot_token_classes(result: Result) -> Figure:
    """Per model a column: shares of anchors and of attention by class (all tokens beside them), and enrichment."""
    count = max(1, len(result.groups))
    figure = canvas(max(6.9, 2.5 * count + 1.2), 7.4)
    panels = figure.subplots(3, count, squeeze=False, sharey="row", sharex="col")
    for column, group in zip(panels.T, result, strict=False):
        for axes, variable in zip(column, _ROWS, strict=False):
            _stack(axes, group, variable)
        _enrichment(column[2], group)
        column[0].set_title(looks(result)[group.model].label)
        column[2].set_xlabel("layer")
    for axes, what in zip(panels[:, 0], [*_ROWS.values(), "enrichment\n(share ÷ share of tokens)"], strict=True):
        axes.set_ylabel(what)
    outside(figure, *_handles())
    corner(figure, f"{note(result)} · T: the tokens themselves")
    return figure


def _stack(axes: Axes, group: Group, variable: str) -> None:
    """Bars that sum to 1, one per layer, and a separate one for the tokens present."""
    layers = np.array(group.coordinate(variable, "layer"))
    names = group.coordinate(variable, "class")
    shares, tokens = group.estimate(variable).mean, group.estimate("tokens").mean
    wide = max(1.0, len(layers) / 14)
    at, widths = np.append(layers, layers.max() + 0.5 + 1.5 * wide), np.append(np.full(len(layers), 0.9), 0.9 * wide)
    floor = np.zeros(len(layers) + 1)
    for i, name in enumerate(names):
        heights = np.append(shares[i], tokens[i])
        axes.bar(at, heights, widths, bottom=floor, color=_COLOURS[name], label=name)
        floor = floor + np.nan_to_num(heights)
    axes.annotate("T", (at[-1], 1.0), (0, 1), textcoords="offset points", ha="center", fontsize=7, color=GREY)
    axes.set_ylim(0, 1)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, symbol=" %"))
    axes.set_xticks(layers[:: -(-len(layers) // 12)])


def _enrichment(axes: Axes, group: Group) -> None:
    """Structural and lexical classes taken together; anchors open and dashed, attention filled."""
    for side, colour in _SIDES.items():
        for suffix, of_anchors in (("", False), ("_anchors", True)):
            layers, found = by_layer(group, f"{side}{suffix}")
            line(axes, layers, found, Look(f"{side}{suffix}", colour, "o" if side == "structural" else "s", of_anchors))
    reference(axes, 1.0)


def _handles() -> tuple[list[Artist], list[Artist]]:
    """Two rows of the legend: classes, and the lines of enrichment."""
    lines: list[Artist] = []
    patches: list[Artist] = [Patch(color=colour, label=name) for name, colour in _COLOURS.items()]
    for side, colour in _SIDES.items():
        marker = "o" if side == "structural" else "s"
        lines.append(Line2D([], [], ls="", marker=marker, color=colour, label=side))
    for label, of_anchors in (("of attention", False), ("of anchors", True)):
        lines.append(Line2D([], [], **Look(label, GREY, "o", of_anchors).line))
    return patches, lines
