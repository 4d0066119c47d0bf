"""Drift of one trace: received attention over steps and positions, anchors hatched, regions and commitments marked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib import rc_context
from matplotlib.collections import PolyCollection
from matplotlib.colors import PowerNorm
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from numpy.typing import NDArray

from floatlens.analysis.drift_picture import DriftPicture, drift_picture
from floatlens.plots.parts import callouts, heatmap, numbered, outside, whole_numbers
from floatlens.plots.regions import draw_regions, region_handles
from floatlens.plots.style import canvas, corner, label_of, piece, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from floatlens.analysis.anchors import Anchors
    from floatlens.traces import Trace

__all__ = ["plot_drift"]

_WIDTH = 10.0  # inches; of the axes about 8.6
_POINTS = 8.6 * 72
_FIT_TOKENS = 72
_CALLS = 14
_NARROWEST = 4.0  # points; hatches are not seen in less
_STROKES = {"white": 2.0, "black": 0.7}  # points, the first below the second


@styled
def plot_drift(anchors: Anchors | Trace, layer: int | None = None) -> Figure:
    """Received attention of a layer, or the mean over layers, whose anchors are those of the mean by the same rule.

    A trace is shown with the anchors of `zscore`.
    """
    view = drift_picture(anchors, layer)
    anchors = view.source
    trace = anchors.trace
    steps = len(view.steps)
    height = float(np.clip(0.16 * steps, 1.2, 5.0))
    figure = canvas(_WIDTH, height + 2.6)
    heat, strip = figure.subplots(2, 1, sharex=True, height_ratios=[height, 0.24])
    seen = view.values[np.isfinite(view.values)]
    image = heatmap(heat, view.values, norm=PowerNorm(0.5, vmin=0, vmax=seen.max(initial=0.0) or 1.0))
    _hatch(heat, view.anchors, height * 72 / steps)
    _committed(heat, anchors, view.steps)
    numbered(heat.yaxis, view.steps)
    heat.set_ylabel("step")
    heat.tick_params(bottom=False, labelbottom=False)
    draw_regions(strip, trace, _POINTS)
    _name(heat, strip, anchors, view)
    what = "share" if anchors.normalise == "share" else "mean over the queries that see it"
    bar = figure.colorbar(image, ax=[heat, strip], pad=0.01, aspect=24, fraction=0.05)
    bar.set_label(f"received attention\n({what})")
    outside(figure, [*_handles(anchors), *region_handles(trace)])
    corner(figure, _small_print(anchors, layer))
    return figure


def _hatch(axes: Axes, found: NDArray[np.bool_], cell: float) -> None:
    """One box per run of steps in which a key is an anchor: black hatches on white ones, so that any colour shows them.

    Boxes are widened around their key where a cell would be too narrow to see; `cell` is the height of one in points.
    """
    half = max(0.5, _NARROWEST / 2 * found.shape[1] / _POINTS)
    boxes = []
    for key in np.flatnonzero(found.any(axis=0)):
        edges = np.flatnonzero(np.diff(np.concatenate([[0], found[:, key].astype(int), [0]])))
        for first, last in edges.reshape(-1, 2):
            left, right, top, bottom = key - half, key + half, first - 0.5, last - 0.5
            boxes.append([(left, top), (right, top), (right, bottom), (left, bottom)])
    for colour, width in _STROKES.items():
        stroke = width * float(np.clip(cell / 8, 0.4, 1.0))
        with rc_context({"hatch.linewidth": stroke}):
            cells = PolyCollection(boxes, facecolor="none", edgecolor=colour, hatch="/////", lw=stroke, label="anchors")
            axes.add_collection(cells, autolim=False)


def _committed(axes: Axes, anchors: Anchors, steps: Sequence[int]) -> None:
    """A dot on every position at the step whose pass decided its token."""
    data = anchors.trace.data
    rows = {step: row for row, step in enumerate(steps)}
    where = [
        (int(place), rows[int(step)])
        for place, step in zip(data["token_position"].values, data["token_step"].values, strict=True)
        if int(step) in rows
    ]
    size = float(np.clip(200 / max(len(steps), 1), 2.2, 4))
    if where:  # an empty line that is not clipped upsets the layout
        axes.plot(*zip(*where, strict=True), **_dot(size))


def _dot(size: float) -> dict[str, Any]:
    return {
        "ls": "",
        "marker": "o",
        "ms": size,
        "mfc": "white",
        "mec": "black",
        "mew": 0.6,
        "label": "committed",
        "clip_on": False,
    }


def _name(heat: Axes, strip: Axes, anchors: Anchors, view: DriftPicture) -> None:
    """Every token below where there is room; else numbers below, and the strongest anchors by name above."""
    tokens = [piece(text) for text in anchors.trace.tokens]
    keys = view.values.shape[1]
    pad = 6.0
    if tokens and keys <= _FIT_TOKENS:
        strip.set_xticks(range(keys), tokens, rotation=90, fontsize=7)
        strip.set_xlabel("token, by position")
    else:
        whole_numbers(strip.xaxis)
        strip.set_xlabel("position in the sequence")
        names = {key: f"{tokens[key]} ({key})" if tokens else str(key) for key in view.ranked[:_CALLS]}
        pad += callouts(heat, names, _POINTS) if names else 0
    what = "mean over layers" if view.layer is None else f"layer {view.layer}"
    heat.set_title(f"{label_of(anchors.trace.model['ref'])}: {what}", pad=pad)


def _handles(anchors: Anchors) -> list[Any]:
    hatched = Patch(facecolor="0.75", edgecolor="black", hatch="/////", lw=0.7, label="anchor")
    dots = Line2D([], [], **(_dot(4) | {"label": "committed at this step"}))
    return [hatched, dots] if len(anchors.trace.data["token_position"]) else [hatched]


def _small_print(anchors: Anchors, layer: int | None) -> str:
    of = "the mean over layers" if layer is None else "this layer"
    if layer is not None and "head" in anchors.is_anchor.dims:
        of = "any head of this layer"
    queries = "" if anchors.group == "all" else f" · {anchors.group} queries"
    return f"anchors: {anchors.rule}, of {of}{queries} · n = 1 trace · colour scale: square root"
