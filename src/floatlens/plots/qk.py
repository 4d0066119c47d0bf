"""Why anchors win: pictures of q·k, angle and norm of one head, and the two parts of the advantage over depth."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from floatlens.plots.parts import callouts, depth_lines, heatmap, legend, over_heads, reference, whole_numbers
from floatlens.plots.style import GOLD, canvas, corner, label_of, looks, note, piece, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from floatlens.analysis.qk_picture import QKPicture
    from floatlens.analysis.result import Result

__all__ = ["plot_qk", "plot_qk_profile"]

_FIELDS = {"dot": "q·k (unscaled)", "cos": "cosine of q and k", "norm": "|q||k|"}
_PARTS = {"norm_part": "By the norm of the key", "angle_part": "By its direction"}
_PANEL = 3.1  # inches
_FIT_TOKENS = 28
_MOST_NAMES = 16


@styled
def plot_qk(picture: QKPicture) -> Figure:
    """Three heatmaps, query × key; anchors are marked above, what a query does not see stays blank."""
    tokens = _tokens(picture)
    fit = len(tokens) <= _FIT_TOKENS
    names = {} if fit else {key: tokens[key] for key in picture.ranked[:_MOST_NAMES]}
    figure = canvas(3 * (_PANEL + 0.8), _PANEL + (1.6 if fit and tokens else 1.0) + 0.5 * bool(names))
    panels = figure.subplots(1, 3, sharey=True)
    for axes, (field, what) in zip(panels, _FIELDS.items(), strict=True):
        image = heatmap(axes, getattr(picture, field), label=field)
        _mark(axes, picture)
        if tokens and fit:
            axes.set_xticks(range(len(tokens)), tokens, rotation=90, fontsize=7)
            axes.set_yticks(range(len(tokens)), tokens, fontsize=7)
        axes.set_title(what, pad=10 + callouts(axes, names, _PANEL * 72) * bool(names))
        figure.colorbar(image, ax=axes, pad=0.02)
    panels[0].set_ylabel("query position")
    where = f"{label_of(picture.model)}, layer {picture.layer}, head {picture.head}, step {picture.step}"
    corner(figure, f"{where} · ▼ anchors: {picture.rule} · n = 1 trace · blank: key not seen")
    return figure


def _mark(axes: Axes, picture: QKPicture) -> None:
    """Triangles over the anchors, a frame, and positions along both axes."""
    keys = np.flatnonzero(picture.anchors)
    above = axes.get_xaxis_transform()
    if len(keys):  # an empty line outside of the axes upsets the layout
        height = np.full(len(keys), 1.015)
        axes.plot(keys, height, "v", color=GOLD, ms=4, transform=above, clip_on=False, label="anchors")
    axes.spines[["top", "right"]].set_visible(True)
    axes.set_xlabel("key position")
    whole_numbers(axes.xaxis)
    whole_numbers(axes.yaxis)


def _tokens(picture: QKPicture) -> list[str]:
    return [piece(text, 12) for text in picture.tokens]


@styled
def plot_qk_profile(result: Result) -> Figure:
    """What anchors gain in q·k by the norm of their keys and by their direction, over depth, mean over heads."""
    figure = canvas(7.6, 3.7)
    style = looks(result)
    panels = figure.subplots(1, 2, sharey=True)
    for axes, (part, title) in zip(panels, _PARTS.items(), strict=True):
        depth_lines(axes, result.groups, style, partial(over_heads, variable=part))
        reference(axes, 0.0)
        axes.set_title(title)
    panels[0].set_ylabel("advantage of anchors in q·k (unscaled)")
    legend(figure, style)
    corner(figure, f"{note(result)} · mean over heads")
    return figure
