"""Heatmaps of one trace: received attention by step and position with anchors and regions; q·k of one head."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from floatlens.analysis import Anchors
from floatlens.analysis.anchor_map import AnchorMap, anchor_map
from floatlens.analysis.flow import gold_of
from floatlens.analysis.qk import QKMaps
from floatlens.plots.description import Axis, Entry, Figure, Heat, Look, Panel, Stretch, number_ticks
from floatlens.plots.drawing import plot
from floatlens.plots.registry import FigureType
from floatlens.plots.style import label_of, piece
from floatlens.traces import Trace

__all__ = ["plot_anchors", "plot_qk_maps"]

_FIT_TOKENS = 72
_CALLS = 14
_FIELDS = {"dot": "q·k (unscaled)", "cos": "cosine of q and k", "norm": "|q||k|"}
_PANEL = 3.1  # inches
_FIT_NAMES = 28
_MOST_NAMES = 16
_COLOURS = {
    "bos": "#000000",
    "question": "#56B4E9",
    "gold document": "#E69F00",
    "document": "#B8B8B8",
    "answer": "#009E73",
    "template": "#EDEDED",
}


@plot()
def plot_anchors(anchors: Anchors | Trace, layer: int | None = None) -> Figure:
    """Received attention of one trace, step × position, with its anchors, from `anchors(trace)` or the trace itself.

    Without a layer, the mean over layers and its anchors. Panels: steps, regions; into one `ax` goes the first.

    Example: `fl.plot_anchors(trace, layer=3)`
    """
    view = anchor_map(anchors, layer)
    found, trace = view.source, view.source.trace
    keys = view.values.shape[1]
    tokens = [piece(text) for text in trace.tokens]
    fit = bool(tokens) and keys <= _FIT_TOKENS
    ranked = () if fit else view.ranked[:_CALLS]
    what = "share" if found.normalise == "share" else "mean over the queries that see it"
    heat = Heat(
        view.values,
        tuple(str(step) for step in view.steps),
        tuple(tokens) or tuple(map(str, range(keys))),
        f"received attention\n({what})",
        square_root=True,
        down=True,
        hatched=view.anchors,
        dots=tuple(_committed(trace, view)),
        names={key: f"{tokens[key]} ({key})" if tokens else str(key) for key in ranked},
    )
    title = f"{label_of(trace.model['ref'])}: {'mean over layers' if layer is None else f'layer {layer}'}"
    x = Axis("token, by position", number_ticks(tokens, keys)) if fit else Axis("position in the sequence", whole=True)
    strip = tuple(_stretches(trace))
    panels = (
        Panel("steps", title, x if not strip else Axis(x.label), Axis("step", number_ticks(view.steps)), heat=heat),
        Panel("regions", "", x, strip=strip),
    )
    height = float(np.clip(0.16 * len(view.steps), 1.2, 5.0))
    return Figure(
        f"Received attention step by step, {title}",
        panels,
        _small_print(found, layer),
        ((0,), (1,)),
        (10.0, height + 2.6),
        heights=(height, 0.24),
        share_x=True,
        page_width=900,
        legend=_legend(trace, strip, bool(heat.dots)),
    )


def _committed(trace: Trace, view: AnchorMap) -> Iterator[tuple[int, int]]:
    """Each position at the step whose pass decided its token, as far as that step was kept."""
    rows = {step: row for row, step in enumerate(view.steps)}
    for place, step in zip(trace.data["token_position"].values, trace.data["token_step"].values, strict=True):
        if int(step) in rows:
            yield int(place), rows[int(step)]


def _stretches(trace: Trace) -> Iterator[Stretch]:
    of, gold = trace.data["region_of"].values, f"doc{gold_of(trace)}"
    for first, end in pairwise([0, *(np.flatnonzero(np.diff(of)) + 1), len(of)]):
        name = trace.regions[of[first]]
        kind = _kind(name, gold)
        texts = [name] if not name.startswith("doc") else [name, name.removeprefix("doc")]
        texts = [] if kind == "template" else [f"{name} gold", *texts] if name == gold else texts
        yield Stretch(int(first), int(end) - 1, name, _COLOURS[kind], tuple(texts), name == gold)


def _kind(name: str, gold: str) -> str:
    if name.startswith("doc"):
        return "gold document" if name == gold else "document"
    return name if name in _COLOURS else "template"


def _legend(trace: Trace, strip: tuple[Stretch, ...], dots: bool) -> tuple[Entry, ...]:
    gold = f"doc{gold_of(trace)}"
    present = {_kind(one.name, gold) for one in strip}
    regions = [Entry(Look(kind, colour), "patch") for kind, colour in _COLOURS.items() if kind in present]
    commits = [Entry(Look("committed at this step", "#000000"), "dot")] if dots else []
    return (Entry(Look("anchor", "#000000"), "hatch"), *commits, *regions)


def _small_print(anchors: Anchors, layer: int | None) -> str:
    of = "the mean over layers" if layer is None else "this layer"
    if layer is not None and "head" in anchors.is_anchor.dims:
        of = "any head of this layer"
    queries = "" if anchors.group == "all" else f" · {anchors.group} queries"
    return f"anchors: {anchors.rule}, of {of}{queries} · n = 1 trace · colour scale: square root"


def _first_and_last(anchors: Anchors) -> list[int]:
    layers = anchors.share["layer"].values.tolist()
    return list(dict.fromkeys((layers[0], layers[-1])))


@plot()
def plot_qk_maps(maps: QKMaps) -> Figure:
    """Maps of q·k, cosine and norm of one head, from `qk_maps(trace, layer, head)`. Panels: dot, cos, norm.

    Anchors are marked above; keys that a query does not see stay blank.

    Example: `fl.plot_qk_maps(fl.qk_maps(trace, layer=3, head=1), panel="cos")`
    """
    tokens = tuple(piece(text, 12) for text in maps.tokens)
    fit = 0 < len(tokens) <= _FIT_NAMES
    names = {} if fit or not tokens else {key: tokens[key] for key in maps.ranked[:_MOST_NAMES]}
    size = len(maps.dot)
    ticks = number_ticks(tokens, len(tokens)) if fit else number_ticks(range(size), 6)
    labels = tokens if fit else tuple(str(i) for i in range(size))
    pointers = tuple(int(key) for key in np.flatnonzero(maps.anchors))
    panels = []
    for field, title in _FIELDS.items():
        heat = Heat(getattr(maps, field), labels, labels, title, down=True, pointers=pointers, names=names)
        panels.append(Panel(field, title, Axis("key position", ticks), Axis("query position", ticks), heat=heat))
    where = f"{label_of(maps.model)}, layer {maps.layer}, head {maps.head}, step {maps.step}"
    words = f"{where} · ▼ anchors: {maps.rule} · n = 1 trace · blank: key not seen"
    shape = (3 * (_PANEL + 0.8), _PANEL + (1.6 if fit else 1.0) + 0.5 * bool(names))
    return Figure(f"q·k of {where}", tuple(panels), words, size=shape, share_y="all", page_width=330)


ANCHORS = FigureType(
    ("anchors",),
    lambda data: {
        f"{key}-layer{layer}": plot_anchors.describe(one, layer)
        for key, one in data["anchors"].items()
        for layer in _first_and_last(one)
    },
    on_page=False,
)
"""The first and the last layer of one trace per model; the page has the explorer instead."""
QK_MAPS = FigureType(
    ("qk_maps",), lambda data: {key: plot_qk_maps.describe(one) for key, one in data["qk_maps"].items()}, on_page=False
)
