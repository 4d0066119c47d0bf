"""Curves of an adaptation: loss over tokens, and what the checks on held-out data found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from floatlens.figures.style import canvas, colours, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["plot_adaptation"]

_LOSSES = {"answer_loss": ("answers", "-"), "text_loss_33": ("text, up to 33 % masked", "--")}
_LOSSES |= {"text_loss_67": ("text, 33–67 % masked", "-."), "text_loss_100": ("text, above 67 % masked", ":")}
_CHECKS = {"answers": ("answers (SQuAD)", "-", "o"), "infill_15": ("text, 15 % masked", "--", "s")}
_CHECKS |= {"infill_50": ("text, 50 % masked", "-.", "^"), "infill_85": ("text, 85 % masked", ":", "v")}


@styled
def plot_adaptation(logs: Mapping[str, Sequence[Mapping[str, Any]]]) -> Figure:
    """The logs of one or more runs by name, as `floatlens.training.state.read_log` gives them."""
    figure, colour = canvas(9, 5.6), colours(list(logs))
    left, right = figure.subplots(1, 2)
    several = len(logs) > 1
    for name, log in logs.items():
        for key, (words, dash) in _LOSSES.items():
            points = [(line["tokens"] / 1e6, line[key]) for line in log if key in line]
            if points:
                label = f"{name}: {words}" if several else words
                left.plot(*zip(*points, strict=True), dash, lw=1.3, color=colour[name], label=label)
        for key, (words, dash, marker) in _CHECKS.items():
            points = [(line["tokens"] / 1e6, 100 * line[key]) for line in log if key in line]
            if points:
                label = f"{name}: {words}" if several else words
                right.plot(
                    *zip(*points, strict=True), dash, lw=1.3, marker=marker, ms=4, color=colour[name], label=label
                )
    left.set(xlabel="tokens seen (millions)", ylabel="loss per token (nats)", title="training")
    right.set(xlabel="tokens seen (millions)", ylabel="right (%)", title="held out")
    for axes in (left, right):
        axes.set_ylim(bottom=0)
        axes.legend(fontsize=7)
    return figure
