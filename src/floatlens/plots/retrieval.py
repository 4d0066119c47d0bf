"""Retrieval heads: a heatmap of layer × head per model, all on one scale, and the mean over heads by layer."""

from __future__ import annotations

from typing import Any

import numpy as np

from floatlens.analysis import Group, Result
from floatlens.analysis.retrieval import THRESHOLDS
from floatlens.plots.description import Axis, Figure, Heat, Panel, grid, number_ticks
from floatlens.plots.drawing import plot
from floatlens.plots.registry import FigureType
from floatlens.plots.style import depth_series, looks, note

__all__ = ["plot_retrieval_heads"]

_WORDS = {
    "copy": "copy score (share of the evidence copied)",
    "copy_code": "copy score as Wu et al. compute it",
    "focus": "answer tokens that attend to the evidence (share)",
    "mass": "attention on the evidence (share)",
    "qr": "attention of the question on gold (share)",
}


@plot("retrieval_heads")
def plot_retrieval_heads(result: Result, score: str = "copy") -> Figure:
    """Scores of all heads, from `retrieval_heads(…)` or what it takes. Panels: each model by its label, "by layer".

    Example: `fl.plot_retrieval_heads(fl.retrieval_heads("runs/demo"), "mass")`
    """
    style = looks(result)
    means = [group.estimate(score).mean for group in result]
    top = max((float(np.max(mean, where=np.isfinite(mean), initial=0.0)) for mean in means), default=0.0) or 1.0
    panels = [
        _map(group, score, style[group.model].label, mean, top, _shares(result, group, score))
        for group, mean in zip(result, means, strict=True)
    ]
    y = Axis(f"{score} score, mean over heads", range=(0, None))
    lines = depth_series(result, score, style)
    panels.append(Panel("by layer", "By layer", Axis("layer", whole=True), y, lines, upright=True))
    maps = grid(len(panels) - 1, 2 if len(panels) == 5 else 3) if len(panels) > 1 else ((),)
    layout = tuple((*row, len(panels) - 1) for row in maps)
    columns = len(layout[0]) - 1
    return Figure(
        "Retrieval score by layer and head",
        tuple(panels),
        f"score: {score} · {note(result)}",
        layout,
        (2.3 * columns + 3.4, 0.9 + 2.9 * len(layout)),
        widths=(*[2.1] * columns, 2.6),
        page_width=300,
    )


def _map(group: Group, score: str, label: str, mean: Any, top: float, subtitle: str) -> Panel:
    layers, heads = group.coordinate(score, "layer"), group.coordinate(score, "head")
    heat = Heat(mean, tuple(map(str, layers)), tuple(map(str, heads)), _WORDS[score], top)
    x, y = (Axis(name, number_ticks(labels, 8)) for name, labels in (("head", heads), ("layer", layers)))
    return Panel(label, label, x, y, heat=heat, subtitle=subtitle)


def _shares(result: Result, group: Group, score: str) -> str:
    """How many of the heads are retrieval heads, by half of the depth."""
    by_half = {
        one.labels["half"]: float(one.found.mean)
        for of, one in result.summary
        if of is group and one.variable == f"{score}_heads" and one.labels["above"] == THRESHOLDS[0]
    }
    told = [f"{share:.0%} {half}" for half, share in by_half.items() if np.isfinite(share)]
    return f"above {THRESHOLDS[0]:g}: {', '.join(told)}" if told else ""


RETRIEVAL_HEADS = FigureType(("retrieval_heads",), lambda data: plot_retrieval_heads.describe(data["retrieval_heads"]))
