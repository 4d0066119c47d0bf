"""Figures: a result in, a matplotlib Figure out. Nothing here computes, saves or shows.

    from floatlens.figures import plot_drift
    plot_drift(anchors(trace), layer=3).savefig("drift.svg")

Names are imported when they are first used, and matplotlib with them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from floatlens.figures.absorption import plot_absorption
    from floatlens.figures.drift import plot_drift
    from floatlens.figures.drift_profile import plot_drift_profile
    from floatlens.figures.extremes import plot_extremes
    from floatlens.figures.flow import plot_gold_lift, plot_rollout
    from floatlens.figures.qk import plot_qk, plot_qk_profile
    from floatlens.figures.registry import FIGURES, draw_figures
    from floatlens.figures.retrieval import plot_retrieval
    from floatlens.figures.stress import plot_gain, plot_stress
    from floatlens.figures.summary import plot_summary
    from floatlens.figures.token_classes import plot_token_classes
    from floatlens.figures.training import plot_training

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
        raise AttributeError(f"module 'floatlens.figures' has no attribute {name!r}")
    value = getattr(import_module(f"floatlens.figures.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
