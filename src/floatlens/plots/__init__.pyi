from .absorption import plot_absorption
from .anchors import plot_anchors
from .answers import plot_gains, plot_stress
from .description import Axis, Bars, Entry, Figure, Heat, Look, Panel, Series
from .drift import plot_drift
from .edits import plot_edits
from .extremes import plot_extremes
from .flow import plot_flow, plot_gold_lift
from .qk import plot_qk, plot_qk_maps
from .registry import FIGURES, FigureType, describe_figures
from .retrieval import plot_retrieval_heads
from .style import looks_of
from .summary import plot_summary
from .token_classes import plot_token_classes
from .training import plot_adaptation, plot_training

__all__ = [
    "FIGURES",
    "Axis",
    "Bars",
    "Entry",
    "Figure",
    "FigureType",
    "Heat",
    "Look",
    "Panel",
    "Series",
    "describe_figures",
    "looks_of",
    "plot_absorption",
    "plot_adaptation",
    "plot_anchors",
    "plot_drift",
    "plot_edits",
    "plot_extremes",
    "plot_flow",
    "plot_gains",
    "plot_gold_lift",
    "plot_qk",
    "plot_qk_maps",
    "plot_retrieval_heads",
    "plot_stress",
    "plot_summary",
    "plot_token_classes",
    "plot_training",
]
