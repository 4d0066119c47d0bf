"""floatlens: how attention moves while a language model writes.

    import floatlens as fl
    model = fl.load("GSAI-ML/LLaDA-8B-Instruct")
    trace = fl.trace(model, question="Who built it?", documents=["Ann built it.", "It rained."], gold=0)
    fl.drift(trace).slope                              # a number with its interval
    fl.plot_drift(trace)                               # a matplotlib Figure

Names are imported when they are first used, so that `import floatlens` and the command line start at once.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from floatlens.adaptation import adapt
    from floatlens.analysis import Anchors, Estimate, Result, analyse, retrieval_heads
    from floatlens.analysis.absorption import absorption
    from floatlens.analysis.anchors import anchors
    from floatlens.analysis.drift import drift
    from floatlens.analysis.extremes import extremes
    from floatlens.analysis.flow import flow
    from floatlens.analysis.qk import qk
    from floatlens.analysis.token_classes import token_classes
    from floatlens.attention.edit import Edit
    from floatlens.attention.probe import Probe
    from floatlens.attention.select import Select
    from floatlens.claims import Claim, claims
    from floatlens.core.errors import FloatlensError, FloatlensWarning
    from floatlens.decoding import Decoded, Step, decode, decode_steps
    from floatlens.edits import AblateHeads, DropAnchors, DropRandom, FreezeLayers, PinAnchors, SinkToken, SwapAnchors
    from floatlens.edits.context import edit
    from floatlens.models import LanguageModel, families, load
    from floatlens.plots import (
        plot_absorption,
        plot_anchors,
        plot_drift,
        plot_edits,
        plot_extremes,
        plot_flow,
        plot_gains,
        plot_gold_lift,
        plot_qk,
        plot_qk_maps,
        plot_retrieval_heads,
        plot_stress,
        plot_summary,
        plot_token_classes,
    )
    from floatlens.probes import QK, AnswerRows, Entropy, Extremes, Flow, Matrix, Received
    from floatlens.prompts import Document, Prompt
    from floatlens.report import explore
    from floatlens.runs.opened import Run, open_run
    from floatlens.runs.run import run
    from floatlens.runs.study import Study
    from floatlens.traces import Trace, open_trace
    from floatlens.traces.tracing import trace

__version__ = "0.1.0"

_ROOMS = {
    "floatlens.adaptation": "adapt",
    "floatlens.analysis": "Anchors Estimate Result absorption analyse anchors drift extremes flow qk retrieval_heads "
    "token_classes",
    "floatlens.attention.edit": "Edit",
    "floatlens.attention.probe": "Probe",
    "floatlens.attention.select": "Select",
    "floatlens.edits": "AblateHeads DropAnchors DropRandom FreezeLayers PinAnchors SinkToken SwapAnchors",
    "floatlens.probes": "QK AnswerRows Entropy Extremes Flow Matrix Received",
    "floatlens.edits.context": "edit",
    "floatlens.decoding": "Decoded Step decode decode_steps",
    "floatlens.core.errors": "FloatlensError FloatlensWarning",
    "floatlens.plots": "plot_absorption plot_anchors plot_drift plot_edits plot_extremes plot_flow plot_gains "
    "plot_gold_lift plot_qk plot_qk_maps plot_retrieval_heads plot_stress plot_summary plot_token_classes",
    "floatlens.models": "LanguageModel families load",
    "floatlens.prompts": "Document Prompt",
    "floatlens.report": "explore",
    "floatlens.runs.opened": "Run open_run",
    "floatlens.runs.run": "run",
    "floatlens.runs.study": "Study",
    "floatlens.traces.tracing": "trace",
    "floatlens.traces": "Trace open_trace",
    "floatlens.claims": "Claim claims",
}
_HOME = {name: room for room, names in _ROOMS.items() for name in names.split()}

__all__ = [
    "QK",
    "AblateHeads",
    "Anchors",
    "AnswerRows",
    "Claim",
    "Decoded",
    "Document",
    "DropAnchors",
    "DropRandom",
    "Edit",
    "Entropy",
    "Estimate",
    "Extremes",
    "FloatlensError",
    "FloatlensWarning",
    "Flow",
    "FreezeLayers",
    "LanguageModel",
    "Matrix",
    "PinAnchors",
    "Probe",
    "Prompt",
    "Received",
    "Result",
    "Run",
    "Select",
    "SinkToken",
    "Step",
    "Study",
    "SwapAnchors",
    "Trace",
    "absorption",
    "adapt",
    "analyse",
    "anchors",
    "claims",
    "decode",
    "decode_steps",
    "drift",
    "edit",
    "explore",
    "extremes",
    "families",
    "flow",
    "load",
    "open_run",
    "open_trace",
    "plot_absorption",
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
    "qk",
    "retrieval_heads",
    "run",
    "token_classes",
    "trace",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'floatlens' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
