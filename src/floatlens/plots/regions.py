"""The strip under a heatmap that says where a position belongs: bos, question, documents, gold, answer, template."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.patches import Patch, Rectangle

from floatlens.analysis.flow import gold_of
from floatlens.plots.style import SMALL

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from floatlens.traces import Trace

__all__ = ["draw_regions", "region_handles"]

_COLOURS = {
    "bos": "#000000",
    "question": "#56B4E9",
    "gold document": "#E69F00",
    "document": "0.72",
    "answer": "#009E73",
    "template": "0.93",
}


def draw_regions(axes: Axes, trace: Trace, width: float) -> None:
    """A coloured box per stretch of one region, with its name where that fits; `width` of the axes in points."""
    of = trace.data["region_of"].values
    edges = [0, *(np.flatnonzero(np.diff(of)) + 1), len(of)]
    for first, last in pairwise(edges):
        name = trace.regions[of[first]]
        colour = _COLOURS[_kind(name, trace)]
        box = Rectangle((first - 0.5, 0), last - first, 1, fc=colour, ec="white", lw=0.4, label=name)
        axes.add_patch(box)
        room = (last - first) / len(of) * width
        text = next((t for t in _texts(name, trace) if len(t) * SMALL * 0.62 < room), None)
        if text and name != "template":
            bold = "bold" if _kind(name, trace) == "gold document" else "normal"
            axes.text((first + last - 1) / 2, 0.46, text, ha="center", va="center", fontsize=SMALL, fontweight=bold)
    axes.set(xlim=(-0.5, len(of) - 0.5), ylim=(0, 1), yticks=[])
    axes.spines[["left", "bottom"]].set_visible(False)


def region_handles(trace: Trace) -> list[Patch]:
    """For the legend: the kinds of region that this trace has."""
    present = {_kind(trace.regions[i], trace) for i in np.unique(trace.data["region_of"].values)}
    return [Patch(facecolor=colour, label=kind) for kind, colour in _COLOURS.items() if kind in present]


def _kind(name: str, trace: Trace) -> str:
    if name.startswith("doc"):
        return "gold document" if name == f"doc{gold_of(trace)}" else "document"
    return name if name in _COLOURS else "template"


def _texts(name: str, trace: Trace) -> list[str]:
    """What to write into a box, longest first."""
    if not name.startswith("doc"):
        return [name]
    number = name.removeprefix("doc")
    gold = [f"{name} gold"] if _kind(name, trace) == "gold document" else []
    return [*gold, name, number]
