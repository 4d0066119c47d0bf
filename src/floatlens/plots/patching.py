"""The figure of activation patching: how far the answer follows the states that are put at anchors, by layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import pandas as pd

from floatlens.analysis.patching import patching_effects
from floatlens.plots.description import Axis, Figure, Look, Panel, Series, grid
from floatlens.plots.drawing import plot
from floatlens.plots.registry import FigureType
from floatlens.plots.style import label_of, looks_of, span

if TYPE_CHECKING:
    from floatlens.evaluation.patching import Patching

__all__ = ["plot_patching"]

_WHAT = {"kv": "Keys and values patched", "residual": "Residual states patched"}
_ROLES: dict[str, Literal["", "mass"]] = {"anchors": "", "control": "mass"}
_EFFECT = Axis("effect (0 = original,\n1 = counterfactual answer)")


@plot()
def plot_patching(found: Patching | Sequence[Patching] | pd.DataFrame) -> Figure:
    """Effect of patching by layer, from `fl.patching(…)` of one model or several, or the table `patching` of a run.

    Panels: kv, residual; with several data sets, each with the name of the data set before it. Lines with intervals are
    the strongest keys, crosses random others that receive as much.

    Example: `fl.plot_patching(fl.patching(model, "Ann has a cat .", "Ann has a dog .", gen_length=4))`
    """
    rows = found if isinstance(found, pd.DataFrame) else _effects(found)
    style = looks_of(dict(zip(rows["model"], rows["kind"], strict=True)))
    sets = list(dict.fromkeys(rows["data"]))
    panels = []
    for data in sets:
        for what, title in _WHAT.items():
            own = rows[(rows["data"] == data) & (rows["what"] == what)]
            if not own.empty:
                name, words = (f"{data} {what}", f"{label_of(data)}: {title}") if len(sets) > 1 else (what, title)
                panels.append(_panel(name, words, own, style))
    layout = grid(len(panels), 2)
    counts = [int(n) for n in rows["n"] if n]
    words_below = f"n = {span(counts)} questions · bars: 95 % intervals over questions"
    size = (max(5.6, 3.6 * len(layout[0]) + 0.4), 1.1 + 2.7 * len(layout))
    return Figure("Activation patching of anchors", tuple(panels), words_below, layout, size, share_y="all")


def _effects(found: Patching | Sequence[Patching]) -> pd.DataFrame:
    given = found if isinstance(found, Sequence) else [found]
    return patching_effects(pd.concat([one.to_frame() for one in given], ignore_index=True))


def _panel(name: str, title: str, rows: pd.DataFrame, style: Mapping[str, Look]) -> Panel:
    drawn = []
    for model in dict.fromkeys(rows["model"]):
        for patched, role in _ROLES.items():
            own = rows[(rows["model"] == model) & (rows["patched"] == patched)]
            x, mean, low, high = (tuple(map(float, own[key])) for key in ("layer", "effect", "low", "high"))
            counts = tuple(int(n) for n in own["n"])
            drawn.append(Series(style[model], x, mean, low, high, counts, "joined", role))
    return Panel(name, title, Axis("layer", whole=True), _EFFECT, tuple(drawn), reference=0.0)


PATCHING = FigureType(("patching",), lambda data: plot_patching.describe(data["patching"]))
