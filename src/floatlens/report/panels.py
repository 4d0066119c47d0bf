"""Panels: what an interactive figure shows, as plain numbers and words that the page draws. They compute nothing.

A panel has a `kind` (lines, points, heat, bars), a title, names of its axes and its series. The models' colours and
strokes are those of the printed figures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from floatlens.analysis.intervals import Estimate
from floatlens.analysis.result import Group
from floatlens.plots.style import Look

__all__ = ["Panel", "Styles", "bars", "common", "drawn_as", "heat", "lines", "numbers", "points", "series"]

Panel = dict[str, Any]
Styles = Mapping[str, Look]


def numbers(values: Any) -> list[Any]:
    """An array as (nested) lists of numbers."""
    return list(np.asarray(values, dtype=np.float64).tolist())


def series(look: Look, x: Sequence[Any], found: Estimate, **more: Any) -> dict[str, Any]:
    """A mean with its interval over x."""
    parts = {key: numbers(np.atleast_1d(getattr(found, key))) for key in ("mean", "low", "high", "n")}
    return {**drawn_as(look), "x": list(x), **parts, **more}


def drawn_as(look: Look) -> dict[str, Any]:
    """How the page draws a model, by name, colour and shape."""
    return {"name": look.label, "colour": look.colour, "marker": look.marker, "arm": look.arm}


def common(panels: Sequence[Panel]) -> list[Panel]:
    """The same panels with one range from 0 for all, so that they can be compared."""
    ends = [
        value for panel in panels for one in panel["series"] for key in ("low", "high", "mean") for value in one[key]
    ]
    known = [0.0, *(value for value in ends if value == value)]
    low, high = min(known), max(known)
    pad = 0.06 * (high - low or 1.0)
    return [panel | {"range": [low - pad if low < 0 else 0.0, high + pad]} for panel in panels]


def lines(
    title: str,
    y: str,
    groups: Iterable[Group],
    style: Styles,
    get: Callable[[Group], tuple[list[Any], Estimate]],
    **more: Any,
) -> Panel:
    """One line and band per model over its layers."""
    drawn = [series(style[group.model], *get(group)) for group in groups]
    return {"kind": "lines", "title": title, "x": "layer", "y": y, "series": drawn, **more}


def points(title: str, x: str, y: str, drawn: Sequence[dict[str, Any]], **more: Any) -> Panel:
    """Means with error bars, joined by lines."""
    return {"kind": "points", "title": title, "x": x, "y": y, "series": list(drawn), **more}


def heat(title: str, rows: Sequence[Any], columns: Sequence[Any], values: Any, top: float, **more: Any) -> Panel:
    """A matrix; row 0 below, unless `down` is given. All panels with one `top` share a scale."""
    names = {"rows": list(rows), "columns": list(columns)}
    return {"kind": "heat", "title": title, **names, "values": numbers(values), "top": top, **more}


def bars(title: str, y: str, x: Sequence[Any], stacks: Mapping[str, tuple[str, Any]], **more: Any) -> Panel:
    """Stacked bars: name → (colour, heights)."""
    drawn = [{"name": name, "colour": colour, "mean": numbers(high)} for name, (colour, high) in stacks.items()]
    return {
        "kind": "bars",
        "title": title,
        "x": "layer",
        "y": y,
        "at": [str(one) for one in x],
        "series": drawn,
        **more,
    }
