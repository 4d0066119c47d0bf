"""Logit lens: a map of layer × steps before commitment per model, and the committing pass by layer."""

from __future__ import annotations

import numpy as np

from floatlens.analysis import Result
from floatlens.analysis.lens import BEFORE
from floatlens.plots.description import Axis, Figure, Panel, series
from floatlens.plots.drawing import plot
from floatlens.plots.panels import beside_maps, map_panel
from floatlens.plots.registry import FigureType
from floatlens.plots.style import looks, note

__all__ = ["plot_lens"]


@plot("lens")
def plot_lens(result: Result) -> Figure:
    """How early the final token is the first choice, from `lens(…)` or what it takes. Panels: each model, "by layer".

    Example: `fl.plot_lens(fl.trace(model, question="Who?", gen_length=4, probes=["lens"]))`
    """
    style, maps, lines = looks(result), [], []
    known = [np.asarray(np.isfinite(group.estimate("first").mean).any(axis=0)) for group in result]
    shown = [place for place in reversed(range(len(BEFORE))) if place == 0 or any(one[place] for one in known)]
    for group in result:
        layers, look = group.coordinate("first", "layer"), style[group.model]
        mean = group.estimate("first").mean[:, shown]  # (layer, before), drawn with the last steps to the right
        axes = ("layer", layers), ("steps before it is committed", [BEFORE[place] for place in shown])
        maps.append(map_panel(look.label, mean, *axes, "final token is first (share)", 1.0))
        lines.append(series(look, layers, group.estimated(group.values("first")[..., BEFORE.index("0")])))
    y = Axis("final token is first", range=(0, 1.02), percent=True)
    beside = Panel("by layer", "When it is committed", Axis("layer", whole=True), y, tuple(lines), upright=True)
    words = "tokens before the first EOS" if result.settings.get("tokens", "text") == "text" else "all tokens"
    return beside_maps("Logit lens: final token as first choice", maps, beside, f"{words} · {note(result)}")


LENS = FigureType(("lens",), lambda data: plot_lens.describe(data["lens"]))
