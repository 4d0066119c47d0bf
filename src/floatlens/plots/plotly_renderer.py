"""Figure descriptions as JSON for the page, whose script (report/page/js/traces.js) hands them to plotly.

Colours that depend on the theme are chosen there; everything else is said here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from floatlens.plots.description import Axis, Figure, Heat, Look, Panel, Series, legend_entries

__all__ = ["as_data", "look_data"]


def as_data(figure: Figure, name: str) -> dict[str, Any]:
    """A figure under the name that links lead to."""
    panels = [panel for panel in figure.panels if not panel.empty and not panel.strip]
    if figure.share_y == "all":
        panels = _common(panels)
    return {
        "id": name,
        "title": figure.title,
        "note": figure.note,
        "width": figure.page_width,
        "legend": [look_data(one.look) | {"shown": one.shown} for one in legend_entries(figure)],
        "panels": [_panel(panel) for panel in panels],
    }


def _common(panels: list[Panel]) -> list[Panel]:
    """The same panels with one range of y for all, so they can be compared; as given where a range is."""
    known = _ends(one for panel in panels for one in panel.series)
    if not known or any(panel.y.range and None not in panel.y.range for panel in panels):
        return panels
    low, high = min(0.0, *known), max(0.0, *known)
    pad = 0.06 * (high - low or 1.0)
    span = (low - pad if low < 0 else 0.0, high + pad)
    return [replace(panel, y=replace(panel.y, range=span)) for panel in panels]


def _ends(drawn: Iterable[Series]) -> list[float]:
    every = [x for one in drawn for part in (one.mean, one.low, one.high) for x in part]
    return [x for x in every if np.isfinite(x)]


def look_data(look: Look) -> dict[str, Any]:
    """How the page draws a model: name, colour, shape and stroke."""
    return {"name": look.label} | {key: getattr(look, key) for key in ("colour", "marker", "stroke", "hollow")}


def _axis(axis: Axis) -> dict[str, Any]:
    ticks = None if axis.ticks is None else [[at, text.replace("\n", " ")] for at, text in axis.ticks]
    kept = {key: getattr(axis, key) for key in ("label", "scale", "range", "percent", "unit")}
    return kept | {"ticks": ticks}


def _panel(panel: Panel) -> dict[str, Any]:
    made: dict[str, Any] = {
        "name": panel.name,
        "title": panel.title + (f" ({panel.subtitle})" if panel.subtitle else ""),
        "x": _axis(panel.x),
        "y": _axis(panel.y),
        "series": [_series(one) for one in panel.series],
        "reference": panel.reference,
        "marks": panel.marks,
    }
    if panel.bars is not None:
        stacks = [dict(zip(("name", "colour", "mean"), one, strict=True)) for one in panel.bars.stacks]
        made["bars"] = {"x": panel.bars.x, "width": panel.bars.width, "stacks": stacks}
    if panel.heat is not None:
        made["heat"] = _heat(panel.heat)
    return made


def _series(one: Series) -> dict[str, Any]:
    parts = {key: list(getattr(one, key)) for key in ("x", "mean", "low", "high", "n", "start")}
    return look_data(one.look) | parts | {"kind": one.kind, "role": one.role}


def _heat(heat: Heat) -> dict[str, Any]:
    seen = heat.values[np.isfinite(heat.values)]
    top = heat.top if heat.top is not None else float(seen.max(initial=0.0))
    low = 0.0 if heat.top is not None else float(seen.min(initial=0.0))
    marked = np.argwhere(heat.hatched) if heat.hatched is not None else np.empty((0, 2), dtype=int)
    kept = {key: getattr(heat, key) for key in ("rows", "columns", "down", "frame", "dots")}
    marks = [[int(column), int(row)] for row, column in marked]
    label = heat.label.replace("\n", " ")
    return kept | {"values": heat.values.tolist(), "label": label, "low": low, "top": top, "marked": marks}
