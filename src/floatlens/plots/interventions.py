"""Dose and response: what an edit of attention does to accuracy, beside its random control.

An edit has a panel, and each of its variants that comes in several doses one of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.lines import Line2D

from floatlens.core.errors import FloatlensError
from floatlens.plots.doses import dose_panels, is_curve
from floatlens.plots.parts import grid_shape, outside, reference
from floatlens.plots.style import GREY, Look, canvas, corner, looks_of, styled

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["plot_interventions"]

_WORDS = {
    "accuracy": "accuracy, edited less plain",
    "f1": "F1, edited less plain",
    "kl": "divergence of the first token (nats)",
}


@styled
def plot_interventions(rows: pd.DataFrame, metric: str = "accuracy") -> Figure:
    """The difference from plain at every dose, with its interval; controls pale, with crosses, to the right of each.

    `rows` are those of `study.intervening.effects`, of one data set.
    """
    own = rows[rows["metric"] == metric]
    if own.empty:
        raise FloatlensError(f'no effect on "{metric}" to draw')
    style = looks_of({model: kind == "arm" for model, kind in zip(own["model"], own["kind"], strict=True)})
    panels = dose_panels(own)
    height, width = grid_shape(len(panels), 4 if len(panels) > 6 else 3)
    figure = canvas(max(5.6, 3.2 * width + 0.6), 1.1 + 2.7 * height)
    grid = figure.subplots(height, width, sharey=True, squeeze=False)
    for axes, (title, doses) in zip(grid.flat, panels.items(), strict=False):
        _panel(axes, own[(own["edit"] + " " + own["settings"]).isin(list(doses))], doses, style)
        axes.set_title(title)
    for axes in grid.flat[len(panels) :]:
        axes.set_visible(False)
    for axes in grid[:, 0]:
        axes.set_ylabel(_WORDS[metric])
    handles = [Line2D([], [], **look.line) for look in style.values()]
    outside(figure, [*handles, Line2D([], [], ls="", marker="x", color=GREY, label="random control")])
    corner(figure, f"Up to {int(own['n'].max())} questions; bars: paired 95 % bootstrap intervals over questions.")
    return figure


def _panel(axes: Axes, own: pd.DataFrame, doses: dict[str, str], style: dict[str, Look]) -> None:
    places = {dose: place for place, dose in enumerate(doses)}
    line = "-" if is_curve(doses) else ""
    for i, (model, look) in enumerate(style.items()):
        for control in (True, False):
            some = own[(own["model"] == model) & (own["control"] == control)]
            shift = 0.2 * (i - (len(style) - 1) / 2) + 0.08 * control  # side by side: one may not hide the other
            at = np.array([places[dose] for dose in some["edit"] + " " + some["settings"]]) + shift
            spread = np.abs(np.stack([some["difference"] - some["low"], some["high"] - some["difference"]]))
            how: dict[str, Any] = look.line | {"linestyle": line}
            if control:
                how |= {"marker": "x", "alpha": 0.45, "label": "_control", "linestyle": ":" if line else ""}
            axes.errorbar(at, some["difference"], np.nan_to_num(spread), lw=1.2, capsize=2, **how)
    axes.set_xticks(range(len(doses)), list(doses.values()))
    axes.set_xlim(-0.6, len(doses) - 0.4)
    reference(axes, 0.0)
