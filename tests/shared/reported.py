"""Traces to report on, made by hand: a diffusion model whose anchor moves, an autoregressive one whose anchor stays."""

from __future__ import annotations

from typing import Any

from floatlens.traces import Trace
from shared.synthetic import TEXTS, ready

SAMPLES = 4
MODELS = {"mdm": ("moving", False), "arm": ("fixed", True)}
QUESTION = "which colour, number {}?"


def asked(trace: Trace, number: int, **prompt: Any) -> Trace:
    """The same trace as one of a question with three titled documents."""
    data = trace.data.copy()
    more = {"question": QUESTION.format(number), "titles": ["Red dog", "Green cat", "Bird"], **prompt}
    data.attrs = {**data.attrs, "prompt": {**data.attrs["prompt"], **more}}
    data.attrs["decoding"] = {**data.attrs["decoding"], "prompt_length": len(TEXTS) - 8, "answer": "green cat"}
    return Trace(data)


def make_trace(name: str, sample: int, **more: Any) -> Trace:
    """One trace of a model by its short name."""
    pattern, causal = MODELS[name]
    return asked(ready(pattern, causal=causal, sample=sample, layers=3, **more), sample)
