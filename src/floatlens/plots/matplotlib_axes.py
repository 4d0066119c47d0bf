"""One panel of a figure description on matplotlib axes: series, bars, heatmaps with their marks, axes and handles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis as MatplotlibAxis
from matplotlib.collections import PolyCollection
from matplotlib.colors import PowerNorm
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from floatlens.plots.description import Axis, Bars, Entry, Heat, Look, Panel, Series, Stretch

__all__ = ["GREY", "SMALL", "handle", "paint", "set_up"]

GREY = "#595959"
SMALL = 7.0
_GOLD = "#D55E00"
_STROKES: dict[str, Any] = {"solid": "-", "dashed": (0, (5, 1.6)), "dashdot": "-.", "dotted": (0, (2, 2))}
_NULL: dict[str, Any] = {"lw": 1.0, "ls": _STROKES["dotted"], "marker": ""}
_HATCH: dict[str, Any] = {"facecolor": "0.75", "edgecolor": "black", "hatch": "/////", "lw": 0.7}
_DOT: dict[str, Any] = {"ls": "", "marker": "o", "mfc": "white", "mec": "black", "mew": 0.6}
_THIN = 1.0
_NARROWEST = 4.0  # points; hatches are not visible in less


def paint(axes: Axes, panel: Panel) -> float:
    """Draw what a panel holds; the height in points that its names take above the axes."""
    for place, one in enumerate(panel.series):
        _series(axes, one, panel, place)
    if panel.bars is not None:
        _bars(axes, panel.bars)
    if panel.strip:
        _strip(axes, panel.strip)
    if panel.reference is not None:
        axes.axhline(panel.reference, color=GREY, lw=0.8, ls=_STROKES["dotted"], zorder=1)
    for x, name in panel.marks:
        axes.axvline(x, color="0.85", lw=0.8, zorder=0)
        place_at: dict[str, Any] = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points"}
        if name:
            axes.annotate(name, (x, 1.0), xytext=(2, 2), fontsize=SMALL, color=GREY, rotation=30, **place_at)
    return _heat(axes, panel.heat) if panel.heat is not None else 0.0


# -- series -----------------------------------------------------------------------------------------------------------


def _line(look: Look) -> dict[str, Any]:
    return {
        "color": look.colour,
        "linestyle": _STROKES[look.stroke],
        "marker": look.marker,
        "markerfacecolor": "white" if look.hollow else look.colour,
        "label": look.label,
    }


def _series(axes: Axes, one: Series, panel: Panel, place: int) -> None:
    look, x, mean = one.look, np.array(one.x), np.array(one.mean)
    low, high = np.array(one.low), np.array(one.high)
    if one.role == "null":
        axes.plot(x, mean, color=look.colour, label="_null", zorder=1, **_NULL)
    elif one.role == "shuffled":
        style = _line(look) | {"label": "_shuffled", "lw": _THIN, "zorder": 1}
        axes.plot(*((mean, x) if panel.upright else (x, mean)), **style)
    elif one.kind == "line":
        style = _line(look) | {"markevery": max(1, len(x) // 16)}
        axes.plot(*((mean, x) if panel.upright else (x, mean)), **style)
        if np.isfinite(low).any():
            fill = axes.fill_betweenx if panel.upright else axes.fill_between
            fill(x, low, high, color=look.colour, alpha=0.18, lw=0)
    else:
        _errors(axes, one, x + _shift(panel, place), mean, np.nan_to_num(np.abs(np.stack([mean - low, high - mean]))))


def _shift(panel: Panel, place: int) -> float:
    """Series with error bars are set side by side, so none covers another."""
    places = sorted({x for one in panel.series for x in one.x})
    gap = min([1.0, *np.diff(places)])
    return float(min(0.14, 0.6 / len(panel.series)) * gap * (place - (len(panel.series) - 1) / 2))


def _errors(axes: Axes, one: Series, x: Any, mean: Any, spread: Any) -> None:
    style = _line(one.look) | {"lw": 1.2, "capsize": 2, "elinewidth": 1.0}
    if one.kind == "points":
        style["linestyle"] = ""
    if one.kind == "dumbbell":
        for at, before, after in zip(x, one.start, mean, strict=True):
            axes.plot([at, at], [before, after], color=one.look.colour, lw=3, alpha=0.35, zorder=2)
        axes.plot(x, one.start, ls="", marker="_", ms=9, color=one.look.colour, zorder=3)
        style |= {"linestyle": "", "elinewidth": 0.8, "capsize": 3}
    if one.role in ("count", "mass"):
        style |= {"marker": "+" if one.role == "count" else "x", "alpha": 0.45, "label": "_control"}
        style["linestyle"] = "" if one.kind == "points" else ":"
    axes.errorbar(x, mean, spread, **style)


def _points(axes: Axes) -> tuple[float, float]:
    """Width and height of the whole figure, in points; axes are about 0.86 of its width."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    width, height = figure.get_size_inches() * 72
    return float(width), float(height)


# -- bars and strips --------------------------------------------------------------------------------------------------


def _bars(axes: Axes, bars: Bars) -> None:
    floor = np.zeros(len(bars.x))
    for name, colour, heights in bars.stacks:
        axes.bar(bars.x, heights, bars.width, bottom=floor, color=colour, label=name)
        floor = floor + np.nan_to_num(heights)


def _strip(axes: Axes, strip: Sequence[Stretch]) -> None:
    """A coloured box per stretch of one region, with the longest of its texts that fits."""
    length = strip[-1].last + 1
    width = 0.86 * _points(axes)[0]
    for one in strip:
        size = one.last - one.first + 1
        axes.add_patch(Rectangle((one.first - 0.5, 0), size, 1, fc=one.colour, ec="white", lw=0.4, label=one.name))
        text = next((t for t in one.texts if len(t) * SMALL * 0.62 < size / length * width), None)
        if text:
            style: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": SMALL}
            axes.text((one.first + one.last) / 2, 0.46, text, fontweight="bold" if one.bold else "normal", **style)
    axes.set(xlim=(-0.5, length - 0.5), ylim=(0, 1), yticks=[])
    axes.spines[["left", "bottom"]].set_visible(False)


# -- heatmaps ---------------------------------------------------------------------------------------------------------


def _heat(axes: Axes, heat: Heat) -> float:
    seen = heat.values[np.isfinite(heat.values)]
    scale: dict[str, Any] = {} if heat.top is None else {"vmin": 0, "vmax": heat.top}
    if heat.square_root:
        scale = {"norm": PowerNorm(0.5, vmin=0, vmax=seen.max(initial=0.0) or 1.0)}
    aspect, origin = ("equal" if heat.square else "auto"), ("upper" if heat.down else "lower")
    axes.imshow(heat.values, aspect=aspect, origin=origin, label=heat.label, **scale)  # type: ignore[arg-type]
    if heat.hatched is not None:
        _hatch(axes, heat.hatched)
    if heat.dots:  # an empty line that is not clipped upsets the layout
        size = float(np.clip(200 / max(len(heat.rows), 1), 2.2, 4))
        axes.plot(*zip(*heat.dots, strict=True), label="committed", clip_on=False, ms=size, **_DOT)
    if heat.frame is not None:
        _frame(axes, heat)
    if heat.pointers:
        above: dict[str, Any] = {"transform": axes.get_xaxis_transform(), "clip_on": False, "label": "anchors"}
        axes.plot(heat.pointers, np.full(len(heat.pointers), 1.015), "v", color=_GOLD, ms=4, **above)
    return (4 if heat.pointers else 0) + (_callouts(axes, heat.names) if heat.names else 0)


def _hatch(axes: Axes, found: Any) -> None:
    """One box per run of rows in which a column is marked: black hatches on white ones, visible on any colour.

    Boxes are widened around their column where a cell would be too narrow to see.
    """
    width, height = _points(axes)
    cell = height * 0.6 / len(found)
    half = max(0.5, _NARROWEST / 2 * found.shape[1] / (0.86 * width))
    boxes = []
    for key in np.flatnonzero(found.any(axis=0)):
        edges = np.flatnonzero(np.diff(np.concatenate([[0], found[:, key].astype(int), [0]])))
        for first, last in edges.reshape(-1, 2):
            left, right, top, bottom = key - half, key + half, first - 0.5, last - 0.5
            boxes.append([(left, top), (right, top), (right, bottom), (left, bottom)])
    for colour, line in (("white", 2.0), ("black", 0.7)):
        stroke = line * float(np.clip(cell / 8, 0.4, 1.0))
        with rc_context({"hatch.linewidth": stroke}):
            cells = PolyCollection(boxes, facecolor="none", edgecolor=colour, hatch="/////", lw=stroke, label="anchors")
            axes.add_collection(cells, autolim=False)


def _frame(axes: Axes, heat: Heat) -> None:
    """The framed row and column."""
    assert heat.frame is not None
    style: dict[str, Any] = {"fill": False, "lw": 1.4, "ec": _GOLD, "clip_on": False}
    axes.add_patch(Rectangle((heat.frame - 0.5, -0.5), 1, len(heat.rows), label="gold column", **style))
    axes.add_patch(Rectangle((-0.5, heat.frame - 0.5), len(heat.columns), 1, label="gold row", **style))


def _callouts(axes: Axes, names: Mapping[int, str]) -> float:
    """Names above columns, moved apart so none covers another; the height they take, in points."""
    low, high = axes.get_xlim()
    spec = axes.get_subplotspec()
    columns = spec.get_gridspec().ncols if spec is not None else 1
    width = 0.86 * _points(axes)[0] / columns * (0.85 if columns > 1 else 1)
    gap = (high - low) * SMALL * 1.25 / width
    at = sorted(names)
    line = {"arrowstyle": "-", "lw": 0.5, "color": GREY, "shrinkA": 0, "shrinkB": 0, "relpos": (0.5, 0)}
    style: dict[str, Any] = {"rotation": 90, "ha": "center", "va": "bottom", "fontsize": SMALL, "arrowprops": line}
    where: dict[str, Any] = {"xycoords": ("data", "axes fraction"), "textcoords": ("data", "offset points")}
    for place, x in zip(at, _apart(at, gap, low, high), strict=True):
        axes.annotate(names[place], (place, 1.0), xytext=(x, 16), **where, **style)
    return 16 + max(len(name) * SMALL * 0.54 for name in names.values())


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


# -- axes and legends -------------------------------------------------------------------------------------------------


def set_up(axes: Axes, panel: Panel, above: float) -> None:
    """Scales, ticks, labels and title, after everything is drawn."""
    x, y = (panel.y, panel.x) if panel.upright else (panel.x, panel.y)
    _axis(axes, "x", x, panel)
    _axis(axes, "y", y, panel)
    pad = 6 + above + (1.6 * SMALL if panel.subtitle else 0)
    if panel.title:
        axes.set_title(panel.title, pad=pad)
    if panel.subtitle:
        axes.text(0, 1.02, panel.subtitle, transform=axes.transAxes, fontsize=SMALL, color=GREY, va="bottom")
    if panel.heat is not None:
        _heat_axes(axes, panel.heat)
    if panel.series and panel.x.ticks is None and not panel.upright:
        axes.margins(x=0.02)


def _axis(axes: Axes, name: str, given: Axis, panel: Panel) -> None:
    axis: MatplotlibAxis = getattr(axes, f"{name}axis")
    axis.set_label_text(given.label)
    if given.scale != "linear":
        getattr(axes, f"set_{name}scale")("log", base=2 if given.scale == "log2" else 10)
        axis.set_minor_locator(NullLocator())
    if given.ticks is not None:
        small = panel.heat is not None or bool(panel.strip)
        axis.set_major_locator(FixedLocator([place for place, _ in given.ticks]))
        names = [text for _, text in given.ticks]
        axis.set_ticks([place for place, _ in given.ticks], names, fontsize=SMALL if small else None)
        if small and name == "x" and any(len(text) > 3 for text in names):
            axis.set_tick_params(rotation=90)
    elif given.whole:
        axis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    if given.percent:
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:.3g} %"))
    elif given.scale == "log" and given.ticks is None:
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    if given.range is not None:
        _range(axes, name, given.range)


def _range(axes: Axes, name: str, wanted: tuple[float | None, float | None]) -> None:
    """Both ends, a little beyond a given end so markers on it are whole where the other end follows the data."""
    low, high = getattr(axes, f"get_{name}lim")()
    start, end = wanted
    if start is not None and end is None:
        start -= 0.03 * (high - start)
    elif end is not None and start is None:
        end += 0.04 * (end - low)
    getattr(axes, f"set_{name}lim")(low if start is None else start, high if end is None else end)


def _heat_axes(axes: Axes, heat: Heat) -> None:
    axes.tick_params(length=2)
    axes.spines[["left", "bottom"]].set_visible(False)
    if heat.frame is None:
        return
    for labels in (axes.get_xticklabels(), axes.get_yticklabels()):
        if heat.frame < len(labels):
            labels[heat.frame].set(color=_GOLD, fontweight="bold")


def handle(entry: Entry) -> Artist:
    """An entry of a legend as matplotlib draws it."""
    look = entry.look
    if entry.shown == "patch":
        return Patch(facecolor=look.colour, label=look.label)
    if entry.shown == "hatch":
        return Patch(label=look.label, **_HATCH)
    if entry.shown == "dot":
        return Line2D([], [], label=look.label, ms=4, **_DOT)
    if entry.shown == "null":
        return Line2D([], [], color=look.colour, label=look.label, **_NULL)
    style = _line(look)
    if entry.shown == "shuffled":
        style["lw"] = _THIN
    if entry.shown in ("points", "count", "mass"):
        style |= {"linestyle": ""}
    return Line2D([], [], **style)
