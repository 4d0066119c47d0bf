"""Refresh schedules of a cache on a terminal: what each one saves and costs, the recommendation, and its layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.text import Text

from floatlens.cli.tables import INTERVAL, Row, by_model, interval, number
from floatlens.cli.terminal import clean
from floatlens.plots.style import label_of, span

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["cache_view"]

_PARTS = ["saved", "accuracy", "change", INTERVAL]
_LAYER = ["every n steps", "keys for 90 %", "95 %", "99 %"]


def cache_view(tables: Mapping[str, pd.DataFrame], models: Sequence[str], width: int) -> RenderableType:
    """The tables `cache_schedules` and, where there are traces, `cache_layers`."""
    tried = tables["cache_schedules"]
    there = set(tried["model"])
    models = [model for model in models if model in there]
    labels = [label_of(model, models) for model in models]
    shown: list[RenderableType] = [by_model("saved, accuracy (%)", _PARTS, models, labels, _schedules(tried), width)]
    shown += [Text(clean(_best(tried[tried["model"] == model], model))) for model in models]
    if "cache_layers" in tables:
        rows = _layers(tables["cache_layers"])
        title = "refresh every n steps; keys for 90 / 95 / 99 %"
        shown += [Text(), by_model(title, _LAYER, models, labels, rows, width)]
    counts, choice = ([int(n) for n in tried[name]] for name in ("n", "choice_n"))
    note = f"n = {span(counts)} questions"
    note += f", others than the {span(choice)} chosen on" if tried["held_out"].all() else ", the same as chosen on"
    note += "; saved: multiplications that a server would not do (docs/serving.md)"
    return Group(*shown, Text(clean(note), style="dim"))


def _schedules(tried: pd.DataFrame) -> list[Row]:
    full = tried.groupby("model", sort=False)["full"].first()
    rows = [Row("full recomputation", {str(model): ["0", f"{100 * x:.1f}", "", ""] for model, x in full.items()})]
    for edit, settings, control in tried[["edit", "settings", "control"]].drop_duplicates().itertuples(index=False):
        some = tried[(tried["edit"] == edit) & (tried["settings"] == settings) & (tried["control"] == control)]
        label = f"{edit} {settings}" + (f" ({control} control)" if control else "")
        rows.append(Row(label, {str(row.model): _cells(row) for row in some.itertuples(index=False)}))
    return rows


def _cells(row: Any) -> list[str]:
    change, low, high = (100 * float(value) for value in (row.change, row.low, row.high))
    saved, right = (number(100 * float(value), ".1f") for value in (row.saved, row.accuracy))
    return [saved, right, number(change, "+.1f"), interval(low, high, "+.1f")]


def _best(own: pd.DataFrame, model: str) -> str:
    best = own[own["recommended"]]
    if best.empty:
        return f"{model}: no schedule is within the margin (--within); compute everything"
    one = best.iloc[0]
    schedule = str(one["schedule"])
    words = f"{one['edit']} {one['settings']}"
    words += f" (schedule={schedule})" if schedule and "|" not in schedule else ""
    return f"{model}: recommended is {words}: saves {one['saved']:.0%}, accuracy {100 * one['change']:+.1f} points"


def _layers(layers: pd.DataFrame) -> list[Row]:
    return [
        Row(f"layer {layer}", {str(row.model): _layer(row) for row in own.itertuples(index=False)})
        for layer, own in layers.groupby("layer")
    ]


def _layer(row: Any) -> list[str]:
    return [number(float(value), ".0f") for value in (row.refresh, row.keys_90, row.keys_95, row.keys_99)]
