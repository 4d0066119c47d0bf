"""Training curves of the scale models: answer loss and accuracy over tokens, one line per model, stages marked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from floatlens.plots.style import canvas, colours, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["plot_training"]


@styled
def plot_training(logs: Mapping[str, Sequence[Mapping[str, Any]]]) -> Figure:
    """The logs of one or more runs by name, as `floatlens.subjects.scale.training.read_log` gives them."""
    figure, colour = canvas(9, 5.6), colours(list(logs))
    loss, accuracy = figure.subplots(2, 1, sharex=True)
    for name, log in logs.items():
        tokens = [line["tokens"] / 1e6 for line in log]
        for axes, key, factor in ((loss, "answer_loss", 1), (accuracy, "accuracy", 100)):
            values = [line[key] * factor for line in log]
            axes.plot(tokens, values, lw=1.4, label=name, color=colour[name])
    _mark_stages(loss, accuracy, next(iter(logs.values()), ()))
    loss.set_ylabel("loss per answer token (nats)")
    accuracy.set(ylabel="answer tokens right (%)", xlabel="tokens seen (millions)", ylim=(0, 101))
    loss.set_ylim(bottom=0)
    loss.legend(ncols=4, loc="upper right")
    for axes in (loss, accuracy):
        axes.margins(x=0.01)
    return figure


def _mark_stages(top: Axes, bottom: Axes, log: Sequence[Mapping[str, Any]]) -> None:
    """A thin line where a stage begins, and its name above the upper panel."""
    before, begun = "", 0.0
    for line in log:
        if line["stage"] != before:
            for axes in (top, bottom):
                axes.axvline(begun, color="0.85", lw=0.8, zorder=0)
            top.annotate(
                line["stage"],
                (begun, 1.0),
                xycoords=("data", "axes fraction"),
                xytext=(2, 2),
                textcoords="offset points",
                fontsize=7,
                color="0.35",
                rotation=30,
            )
        before, begun = line["stage"], line["tokens"] / 1e6
