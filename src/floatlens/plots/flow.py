"""Region flow: the rollout between regions for each place of the gold document, and how much gold is preferred."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.patches import Rectangle
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from floatlens.core.errors import FloatlensError, did_you_mean
from floatlens.plots.parts import grid_shape, heatmap, legend, reference
from floatlens.plots.style import GOLD, canvas, corner, label_of, looks, note, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from floatlens.analysis.result import Group, Result
    from floatlens.plots.style import Look

__all__ = ["plot_gold_lift", "plot_rollout"]

_RATIOS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100)


@styled
def plot_rollout(result: Result, model: str) -> Figure:
    """One panel per place of the gold document, on one scale; the row and the column of gold are framed."""
    groups = [group for group in result if group.model == model]
    if not groups:
        raise FloatlensError(f'no flow of model "{model}"{did_you_mean(model, result.models)}')
    groups.sort(key=lambda group: (group.keys["documents"], group.keys["gold"] or 0))
    rows, columns = grid_shape(len(groups), 3 if len(groups) in (1, 2, 3, 5, 6) else 4)
    figure = canvas(3.3 * columns + 1.0, 3.5 * rows + 0.3)
    panels = figure.subplots(rows, columns, squeeze=False)
    means = [group.estimate("rollout").mean for group in groups]
    top = max(_document_peak(group) for group in groups) or 1.0
    for axes in panels.flat[len(groups) :]:
        axes.set_visible(False)
    for axes, group, mean in zip(panels.flat, groups, means, strict=False):
        image = heatmap(axes, mean, aspect="equal", vmin=0, vmax=top)
        _regions(axes, group)
        axes.set_xlabel("to region")
    for row in panels:
        row[0].set_ylabel("from region")
    figure.colorbar(image, ax=panels, label="rollout (rows sum to 1)", shrink=0.9, pad=0.01, extend="max")
    about = f"{label_of(model)} · framed: gold document · colours end at the largest document"
    corner(figure, f"{about} · {note(replace(result, groups=tuple(groups)), interval=False)}")
    return figure


def _document_peak(group: Group) -> float:
    """The largest value in the columns of documents: they are compared, and long template text would outshine them."""
    names = group.coordinate("rollout", "region")
    documents = [i for i, name in enumerate(names) if name.startswith("doc")] or list(range(len(names)))
    mean = group.estimate("rollout").mean[:, documents]
    return float(np.max(mean, where=np.isfinite(mean), initial=0.0))


def _regions(axes: Axes, group: Group) -> None:
    """Names on both axes, gold framed and set off in its labels."""
    names = group.coordinate("rollout", "region")
    gold = f"doc{group.keys['gold']}"
    axes.set_xticks(range(len(names)), names, rotation=90, fontsize=7)
    axes.set_yticks(range(len(names)), names, fontsize=7)
    axes.tick_params(length=0)
    axes.spines[["left", "bottom"]].set_visible(False)
    if gold not in names:
        axes.set_title(f"{group.keys['documents']} documents, no gold")
        return
    axes.set_title(f"gold at {group.keys['gold']} of {group.keys['documents']}")
    at = names.index(gold)
    frame: dict[str, Any] = {"fill": False, "lw": 1.4, "ec": GOLD, "clip_on": False}
    axes.add_patch(Rectangle((at - 0.5, -0.5), 1, len(names), label="gold column", **frame))
    axes.add_patch(Rectangle((-0.5, at - 0.5), len(names), 1, label="gold row", **frame))
    for labels in (axes.get_xticklabels(), axes.get_yticklabels()):
        labels[at].set(color=GOLD, fontweight="bold")


@styled
def plot_gold_lift(result: Result) -> Figure:
    """Gold ÷ mean of the other documents, from the answer, over uniform attention, by place of gold; 1 is neutral."""
    figure = canvas(5.6, 3.7)
    axes = figure.add_subplot()
    style = looks(result)
    series = dict.fromkeys((g.model, g.keys["documents"]) for g in result if g.keys["gold"] is not None)
    for i, (model, documents) in enumerate(series):
        groups = [g for g in result if (g.model, g.keys["documents"]) == (model, documents) and g.keys["gold"]]
        _lifts(axes, sorted(groups, key=lambda g: int(g.keys["gold"])), style[model], i - (len(series) - 1) / 2)
    reference(axes, 1.0)
    axes.set(xlabel="place of the gold document", ylabel="gold ÷ mean of the others,\nover uniform attention")
    _ratio_axis(axes)
    places = sorted({int(group.keys["gold"]) for group in result if group.keys["gold"]})
    if len(places) <= 12:
        axes.set_xticks(places)
    legend(figure, {model: style[model] for model, _ in series})
    counts = sorted({documents for _, documents in series})
    corner(figure, f"{'/'.join(map(str, counts)) or 'no'} documents · {note(result)}".replace("bands", "bars"))
    return figure


def _lifts(axes: Axes, groups: list[Group], look: Look, shift: float) -> None:
    """A line through the places of gold; models stand side by side so that their bars do not cover each other."""
    found = [group.estimate("lift_over_uniform") for group in groups]
    mean, low, high = (np.array([float(getattr(one, key)) for one in found]) for key in ("mean", "low", "high"))
    places = np.array([float(group.keys["gold"]) for group in groups]) + 0.08 * shift
    bars = np.nan_to_num(np.clip(np.stack([mean - low, high - mean]), 0, None))
    axes.errorbar(places, mean, bars, capsize=2.5, elinewidth=1.0, **look.line)


def _ratio_axis(axes: Axes) -> None:
    """Ratios on a logarithmic axis, so that twice and half are equally far from 1; linear where one is 0."""
    drawn = np.concatenate([np.asarray(line.get_ydata(), dtype=float) for line in axes.lines])
    drawn = drawn[np.isfinite(drawn)]
    if (drawn <= 0).any():
        axes.set_ylim(bottom=0)
        return
    axes.set_yscale("log")
    low, high = min(drawn.min() / 1.15, 0.8), max(drawn.max() * 1.15, 1.25)
    axes.set_ylim(low, high)
    fine = (0.8, 0.9, 1, 1.1, 1.25, 1.5, 2, 3) if high / low < 4 else _RATIOS
    axes.yaxis.set_major_locator(FixedLocator([ratio for ratio in fine if low <= ratio <= high]))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_locator(NullLocator())
