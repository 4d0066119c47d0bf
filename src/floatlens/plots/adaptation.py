"""Curves of an adaptation: loss over tokens, and what the checks on held-out data found.

Colour tells runs apart, the kind of line what is measured; one legend for each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from floatlens.plots.style import canvas, colours, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["plot_adaptation"]

_LOSSES = {"answer_loss": ("answers", "-", ""), "text_loss_33": ("text, up to 33 % masked", "--", "")}
_LOSSES |= {"text_loss_67": ("text, 33–67 % masked", "-.", ""), "text_loss_100": ("text, above 67 % masked", ":", "")}
_CHECKS = {"answers": ("answers (SQuAD)", "-", "o"), "infill_15": ("text, 15 % masked", "--", "s")}
_CHECKS |= {"infill_50": ("text, 50 % masked", "-.", "^"), "infill_85": ("text, 85 % masked", ":", "v")}


@styled
def plot_adaptation(logs: Mapping[str, Sequence[Mapping[str, Any]]]) -> Figure:
    """The logs of one or more runs by name, as `floatlens.adaptation.state.read_log` gives them."""
    figure, colour = canvas(9, 5.2), colours(list(logs))
    left, right = figure.subplots(1, 2)
    for axes, measures, factor in ((left, _LOSSES, 1.0), (right, _CHECKS, 100.0)):
        for name, log in logs.items():
            for key, (_, dash, marker) in measures.items():
                points = [(line["tokens"] / 1e6, factor * line[key]) for line in log if key in line]
                if points:
                    axes.plot(*zip(*points, strict=True), dash, marker=marker, ms=4, lw=1.3, color=colour[name])
        axes.set_xlabel("tokens seen (millions)")
        axes.set_ylim(bottom=0)
        _legend_below(figure, axes, {words: (dash, marker) for words, dash, marker in measures.values()})
    left.set(ylabel="loss per token (nats)", title="training")
    right.set(ylabel="right (%)", title="held out")
    if len(logs) > 1:
        handles = [left.plot([], [], color=colour[name], lw=3, label=name)[0] for name in logs]
        left.legend(handles=handles, loc="upper right", fontsize=7)
    return figure


def _legend_below(figure: Figure, axes: Axes, measures: Mapping[str, tuple[str, str]]) -> None:
    """What each kind of line measures, in grey, below the panel."""
    handles = [
        axes.plot([], [], dash, marker=marker, ms=4, lw=1.3, color="0.35", label=words)[0]
        for words, (dash, marker) in measures.items()
    ]
    figure.add_artist(
        axes.legend(handles=handles, ncols=2, fontsize=7, loc="upper center", bbox_to_anchor=(0.5, -0.14))
    )
