"""Flow to the answer: how much gold is preferred, by its position, and the approximate rollout between regions."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np

from floatlens.analysis import Group, Result
from floatlens.analysis.flow import gold_lift
from floatlens.analysis.intervals import Estimate
from floatlens.core.errors import FloatlensError, did_you_mean
from floatlens.plots.description import Axis, Figure, Heat, Look, Panel, Series, grid, number_ticks, series
from floatlens.plots.drawing import plot
from floatlens.plots.registry import FigureType
from floatlens.plots.style import label_of, looks, note

__all__ = ["plot_flow", "plot_gold_lift"]

Way = Literal["direct", "rollout"]
_RATIOS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100)
_FINE = (0.7, 0.8, 0.9, 1, 1.1, 1.25, 1.5, 2, 3)


@plot("flow")
def plot_flow(result: Result, model: str | None = None) -> Figure:
    """Rollout between regions of one model (an approximation), from `flow(…)` or what it takes; of several models name
    one.

    Panels are named as their titles: "gold at 1 of 5". See `plot_gold_lift` for the comparison of models.

    Example: `fl.plot_flow(fl.flow(trace))`
    """
    if model is None and len(result.models) != 1:
        raise FloatlensError(f"which model? plot_flow(…, model=) one of {', '.join(result.models)}")
    model = model or result.models[0]
    groups = [group for group in result if group.model == model]
    if not groups:
        raise FloatlensError(f'no flow of model "{model}"{did_you_mean(model, result.models)}')
    groups.sort(key=lambda group: (group.keys["documents"], group.keys["gold"] or 0))
    top = max(_document_peak(group) for group in result) or 1.0
    layout = grid(len(groups), 3 if len(groups) in (1, 2, 3, 5, 6) else 4)
    words = "approximation: the tokens of a region count as one · framed: gold document"
    return Figure(
        f"Rollout between regions (approximation), {label_of(model, result.models)}",
        tuple(_rollout(group, top) for group in groups),
        f"{label_of(model)} · {words} · {note(replace(result, groups=tuple(groups)), intervals='')}",
        layout,
        (3.3 * len(layout[0]) + 1.0, 3.5 * len(layout) + 0.3),
        page_width=340,
    )


def _document_peak(group: Group) -> float:
    """The largest value in the columns of documents: they are compared, and long template text would exceed them."""
    names = group.coordinate("region_rollout", "region")
    documents = [i for i, name in enumerate(names) if name.startswith("doc")] or list(range(len(names)))
    mean = group.estimate("region_rollout").mean[:, documents]
    return float(np.max(mean, where=np.isfinite(mean), initial=0.0))


def _rollout(group: Group, top: float) -> Panel:
    names = tuple(group.coordinate("region_rollout", "region"))
    gold, documents = group.keys["gold"], group.keys["documents"]
    frame = names.index(f"doc{gold}") if f"doc{gold}" in names else None
    title = f"{documents} documents, no gold" if frame is None else f"gold at {gold} of {documents}"
    mean = group.estimate("region_rollout").mean
    heat = Heat(mean, names, names, "region rollout (rows sum to 1)", top, down=True, square=True, frame=frame)
    ticks = number_ticks(names, len(names))
    return Panel(title, title, Axis("to region", ticks), Axis("from region", ticks), heat=heat)


@plot("flow")
def plot_gold_lift(result: Result) -> Figure:
    """How much more the answer takes from gold than from other documents, from `flow(…)` or what it takes.

    Two panels, "direct" and "rollout": attention of the rows that decided the answer, and their exact rollout over
    tokens. 1 is what uniform attention gives. Points are geometric means over questions.

    Example: `fl.plot_gold_lift("runs/demo")`
    """
    style = looks(result)
    lines = dict.fromkeys((g.model, g.keys["documents"]) for g in result if g.keys["gold"] is not None)
    ways: tuple[Way, ...] = ("direct", "rollout")
    drawn = {
        how: tuple(_lifts(result, model, documents, how, style[model]) for model, documents in lines) for how in ways
    }
    places = sorted({x for one in drawn["direct"] for x in one.x})
    ticks = tuple((x, f"{x:g}") for x in places) if len(places) <= 12 else None
    x = Axis("position of the gold document", ticks, whole=True)
    y = _ratio_axis(drawn["direct"] + drawn["rollout"])
    titles = {"direct": "Attention", "rollout": "Rollout over tokens"}
    panels = tuple(Panel(how, titles[how], x, y, drawn[how], reference=1.0) for how in ways)
    counts = "/".join(str(count) for count in sorted({documents for _, documents in lines})) or "no"
    words = f"rows that decided the answer · 1 = uniform attention · {counts} documents"
    about = f"{words} · {note(result, intervals='bars')}"
    return Figure("Gold lift by position of the gold document", panels, about, size=(7.6, 3.7), share_y="all")


def _lifts(result: Result, model: str, documents: int, how: Way, look: Look) -> Series:
    groups = [g for g in result if (g.model, g.keys["documents"]) == (model, documents) and g.keys["gold"]]
    groups.sort(key=lambda g: int(g.keys["gold"]))
    found = [gold_lift(group, how) for group in groups]
    parts = [np.array([float(getattr(one, key)) for one in found]) for key in ("mean", "std", "low", "high", "n")]
    return series(look, [int(group.keys["gold"]) for group in groups], Estimate(*parts), kind="joined")


def _ratio_axis(drawn: tuple[Series, ...]) -> Axis:
    """Ratios on a logarithmic axis, where twice and half are equally far from 1; linear where an interval reaches 0."""
    label = "gold lift\n(× other documents, over uniform)"
    ends = np.array([x for one in drawn for part in (one.mean, one.low, one.high) for x in part])
    ends = ends[np.isfinite(ends)]
    if not len(ends) or (ends <= 0).any():
        return Axis(label, range=(0, None), unit=" ×")
    low, high = min(ends.min() / 1.15, 0.8), max(ends.max() * 1.15, 1.25)
    shown = [ratio for ratio in (_FINE if high / low < 4 else _RATIOS) if low <= ratio <= high]
    return Axis(label, tuple((ratio, f"{ratio:g}") for ratio in shown), "log", (float(low), float(high)), unit=" ×")


ROLLOUT = FigureType(
    ("flow",),
    lambda data: {
        label_of(one, data["flow"].models): plot_flow.describe(data["flow"], one)
        for one in data["flow"].without_controls().models
    },
)
GOLD_LIFT = FigureType(("flow",), lambda data: plot_gold_lift.describe(data["flow"]))
