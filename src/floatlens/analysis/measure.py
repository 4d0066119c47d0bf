"""What an analysis counts: attention, or contribution, which layers without attention have as well (methods §15).

Uniform attention is that of the mask. Uniform contribution follows the reach of each layer: a scan in both directions
sees all positions, a short convolution a window.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, get_args

import numpy as np

from floatlens.analysis.kernels import Floats
from floatlens.core.errors import FloatlensError, did_you_mean
from floatlens.traces import Trace

__all__ = [
    "MEASURES",
    "Measure",
    "attention_layers",
    "by_reach",
    "coverage",
    "mask_of",
    "mask_of_layer",
    "reaches",
    "spread",
    "variable_of",
]

Measure = Literal["attention", "contribution"]
MEASURES: tuple[Measure, ...] = get_args(Measure)
_NAMES = {
    "flow": "contribution_flow",
    "question_flow": "contribution_question_flow",
    "answer_argmax": "contribution_argmax",
    "answer_evidence": "contribution_evidence",
    "answer_flow": "contribution_answer_flow",
    "answer_rollout": "contribution_rollout",
}


def variable_of(measure: Measure, name: str) -> str:
    """The trace variable that holds by a measure what `name` holds by attention."""
    if measure not in MEASURES:
        raise FloatlensError(f'measure="{measure}"{did_you_mean(measure, MEASURES)}; give {" or ".join(MEASURES)}')
    if measure == "attention":
        return name
    return _NAMES.get(name) or name.replace("received", "contribution", 1)


def attention_layers(model: Mapping[str, Any]) -> list[int]:
    """The layers of a trace's model that have attention."""
    reach = model.get("reach")
    layers = list(range(model.get("layers", 0)))
    return layers if reach is None else [layer for layer in layers if reach[layer] == "mask"]


def coverage(model: Mapping[str, Any]) -> str:
    """Which layers numbers by attention cover, where these are not all: `layers 2, 4 of 5: the others have none`."""
    have = attention_layers(model)
    if len(have) == model.get("layers", 0):
        return ""
    return f"layers {', '.join(map(str, have))} of {model['layers']}: the others have no attention"


def mask_of(trace: Trace, step: int | None = None) -> dict[str, Any]:
    """The attention mask of a trace, or of one recorded pass of it, as the kernels of uniform attention take it."""
    if "block_of" in trace.data:
        of = trace.data["block_of"].values
        return {"causal": False, "blocks": of if step is None else of[step]}
    block = trace.data.attrs.get("attention") == "block"
    together = trace.data["region_of"].values == trace.regions.index("answer") if block else None
    return {"causal": block or bool(trace.data.attrs["causal"]), "together": together}


def mask_of_layer(trace: Trace, reach: Any, step: int | None = None) -> dict[str, Any]:
    """The same for a layer of that reach: "mask", "all", or so many positions [before, after] a row."""
    if reach == "mask":
        return mask_of(trace, step)
    return {"causal": False} if reach == "all" else {"causal": False, "window": (int(reach[0]), int(reach[1]))}


def by_reach(trace: Trace, measure: Measure, kernel: Callable[[Any], Floats], axis: int = 1) -> Floats:
    """What `kernel` gives for the reach of each recorded layer, stacked along `axis`; without that axis where all
    layers see the same. By attention, that is always so."""
    reach = reaches(trace, measure)
    found = {str(one): kernel(one) for one in {str(one): one for one in reach}.values()}
    if len(found) == 1:
        return next(iter(found.values()))
    return np.stack([found[str(one)] for one in reach], axis=axis)


def reaches(trace: Trace, measure: Measure) -> Sequence[Any]:
    """Of each recorded layer."""
    reach = trace.model.get("reach")
    layers = trace.data["layer"].values.tolist()
    if measure == "attention" or reach is None:
        return ["mask"] * len(layers)
    return [reach[layer] for layer in layers]


def spread(values: Floats, ndim: int) -> Floats:
    """(step, …, key) with axes before the last, so it broadcasts against (step, layer, …, key)."""
    return values[(*[slice(None)] * (values.ndim - 1), *[None] * (ndim - values.ndim))]
