"""Analyses of traces: one definition per measurement, for one trace or a stream of them. No torch, no figures.

    from floatlens.analysis import drift, absorption
    drift(trace).slope                       # a number with its interval
    absorption("runs/a").to_frame()          # every model of a run, layer by layer

An analysis is one function from a trace to a labelled dataset and one registration (`registry.analysis`).
"""

from floatlens.analysis.absorption import absorption
from floatlens.analysis.anchors import Anchors, anchors
from floatlens.analysis.drift import drift
from floatlens.analysis.extremes import extremes
from floatlens.analysis.flow import flow, token_rollout
from floatlens.analysis.intervals import Estimate
from floatlens.analysis.qk import qk
from floatlens.analysis.registry import ANALYSES, Analysis, analyse, analysis
from floatlens.analysis.result import Group, Result
from floatlens.analysis.retrieval import retrieval_heads
from floatlens.analysis.rules import Rule, as_rule
from floatlens.analysis.token_classes import token_classes

__all__ = [
    "ANALYSES",
    "Analysis",
    "Anchors",
    "Estimate",
    "Group",
    "Result",
    "Rule",
    "absorption",
    "analyse",
    "analysis",
    "anchors",
    "as_rule",
    "drift",
    "extremes",
    "flow",
    "qk",
    "retrieval_heads",
    "token_classes",
    "token_rollout",
]
