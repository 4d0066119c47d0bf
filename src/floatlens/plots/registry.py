"""Which figure needs which analyses, so that a command can draw all that a set of results allows.

for name, figure in draw_figures(results).figures.items(): figure.savefig(folder / f"{name}.svg")
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from itertools import chain, count
from typing import NamedTuple

from matplotlib.figure import Figure

from floatlens.analysis.result import Result
from floatlens.core.errors import FloatlensError, did_you_mean
from floatlens.plots.absorption import plot_absorption
from floatlens.plots.drift_profile import plot_drift_profile
from floatlens.plots.extremes import plot_extremes
from floatlens.plots.flow import plot_gold_lift, plot_rollout
from floatlens.plots.qk import plot_qk_profile
from floatlens.plots.retrieval import plot_retrieval
from floatlens.plots.style import label_of
from floatlens.plots.summary import plot_summary
from floatlens.plots.token_classes import plot_token_classes

__all__ = ["FIGURES", "Drawn", "Recipe", "draw_figures", "file_name"]

Results = Mapping[str, Result]


class Recipe(NamedTuple):
    """The analyses a figure needs, and what draws it from them: one figure, or several by what sets them apart."""

    needs: tuple[str, ...]
    draw: Callable[[Results], Figure | dict[str, Figure]]


class Drawn(NamedTuple):
    """Figures by a name that can be a file's, and for each that is left out the reason."""

    figures: dict[str, Figure]
    skipped: dict[str, str]


def _of(name: str, plot: Callable[[Result], Figure]) -> Recipe:
    return Recipe((name,), lambda results: plot(results[name]))


def _rollouts(results: Results) -> dict[str, Figure]:
    flow = results["flow"]
    return {label_of(model, flow.models): plot_rollout(flow, model) for model in flow.models}


FIGURES: dict[str, Recipe] = {
    "summary": Recipe(("drift", "absorption", "token_classes", "retrieval_heads"), plot_summary),
    "drift": _of("drift", plot_drift_profile),
    "absorption": _of("absorption", plot_absorption),
    "qk": _of("qk", plot_qk_profile),
    "token_classes": _of("token_classes", plot_token_classes),
    "retrieval": _of("retrieval_heads", plot_retrieval),
    "rollout": Recipe(("flow",), _rollouts),
    "gold_lift": _of("flow", plot_gold_lift),
    "extremes": _of("extremes", plot_extremes),
}
"""Figures of results. Those of one trace, `plot_drift` and `plot_qk`, are called with what they show."""


def draw_figures(results: Results, wanted: Iterable[str] | None = None) -> Drawn:
    """Every figure (or those wanted) whose results are there; the others with the reason why not."""
    drawn = Drawn({}, {})
    for name in FIGURES if wanted is None else wanted:
        if name not in FIGURES:
            raise FloatlensError(f'no figure "{name}"{did_you_mean(name, FIGURES)}')
        recipe = FIGURES[name]
        missing = [one for one in recipe.needs if one not in results or not results[one].groups]
        if missing:
            drawn.skipped[name] = f"no result of {', '.join(missing)}"
            continue
        made = recipe.draw(results)
        for key, figure in (made if isinstance(made, dict) else {"": made}).items():
            drawn.figures[file_name(name, key, drawn.figures)] = figure
    return drawn


def file_name(name: str, key: str, taken: Iterable[str]) -> str:
    """The figure's name and what sets it apart, as a file can be called, and unlike the others."""
    bare = "-".join(part for part in (name, *re.split(r"[^\w.]+", key)) if part)
    return next(one for one in chain([bare], (f"{bare}-{i}" for i in count(2))) if one not in taken)
