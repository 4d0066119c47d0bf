"""The figure of a changing collection: accuracy, stale answers, use of withdrawn documents and recall by snapshot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from floatlens.analysis.collection import ALL, RATES
from floatlens.core.errors import FloatlensError
from floatlens.data.collection.versions import short_date
from floatlens.plots.description import Axis, Figure, Look, Panel, Series, grid
from floatlens.plots.drawing import plot
from floatlens.plots.registry import FigureType
from floatlens.plots.style import label_of, looks_of, span

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["plot_collection"]


@plot()
def plot_collection(rates: pd.DataFrame) -> Figure:
    """Rates at each snapshot, from `collection_rates(answers)`. Panels are named after the rates; with several data
    sets, each with the name of the data set before it.

    Example: `fl.plot_collection(rates)`
    """
    rows = rates[rates["date"] != ALL]
    if rows.empty:
        raise FloatlensError("no answers at snapshots of a collection; there is nothing to draw")
    style = looks_of(dict(zip(rows["model"], rows["kind"], strict=True)))
    sets = list(dict.fromkeys(rows["data"]))
    panels = []
    for data in sets:
        for rate, title in RATES.items():
            own = rows[(rows["data"] == data) & (rows["rate"] == rate)]
            name, words = (f"{data} {rate}", f"{label_of(data)}: {title}") if len(sets) > 1 else (rate, title)
            panels.append(_panel(name, words[0].upper() + words[1:], own, style))
    layout = grid(len(panels), 4 if len(panels) > 4 else 2)
    words_below = f"n = {span([int(n) for n in rows['n']])} questions per point; 95 % intervals (Wilson)"
    size = (max(5.6, 3.1 * len(layout[0]) + 0.6), 1.0 + 2.6 * len(layout))
    return Figure("Changing collection", tuple(panels), words_below, layout, size, share_y="all", page_width=320)


def _panel(name: str, title: str, rows: pd.DataFrame, style: Mapping[str, Look]) -> Panel:
    drawn = []
    for model in dict.fromkeys(rows["model"]):
        own = rows[rows["model"] == model]
        x, mean, low, high = (tuple(map(float, own[key])) for key in ("x", "mean", "low", "high"))
        drawn.append(Series(style[model], x, mean, low, high, tuple(int(n) for n in own["n"]), "joined"))
    places = rows.drop_duplicates("x").sort_values("x")
    ticks = tuple((float(x), short_date(str(date))) for x, date in zip(places["x"], places["date"], strict=True))
    x_axis = Axis("snapshot", ticks, range=(-0.4, len(ticks) - 0.6))
    return Panel(name, title, x_axis, Axis("share of questions", range=(-0.03, 1.03), percent=True), tuple(drawn))


COLLECTION = FigureType(("collection",), lambda data: plot_collection.describe(data["collection"]))
