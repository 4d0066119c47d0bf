"""Training curves: loss and accuracy of the scale models over tokens, and the curves of an adaptation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from floatlens.plots.description import Axis, Figure, Look, Panel, Series
from floatlens.plots.drawing import plot
from floatlens.plots.style import colours

__all__ = ["plot_adaptation", "plot_training"]

Log = Sequence[Mapping[str, Any]]
_TOKENS = Axis("tokens seen (millions)")
_LOSSES: dict[str, tuple[str, Any, str]] = {
    "answer_loss": ("answers", "solid", ""),
    "text_loss_33": ("text, up to 33 % masked", "dashed", ""),
    "text_loss_67": ("text, 33–67 % masked", "dashdot", ""),
    "text_loss_100": ("text, above 67 % masked", "dotted", ""),
}
_CHECKS: dict[str, tuple[str, Any, str]] = {
    "answers": ("answers (SQuAD)", "solid", "o"),
    "infill_15": ("text, 15 % masked", "dashed", "s"),
    "infill_50": ("text, 50 % masked", "dashdot", "^"),
    "infill_85": ("text, 85 % masked", "dotted", "v"),
}


@plot()
def plot_training(logs: Mapping[str, Log]) -> Figure:
    """Loss and accuracy over tokens from logs by name, as `floatlens_lab.scale.training.read_log` returns them.

    Example: `plot_training({"llada": read_log(folder)})`
    """
    colour = colours(list(logs))
    stages = tuple(_stages(next(iter(logs.values()), ())))
    panels = []
    for key, factor, y, marks in (
        ("answer_loss", 1.0, Axis("loss per answer token (nats)", range=(0, None)), stages),
        ("accuracy", 100.0, Axis("correct answer tokens (%)", range=(0, 101)), tuple((x, "") for x, _ in stages)),
    ):
        lines = tuple(_line(Look(name, colour[name], ""), log, key, factor) for name, log in logs.items())
        panels.append(Panel(key, "", _TOKENS, y, lines, marks=marks))
    return Figure("Training of the scale models", tuple(panels), "", ((0,), (1,)), (9, 5.6), share_x=True)


def _stages(log: Log) -> list[tuple[float, str]]:
    """Where each stage begins, in millions of tokens, and its name."""
    found: list[tuple[float, str]] = []
    begun = 0.0
    for line in log:
        if not found or line["stage"] != found[-1][1]:
            found.append((begun, line["stage"]))
        begun = line["tokens"] / 1e6
    return found


@plot()
def plot_adaptation(logs: Mapping[str, Log]) -> Figure:
    """Curves of adaptations from logs by name, as `floatlens.adaptation.state.read_log` returns them.

    Colour is the run, the stroke what is measured. Panels: training, held out.

    Example: `plot_adaptation({"twin": read_log(folder)}, panel="held out")`
    """
    colour = colours(list(logs))
    panels = []
    for name, measures, factor, y in (
        ("training", _LOSSES, 1.0, Axis("loss per token (nats)", range=(0, None))),
        ("held out", _CHECKS, 100.0, Axis("correct (%)", range=(0, None))),
    ):
        lines = []
        for run, log in logs.items():
            for key, (words, stroke, marker) in measures.items():
                label = f"{run}: {words}" if len(logs) > 1 else words
                if any(key in line for line in log):
                    lines.append(_line(Look(label, colour[run], marker, stroke), log, key, factor))
        panels.append(Panel(name, name, _TOKENS, y, tuple(lines)))
    return Figure("Adaptation", tuple(panels), "", size=(9, 5.2))


def _line(look: Look, log: Log, key: str, factor: float) -> Series:
    points = [(line["tokens"] / 1e6, factor * line[key]) for line in log if key in line]
    x, mean = (tuple(part) for part in zip(*points, strict=True)) if points else ((), ())
    none = (float("nan"),) * len(mean)
    return Series(look, x, mean, none, none, (1,) * len(mean))
