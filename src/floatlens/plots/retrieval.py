"""Retrieval heads: a heatmap of layer × head per model, all on one scale, and the mean over heads by layer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from floatlens.analysis import Group, Result
from floatlens.analysis.retrieval import THRESHOLDS
from floatlens.plots.description import Axis, Figure, Panel
from floatlens.plots.drawing import plot
from floatlens.plots.panels import beside_maps, map_panel, peak_of
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
    top = peak_of(means)
    maps = []
    for group, mean in zip(result, means, strict=True):
        layers, heads = group.coordinate(score, "layer"), group.coordinate(score, "head")
        one = map_panel(style[group.model].label, mean, ("layer", layers), ("head", heads), _WORDS[score], top)
        maps.append(replace(one, subtitle=_shares(result, group, score)))
    y = Axis(f"{score} score, mean over heads", range=(0, None))
    lines = depth_series(result, score, style)
    beside = Panel("by layer", "By layer", Axis("layer", whole=True), y, lines, upright=True)
    return beside_maps("Retrieval score by layer and head", maps, beside, f"score: {score} · {note(result)}")


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
