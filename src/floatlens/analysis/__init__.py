"""Analyses of traces: one definition per measurement, for one trace or a stream of them. No torch, no figures.

    from floatlens.analysis import drift, absorption
    drift(trace).slope                       # by model, with intervals
    absorption("runs/a").to_frame()          # all models of a run, layer by layer

An analysis is one function from a trace to a labelled dataset, its words, and one line in `ANALYSES`. Statistics over
answers (`scores`, `gains`, `curves`, `edit_effects`) take the answers frame of `floatlens.records`.
"""

from floatlens.analysis.absorption import absorption
from floatlens.analysis.anchor_map import AnchorMap, anchor_map
from floatlens.analysis.anchors import Anchors, anchors
from floatlens.analysis.cacheability import cacheability
from floatlens.analysis.description import Variable, Words
from floatlens.analysis.drift import drift
from floatlens.analysis.evolution import Evolution, evolution
from floatlens.analysis.extremes import extremes
from floatlens.analysis.flow import flow, token_rollout
from floatlens.analysis.intervals import Estimate
from floatlens.analysis.lens import lens
from floatlens.analysis.order import order
from floatlens.analysis.qk import QKMaps, qk, qk_maps
from floatlens.analysis.registry import ANALYSES, Analysis, analyse, analysis
from floatlens.analysis.result import Estimates, Group, Result
from floatlens.analysis.retrieval import retrieval_heads
from floatlens.analysis.rules import Rule, as_rule
from floatlens.analysis.sinks import sinks
from floatlens.analysis.smoothing import smoothing
from floatlens.analysis.token_classes import token_classes

__all__ = [
    "ANALYSES",
    "Analysis",
    "AnchorMap",
    "Anchors",
    "Estimate",
    "Estimates",
    "Evolution",
    "Group",
    "QKMaps",
    "Result",
    "Rule",
    "Variable",
    "Words",
    "absorption",
    "analyse",
    "analysis",
    "anchor_map",
    "anchors",
    "as_rule",
    "cacheability",
    "drift",
    "evolution",
    "extremes",
    "flow",
    "lens",
    "order",
    "qk",
    "qk_maps",
    "retrieval_heads",
    "sinks",
    "smoothing",
    "token_classes",
    "token_rollout",
]
