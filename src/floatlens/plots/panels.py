"""Arrangements that several figures share: a map per model beside another panel, and points by name, side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from floatlens.analysis import Result
from floatlens.analysis.intervals import Estimate
from floatlens.analysis.kernels import Floats
from floatlens.plots.description import Axis, Figure, Heat, Look, Panel, Series, grid, number_ticks, series

__all__ = ["beside_maps", "map_panel", "peak_of", "points_by_name"]

Labels = tuple[str, Sequence[object]]
"""The name of an axis and its labels."""


def beside_maps(title: str, maps: Sequence[Panel], beside: Panel, note: str) -> Figure:
    """Maps, one per model, in rows; another panel to the right of all of them."""
    places = grid(len(maps), 2 if len(maps) == 4 else 3) if maps else ((),)
    layout = tuple((*row, len(maps)) for row in places)
    columns = len(layout[0]) - 1
    size = (2.3 * columns + 3.4, 0.9 + 2.9 * len(layout))
    return Figure(title, (*maps, beside), note, layout, size, widths=(*[2.1] * columns, 2.6), page_width=300)


def map_panel(label: str, values: Floats, y: Labels, x: Labels, what: str, top: float) -> Panel:
    """The map of one model."""
    heat = Heat(values, tuple(map(str, y[1])), tuple(map(str, x[1])), what, top)
    return Panel(label, label, Axis(x[0], number_ticks(x[1], 8)), Axis(y[0], number_ticks(y[1], 8)), heat=heat)


def peak_of(values: Sequence[Floats]) -> float:
    """The largest defined value, for a scale that maps share; 1 where there is none above 0."""
    return max((float(np.max(one, where=np.isfinite(one), initial=0.0)) for one in values), default=0.0) or 1.0


def points_by_name(
    result: Result, style: Mapping[str, Look], found: Mapping[str, Estimate], x: Labels
) -> tuple[tuple[Series, ...], Axis]:
    """Points over the names of an axis, models side by side: `found` has an estimate over them for each model."""
    label, names = x
    models = list(result.models)
    apart = 0.6 / max(len(models), 1)
    drawn = tuple(
        series(
            style[model],
            [place + apart * (number - (len(models) - 1) / 2) for place in range(len(names))],
            found[model],
            kind="points",
        )
        for number, model in enumerate(models)
    )
    ticks = tuple((float(place), name) for place, name in enumerate(map(str, names)))
    return drawn, Axis(label, ticks, range=(-0.6, len(names) - 0.4))
