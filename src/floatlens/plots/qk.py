"""Why anchors win: the two parts of their advantage in q·k by layer, and maps of q·k, angle and norm of one head."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from floatlens.plots.description import Axis, Figure, Heat, Panel, number_ticks
from floatlens.plots.drawing import Ax, Size, draw, result_of
from floatlens.plots.registry import FigureType
from floatlens.plots.style import depth_series, label_of, note, piece

if TYPE_CHECKING:
    from matplotlib.figure import Figure as MatplotlibFigure

    from floatlens.analysis.qk_maps import QKMaps
    from floatlens.analysis.result import Result
    from floatlens.analysis.sources import Traces

__all__ = ["QK", "QK_MAPS", "plot_qk", "plot_qk_maps", "qk_figure", "qk_maps_figure"]

_FIELDS = {"dot": "q·k (unscaled)", "cos": "cosine of q and k", "norm": "|q||k|"}
_PARTS = {"norm_part": "By the norm of the key", "angle_part": "By its direction"}
_PANEL = 3.1  # inches
_FIT_TOKENS = 28
_MOST_NAMES = 16


def qk_figure(result: Result) -> Figure:
    """What anchors gain in q·k by the norm of their keys and by their direction, by layer, mean over heads."""
    y = Axis("advantage of anchors in q·k (unscaled)")
    panels = tuple(
        Panel(part, title, Axis("layer", whole=True), y, depth_series(result, part), reference=0.0)
        for part, title in _PARTS.items()
    )
    words = f"{note(result)} · mean over heads"
    return Figure("Advantage of anchors in q·k, by layer", panels, words, share_y="all")


def qk_maps_figure(maps: QKMaps) -> Figure:
    """Three heatmaps, query × key; anchors are marked above, keys that a query does not see stay blank."""
    tokens = tuple(piece(text, 12) for text in maps.tokens)
    fit = 0 < len(tokens) <= _FIT_TOKENS
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


QK = FigureType(("qk",), lambda data: qk_figure(data["qk"]))
QK_MAPS = FigureType(
    ("qk_maps",), lambda data: {key: qk_maps_figure(one) for key, one in data["qk_maps"].items()}, on_page=False
)


def plot_qk(
    of: Result | Traces, *, ax: Ax = None, figsize: Size = None, panel: str | None = None, **settings: Any
) -> MatplotlibFigure:
    """The advantage of anchors in q·k by layer, from `qk(…)` or what it takes. Panels: norm_part, angle_part.

    Example: `fl.plot_qk(fl.qk(trace))`
    """
    return draw(qk_figure(result_of(of, "qk", settings)), ax, figsize, panel)


def plot_qk_maps(maps: QKMaps, *, ax: Ax = None, figsize: Size = None, panel: str | None = None) -> MatplotlibFigure:
    """Maps of q·k, cosine and norm of one head, from `qk_maps(trace, layer, head)`. Panels: dot, cos, norm.

    Example: `fl.plot_qk_maps(fl.qk_maps(trace, layer=3, head=1), panel="cos")`
    """
    return draw(qk_maps_figure(maps), ax, figsize, panel)
