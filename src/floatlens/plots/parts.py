"""What several figures share: lines over depth with bands, a legend outside the axes, heatmaps, callouts of keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike, NDArray

from floatlens.analysis.intervals import Estimate
from floatlens.plots.style import GREY, SMALL, Look

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

    from floatlens.analysis.result import Group

__all__ = [
    "below_one",
    "by_layer",
    "callouts",
    "depth_lines",
    "from_zero",
    "grid_shape",
    "heatmap",
    "legend",
    "line",
    "numbered",
    "outside",
    "over_heads",
    "reference",
    "whole_numbers",
]


def line(axes: Axes, x: ArrayLike, found: Estimate, look: Look, *, upright: bool = False) -> None:
    """A mean with its band; `upright` runs upwards instead of to the right. Without an interval there is no band."""
    where = np.asarray(x)
    style: dict[str, Any] = look.line | {"markevery": max(1, len(where) // 16)}
    axes.plot(*((found.mean, where) if upright else (where, found.mean)), **style)
    if np.isfinite(found.low).any():
        fill = axes.fill_betweenx if upright else axes.fill_between
        fill(where, found.low, found.high, color=look.colour, alpha=0.18, lw=0)


def depth_lines(
    axes: Axes, groups: Sequence[Group], style: Mapping[str, Look], get: Callable[[Group], tuple[list[Any], Estimate]]
) -> None:
    """One line per model over its layers; `get` gives a group's layers and estimate."""
    for group in groups:
        layers, found = get(group)
        line(axes, layers, found, style[group.model])
    axes.set_xlabel("layer")
    whole_numbers(axes.xaxis)
    axes.margins(x=0.02)


def by_layer(group: Group, variable: str, **at: Any) -> tuple[list[Any], Estimate]:
    """A group's layers and the estimate of a variable over them, at one label of each other dimension."""
    found = group.estimate(variable)
    index = tuple(group.coordinate(variable, dim).index(value) for dim, value in at.items())
    parts = (np.asarray(part)[index] for part in (found.mean, found.std, found.low, found.high, found.n))
    return group.coordinate(variable, "layer"), Estimate(*parts)


def over_heads(group: Group, variable: str) -> tuple[list[Any], Estimate]:
    """The same of a variable by layer and head, averaged over the heads of each sample."""
    return group.coordinate(variable, "layer"), group.estimate(variable, over="head")


def numbered(axis: Axis, names: Sequence[object], most: int = 12) -> None:
    """Ticks at the places of a list, named; of many only every second, fifth, tenth …"""
    every = next(n for n in (1, 2, 4, 5, 10, 20, 50, 100, 200, 500, len(names)) if -(-len(names) // n) <= most)
    axis.set_ticks(range(0, len(names), every), [str(name) for name in names[::every]])


def whole_numbers(axis: Axis) -> None:
    axis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))


def reference(axes: Axes, y: float) -> None:
    """A thin dashed line at a value that means "as by chance" or "no difference"."""
    axes.axhline(y, color=GREY, lw=0.8, ls=(0, (2, 2)), zorder=1)


def legend(figure: Figure, style: Mapping[str, Look], extra: Sequence[Artist] = ()) -> None:
    """Models above the axes; what the dashes of autoregressive models mean is said where both kinds are present."""
    handles: list[Artist] = [Line2D([], [], **look.line) for look in style.values()]
    if len({look.arm for look in style.values()}) == 2:
        for label, arm in (("masked diffusion", False), ("autoregressive", True)):
            handles.append(Line2D([], [], **(Look(label, GREY, "o", arm).line)))
    outside(figure, [*handles, *extra])


def outside(figure: Figure, *rows: Sequence[Artist]) -> None:
    """A legend above all axes: the rows as they are given, or one row broken where the width has no room for it."""
    if len(rows) == 1:
        widths = [_text_width(str(handle.get_label()), 8) + 42 for handle in rows[0]]  # points, with the handle
        room = figure.get_size_inches()[0] * 72
        fits = next((n for n in range(len(widths), 1, -1) if sum(max(widths[i::n]) for i in range(n)) <= room), 1)
        fits = -(-len(widths) // -(-len(widths) // fits)) if widths else 1  # rows of equal length
        rows = tuple(rows[0][i : i + fits] for i in range(0, len(rows[0]), fits))
    columns = max((len(row) for row in rows), default=0)
    blank = Line2D([], [], ls="", label=" ")
    full = [[*row, *[blank] * (columns - len(row))] for row in rows]
    handles = [row[i] for i in range(columns) for row in full]  # legends are filled column by column
    if handles:
        labels = [str(handle.get_label()) for handle in handles]
        figure.legend(handles, labels, loc="outside upper left", ncols=columns, columnspacing=1.4)


def _text_width(text: str, size: float) -> float:
    """Roughly, in points."""
    return len(text) * size * 0.54


def from_zero(axes: Axes, dim: Literal["x", "y"] = "y", least: float = 0.0) -> None:
    """Let an axis begin a little below 0, so that markers at 0 are whole, and reach `least` at least."""
    top = max((axes.get_ylim() if dim == "y" else axes.get_xlim())[1], least)
    (axes.set_ylim if dim == "y" else axes.set_xlim)(-0.03 * top, top)


def below_one(axes: Axes) -> None:
    """Let an axis of shares that come close to 1 end a little above it, so that markers at 1 are whole."""
    low = axes.get_ylim()[0]
    axes.set_ylim(top=1 + 0.04 * (1 - low))


def heatmap(axes: Axes, values: NDArray[Any], **more: Any) -> AxesImage:
    """Cells of a matrix, row 0 where `origin` says; what is not defined stays blank."""
    return axes.imshow(values, aspect=more.pop("aspect", "auto"), **more)


def grid_shape(count: int, columns: int) -> tuple[int, int]:
    """Rows and columns for so many panels."""
    return -(-count // columns), min(count, columns)


def callouts(axes: Axes, names: Mapping[int, str], width: float, *, size: float = SMALL) -> float:
    """Names above the columns of a heatmap, moved apart so that none covers another; the height they take, in points.

    `width` is that of the axes in points. Columns are counted from 0.
    """
    low, high = axes.get_xlim()
    gap = (high - low) * size * 1.25 / width
    at = sorted(names)
    for place, x in zip(at, _apart(at, gap, low, high), strict=True):
        axes.annotate(
            names[place],
            (place, 1.0),
            xycoords=("data", "axes fraction"),
            xytext=(x, 16),
            textcoords=("data", "offset points"),
            rotation=90,
            ha="center",
            va="bottom",
            fontsize=size,
            arrowprops={"arrowstyle": "-", "lw": 0.5, "color": GREY, "shrinkA": 0, "shrinkB": 0, "relpos": (0.5, 0)},
        )
    return 16 + max((_text_width(name, size) for name in names.values()), default=0.0)


def _apart(places: Sequence[int], gap: float, low: float, high: float) -> list[float]:
    """Places in order, pushed apart to at least `gap` and kept inside."""
    found: list[float] = []
    for place in places:
        found.append(max(float(place), found[-1] + gap if found else low + gap / 2))
    limit = high - gap / 2
    for i in range(len(found) - 1, -1, -1):
        found[i] = min(found[i], limit)
        limit = found[i] - gap
    return found
