"""The figure of refresh schedules of a cache: what each one saves and what it costs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from floatlens.plots.description import Axis, Figure, Look, Panel, Series
from floatlens.plots.drawing import plot
from floatlens.plots.registry import FigureType
from floatlens.plots.style import looks_of, span

__all__ = ["plot_cache"]

_SAVED = Axis("multiplications saved", percent=True, range=(-0.02, 1.02))
_PANELS: tuple[tuple[str, str, Axis, tuple[str, str, str], float], ...] = (
    (
        "accuracy",
        "Accuracy",
        Axis("change vs. full recomputation\n(percentage points)"),
        ("change", "low", "high"),
        100,
    ),
    (
        "kl",
        "First token that can change",
        Axis("KL divergence (nats)", range=(0, None)),
        ("kl", "kl_low", "kl_high"),
        1,
    ),
)


@plot()
def plot_cache(rows: pd.DataFrame) -> Figure:
    """Change of accuracy and KL divergence over what is saved, a point per schedule, from `cache_schedules(answers)` or
    the table `cache_schedules` of a run. Panels: accuracy, kl. Plus signs are random controls.

    Example: `fl.plot_cache(schedules)`
    """
    style = looks_of(dict.fromkeys(map(str, rows["model"]), "mdm"))
    panels = tuple(
        Panel(name, title, _SAVED, y, _points(rows, columns, factor, style), reference=0.0)
        for name, title, y, columns, factor in _PANELS
    )
    best = rows[rows["recommended"].map(lambda flag: str(flag) == "True")]
    told = "; ".join(f"{one.model}: {one.edit} {one.settings}" for one in best.itertuples(index=False))
    words = f"n = {span([int(n) for n in rows['n']])} questions · bars: 95 % intervals over questions"
    words += f" · recommended: {told}" if told else " · no schedule is recommended"
    return Figure("Refresh schedules of the cache", panels, words, ((0, 1),), (7.2, 3.8), page_width=340)


def _points(
    rows: pd.DataFrame, columns: tuple[str, str, str], factor: float, style: Mapping[str, Look]
) -> tuple[Series, ...]:
    drawn = []
    for model, look in style.items():
        for control in ("", "count"):
            own = rows[(rows["model"] == model) & (rows["control"].fillna("") == control)]
            if own.empty:
                continue
            mean, low, high = (tuple(factor * own[name].to_numpy(dtype=float)) for name in columns)
            role: Any = control
            counts = tuple(int(n) for n in own["n"])
            drawn.append(Series(look, tuple(own["saved"].astype(float)), mean, low, high, counts, "points", role))
    return tuple(drawn)


CACHE = FigureType(("cache",), lambda data: plot_cache.describe(data["cache"]))
