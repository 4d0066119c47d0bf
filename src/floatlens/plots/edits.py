"""Dose and response: what an edit of attention does to answers, beside its random control."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from floatlens.analysis.conditions import DosePanel, dose_panels
from floatlens.core.errors import FloatlensError
from floatlens.plots.description import Axis, Figure, Panel, Series, grid
from floatlens.plots.drawing import Ax, Size, draw
from floatlens.plots.registry import FigureType
from floatlens.plots.style import label_of, looks_of, span

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure as MatplotlibFigure

    from floatlens.plots.description import Look

__all__ = ["EDITS", "edits_figure", "plot_edits"]

_WORDS = {
    "accuracy": (
        "Accuracy under edits of attention",
        Axis("change in accuracy\n(percentage points)", unit=" pp"),
        100.0,
    ),
    "f1": ("F1 under edits of attention", Axis("change in F1\n(percentage points)", unit=" pp"), 100.0),
    "kl": ("Change of the first token under edits", Axis("KL divergence (nats)", unit=" nats"), 1.0),
}


def edits_figure(rows: pd.DataFrame, metric: str = "accuracy") -> Figure:
    """The change vs. unedited for each dose, with its interval; random controls as crosses beside each.

    `rows` are those of `edit_effects`; an edit has a panel, and a variant with several doses one of its own.
    """
    own = rows[rows["metric"] == metric]
    if own.empty:
        raise FloatlensError(f'no effect on "{metric}" to draw')
    style = looks_of(dict(zip(own["model"], own["kind"], strict=True)))
    several = own["data"].nunique() > 1
    panels = []
    for data, some in own.groupby("data", sort=False):
        for doses in dose_panels(some["condition"]):
            words = f"{label_of(str(data))}: {doses.title}" if several else doses.title
            panels.append(_panel(words.replace("_", " "), some, doses, style, metric))
    layout = grid(len(panels), 4 if len(panels) > 6 else 3)
    counts = [int(n) for n in own["n"] if n]
    words = f"n = {span(counts)} questions · bars: paired 95 % bootstrap intervals over questions"
    size = (max(5.6, 3.2 * len(layout[0]) + 0.6), 1.1 + 2.7 * len(layout))
    return Figure(_WORDS[metric][0], tuple(panels), words, layout, size, share_y="all", page_width=340)


def _panel(title: str, rows: pd.DataFrame, doses: DosePanel, style: dict[str, Look], metric: str) -> Panel:
    places = {edit: float(place) for place, edit in enumerate(doses.ticks)}
    rows = rows[[one.edited in places for one in rows["condition"]]]
    _, y, factor = _WORDS[metric]
    kind: Any = "joined" if doses.curve else "points"
    drawn = []
    for model, look in style.items():
        for control in (False, True):
            some = rows[(rows["model"] == model) & (rows["control"] == control)]
            if some.empty:
                continue
            x = tuple(places[one.edited] for one in some["condition"])
            mean, low, high = (
                tuple(factor * some[name].to_numpy(dtype=float)) for name in ("difference", "low", "high")
            )
            counts = tuple(int(n) for n in some["n"])
            drawn.append(Series(look, x, mean, low, high, counts, kind, "control" if control else ""))
    ticks = tuple((place, doses.ticks[edit]) for edit, place in places.items())
    return Panel(title, title, Axis("", ticks, range=(-0.6, len(ticks) - 0.4)), y, tuple(drawn), reference=0.0)


def _every(data: Any) -> dict[str, Figure]:
    found = data["edits"]
    return {metric: edits_figure(found, metric) for metric in ("accuracy", "kl") if (found["metric"] == metric).any()}


EDITS = FigureType(("edits",), _every)


def plot_edits(
    effects: pd.DataFrame,
    metric: str = "accuracy",
    *,
    ax: Ax = None,
    figsize: Size = None,
    panel: str | None = None,
) -> MatplotlibFigure:
    """What edits do to a metric ("accuracy", "f1" or "kl"), from `edit_effects(answers)`. Panels are named by title.

    Example: `fl.plot_edits(edit_effects(answers), "kl")`
    """
    return draw(edits_figure(effects, metric), ax, figsize, panel)
