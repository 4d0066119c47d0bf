"""What a figure shows, as plain data: panels with series, bars, heatmaps and marks. Both renderers draw from this.

    Figure("Absorption by layer", (Panel("fixed", x=Axis("layer"), series=(series(look, layers, estimate),)),))

Nothing here knows matplotlib or plotly, and nothing is computed beyond the arrangement of given numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, Literal, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from floatlens.analysis.description import in_words_of
from floatlens.analysis.intervals import Estimate
from floatlens.core.text import printable

__all__ = [
    "SHUFFLED",
    "Axis",
    "Bars",
    "Entry",
    "Figure",
    "Heat",
    "Look",
    "Panel",
    "Series",
    "Stretch",
    "grid",
    "legend_entries",
    "measured",
    "number_ticks",
    "series",
    "without_controls",
]

T = TypeVar("T")

Stroke = Literal["solid", "dashed", "dashdot", "dotted"]
Ticks = tuple[tuple[float, str], ...]


@dataclass(frozen=True)
class Look:
    """How one model (or measure) is drawn. Autoregressive models have dashed lines and hollow markers.

    `marker` is matplotlib's name of it, "" for none; `kind` is that of a model ("arm", "mdm"), "" for anything else.
    """

    label: str
    colour: str
    marker: str = "o"
    stroke: Stroke = "solid"
    hollow: bool = False
    kind: str = ""


@dataclass(frozen=True)
class Axis:
    """A label, named ticks (else automatic ones), a scale and a range, of which either end may be None.

    `percent`: values are shares, printed as percentages. `whole`: only whole numbers are ticks. `unit` follows a value.
    """

    label: str = ""
    ticks: Ticks | None = None
    scale: Literal["linear", "log", "log2"] = "linear"
    range: tuple[float | None, float | None] | None = None
    percent: bool = False
    whole: bool = False
    unit: str = ""


@dataclass(frozen=True)
class Series:
    """Means over x with intervals (NaN: none) and counts.

    A "line" has a band, "points" have error bars, "joined" ones are connected too, and a "dumbbell" starts at `start`.
    The role "null" is what uniform attention would give, "count" and "mass" are random controls of an edit,
    "shuffled" is the model with shuffled weights.
    """

    look: Look
    x: tuple[float, ...]
    mean: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    n: tuple[int, ...]
    kind: Literal["line", "points", "joined", "dumbbell"] = "line"
    role: Literal["", "null", "count", "mass", "shuffled"] = ""
    start: tuple[float, ...] = ()


@dataclass(frozen=True)
class Bars:
    """Bars stacked from 0 to 1: places with widths, and for every name its colour and heights."""

    x: tuple[float, ...]
    width: tuple[float, ...]
    stacks: tuple[tuple[str, str, tuple[float, ...]], ...]


@dataclass(frozen=True, eq=False)
class Heat:
    """A matrix of cells with named rows and columns; NaN stays blank.

    Colours go from 0 to `top`, which panels may share; without it, over the range of the values. `frame` is the place
    of a row and column to be framed, `hatched` marks cells, `dots` are (column, row), `pointers` mark columns from
    above and `names` are written above them.
    """

    values: NDArray[np.float64]
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    label: str
    top: float | None = None
    square_root: bool = False
    down: bool = False
    square: bool = False
    frame: int | None = None
    hatched: NDArray[np.bool_] | None = None
    dots: tuple[tuple[int, int], ...] = ()
    pointers: tuple[int, ...] = ()
    names: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Stretch:
    """A stretch of positions, first and last, that belongs to one region: its colour and what may be written in it."""

    first: int
    last: int
    name: str
    colour: str
    texts: tuple[str, ...] = ()
    bold: bool = False


@dataclass(frozen=True, eq=False)
class Panel:
    """One pair of axes. `name` is how callers ask for it, `reference` a value that means "no difference".

    `marks` are vertical lines with names. With `upright` x runs upwards in print. `empty` is said instead of a drawing.
    """

    name: str
    title: str = ""
    x: Axis = Axis()
    y: Axis = Axis()
    series: tuple[Series, ...] = ()
    bars: Bars | None = None
    heat: Heat | None = None
    strip: tuple[Stretch, ...] = ()
    reference: float | None = None
    marks: tuple[tuple[float, str], ...] = ()
    subtitle: str = ""
    upright: bool = False
    empty: str = ""


@dataclass(frozen=True)
class Entry:
    """A line of a legend: a look, and how it is shown."""

    look: Look
    shown: Literal["line", "points", "null", "count", "mass", "shuffled", "patch", "hatch", "dot"] = "line"


@dataclass(frozen=True, eq=False)
class Figure:
    """Panels in a grid (rows of their places; a place may span cells), with small print.

    `size` is in inches, `widths` and `heights` are ratios of the grid, `page_width` is that of a panel on the page in
    pixels. `share_y` is for "all" panels or those of a "row", `share_x` for those of a column.
    """

    title: str
    panels: tuple[Panel, ...]
    note: str = ""
    layout: tuple[tuple[int | None, ...], ...] = ()
    size: tuple[float, float] = (7.6, 3.7)
    widths: tuple[float, ...] | None = None
    heights: tuple[float, ...] | None = None
    share_y: Literal["", "all", "row"] = ""
    share_x: bool = False
    page_width: int = 420
    legend: tuple[Entry, ...] = ()
    measure: str = "attention"

    @property
    def rows(self) -> tuple[tuple[int | None, ...], ...]:
        """The grid; without a layout all panels are in one row."""
        return self.layout or (tuple(range(len(self.panels))),)


def series(look: Look, x: Iterable[Any], found: Estimate, **more: Any) -> Series:
    """An estimate over x."""
    mean, low, high = (_floats(part) for part in (found.mean, found.low, found.high))
    counts = np.broadcast_to(np.atleast_1d(found.n), len(mean))
    return Series(look, tuple(float(one) for one in x), mean, low, high, tuple(int(n) for n in counts), **more)


def _floats(values: ArrayLike) -> tuple[float, ...]:
    return tuple(float(value) for value in np.atleast_1d(np.asarray(values, dtype=np.float64)))


def grid(count: int, columns: int) -> tuple[tuple[int | None, ...], ...]:
    """So many panels row by row, at most so many in each; cells without a panel are None."""
    columns = max(1, min(count, columns))
    places = [*range(count), *[None] * (-count % columns)]
    return tuple(tuple(places[i : i + columns]) for i in range(0, len(places), columns))


def number_ticks(names: Sequence[object], most: int = 12) -> Ticks:
    """Ticks at the places of a list, named; of many only every second, fifth, tenth …"""
    steps = (1, 2, 4, 5, 10, 20, 50, 100, 200, 500, max(len(names), 1))
    every = next(n for n in steps if -(-len(names) // n) <= most)
    return tuple((float(i), str(names[i])) for i in range(0, len(names), every))


_GREY = "#595959"
SHUFFLED = Look("weights shuffled", "#8C8C8C", "", "dashed")
"""How controls with shuffled weights are drawn: alike for all models, thin, without intervals."""
_ROLES: Mapping[Literal["null", "count", "mass", "shuffled"], Look] = {
    "null": Look("uniform attention", _GREY, ""),
    "count": Look("random control (count)", _GREY, "+"),
    "mass": Look("random control (mass)", _GREY, "x"),
    "shuffled": SHUFFLED,
}


def legend_entries(figure: Figure) -> tuple[Entry, ...]:
    """What the signs of a figure mean: its looks once each, kinds of models where both are there, then the rest."""
    drawn = [one for panel in figure.panels for one in panel.series]
    found: dict[str, Entry] = {}
    for one in drawn:
        if not one.role:
            shown: Literal["line", "points"] = "points" if one.kind in ("points", "dumbbell") else "line"
            found.setdefault(one.look.label, Entry(one.look, shown))
    if {one.look.kind for one in drawn} >= {"arm", "mdm"}:
        shown = "line" if any(one.shown == "line" for one in found.values()) else "points"
        for label, arm in (("masked diffusion", False), ("autoregressive", True)):
            found[label] = Entry(Look(label, _GREY, "o", "dashed" if arm else "solid", arm), shown)
    for panel in figure.panels:
        for name, colour, _ in panel.bars.stacks if panel.bars else ():
            found.setdefault(name, Entry(Look(name, colour), "patch"))
    for role, look in _ROLES.items():
        if any(one.role == role for one in drawn):
            found[look.label] = Entry(replace(look, label=in_words_of(look.label, figure.measure)), role)
    return (*found.values(), *figure.legend)


def measured(figure: Figure, measure: str) -> Figure:
    """A figure of results by another measure than attention: its words name that measure."""
    if measure == "attention":
        return figure

    def named(text: str) -> str:
        return in_words_of(text, measure)

    panels = tuple(
        replace(
            one,
            title=named(one.title),
            subtitle=named(one.subtitle),
            x=replace(one.x, label=named(one.x.label)),
            y=replace(one.y, label=named(one.y.label)),
            heat=None if one.heat is None else replace(one.heat, label=named(one.heat.label)),
        )
        for one in figure.panels
    )
    return replace(figure, title=named(figure.title), note=named(figure.note), panels=panels, measure=measure)


def without_controls(part: T) -> T:
    """A description, or a part of one, without control characters: they make an SVG invalid."""
    made: Any = part
    if isinstance(part, str):
        made = printable(part)
    elif isinstance(part, tuple | list):
        made = type(part)(without_controls(one) for one in part)
    elif isinstance(part, Mapping):
        made = {without_controls(key): without_controls(one) for key, one in part.items()}
    elif is_dataclass(part) and not isinstance(part, type):
        made = replace(
            part, **{one.name: without_controls(getattr(part, one.name)) for one in fields(part) if one.init}
        )
    return cast("T", made)
