"""floatlens: how attention moves while a language model writes.

    import floatlens as fl
    model = fl.load("GSAI-ML/LLaDA-8B-Instruct")
    trace = fl.trace(model, question="Who built it?", documents=["Ann built it.", "It rained."], gold=0)
    trace.data.received.sel(layer=0).mean("head")      # step × key

Names are imported when they are first used, so that `import floatlens` and the command line start at once.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from floatlens.capture import (
        QK,
        AnswerRows,
        Edit,
        Entropy,
        Extremes,
        Flow,
        Matrix,
        Probe,
        Received,
        Select,
    )
    from floatlens.decoding import Decoded, Step, decode, decode_steps, samplers
    from floatlens.errors import FloatlensError, FloatlensWarning
    from floatlens.models import LanguageModel, families, load
    from floatlens.prompts import Document, Prompt
    from floatlens.tracer import trace
    from floatlens.traces import Trace, open_trace

__version__ = "0.1.0"

_ROOMS = {
    "floatlens.capture": "QK AnswerRows Edit Entropy Extremes Flow Matrix Probe Received Select",
    "floatlens.decoding": "Decoded Step decode decode_steps samplers",
    "floatlens.errors": "FloatlensError FloatlensWarning",
    "floatlens.models": "LanguageModel families load",
    "floatlens.prompts": "Document Prompt",
    "floatlens.tracer": "trace",
    "floatlens.traces": "Trace open_trace",
}
_HOME = {name: room for room, names in _ROOMS.items() for name in names.split()}

__all__ = [
    "QK",
    "AnswerRows",
    "Decoded",
    "Document",
    "Edit",
    "Entropy",
    "Extremes",
    "FloatlensError",
    "FloatlensWarning",
    "Flow",
    "LanguageModel",
    "Matrix",
    "Probe",
    "Prompt",
    "Received",
    "Select",
    "Step",
    "Trace",
    "decode",
    "decode_steps",
    "families",
    "load",
    "open_trace",
    "samplers",
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
