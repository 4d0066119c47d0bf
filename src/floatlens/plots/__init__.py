"""Figures: a result in, a matplotlib Figure out. Nothing here computes, saves or shows.

    from floatlens.plots import plot_drift
    plot_drift(anchors(trace), layer=3).savefig("drift.svg")

Names are imported when they are first used, and matplotlib with them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from floatlens.plots.absorption import plot_absorption
    from floatlens.plots.drift import plot_drift
    from floatlens.plots.drift_profile import plot_drift_profile
    from floatlens.plots.extremes import plot_extremes
    from floatlens.plots.flow import plot_gold_lift, plot_rollout
    from floatlens.plots.qk import plot_qk, plot_qk_profile
    from floatlens.plots.registry import FIGURES, draw_figures
    from floatlens.plots.retrieval import plot_retrieval
    from floatlens.plots.stress import plot_gain, plot_stress
    from floatlens.plots.summary import plot_summary
    from floatlens.plots.token_classes import plot_token_classes
    from floatlens.plots.training import plot_training

_ROOMS = {
    "absorption": "plot_absorption",
    "drift": "plot_drift",
    "drift_profile": "plot_drift_profile",
    "extremes": "plot_extremes",
    "flow": "plot_gold_lift plot_rollout",
    "qk": "plot_qk plot_qk_profile",
    "registry": "FIGURES draw_figures",
    "retrieval": "plot_retrieval",
    "stress": "plot_gain plot_stress",
    "summary": "plot_summary",
    "token_classes": "plot_token_classes",
    "training": "plot_training",
}
_HOME = {name: room for room, names in _ROOMS.items() for name in names.split()}

__all__ = [
    "FIGURES",
    "draw_figures",
    "plot_absorption",
    "plot_drift",
    "plot_drift_profile",
    "plot_extremes",
    "plot_gain",
    "plot_gold_lift",
    "plot_qk",
    "plot_qk_profile",
    "plot_retrieval",
    "plot_rollout",
    "plot_stress",
    "plot_summary",
    "plot_token_classes",
    "plot_training",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'floatlens.plots' has no attribute {name!r}")
    value = getattr(import_module(f"floatlens.plots.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
