"""Answer tokens of a trace, and what uniform attention would give in the rows that decided them (methods §6, §7)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from floatlens.analysis.anchors import present
from floatlens.analysis.kernels import Bools, Floats, uniform_mix
from floatlens.analysis.measure import Measure, by_reach, mask_of_layer, reaches
from floatlens.traces import Trace

__all__ = ["answer_tokens", "uniform_rows"]


def answer_tokens(trace: Trace) -> NDArray[np.intp]:
    """Indices of the committed tokens that are part of the answer: before the first EOS of the finished sequence.

    Example: `answer_tokens(trace)` is `array([0, 1])` where the third token is EOS
    """
    place, ids = trace.data["token_position"].values, trace.data["token_id"].values
    ends = place[np.isin(ids, trace.model["eos_ids"])]
    return np.flatnonzero(place < (ends.min() if len(ends) else np.inf))


def uniform_rows(trace: Trace, tokens: NDArray[np.intp], measure: Measure = "attention") -> tuple[Floats, Floats]:
    """(token, layer, region) and (token, region), under uniformity within the reach of each layer: the deciding row's
    mass on each region (one layer where all see the same), and its rollout over tokens through all layers. The passes
    that decided these tokens must be recorded.
    """
    regions, region_of = len(trace.regions), trace.data["region_of"].values
    rows = trace.data["token_row"].values[tokens]
    different = len({str(one) for one in reaches(trace, measure)})
    direct = np.empty((len(tokens), trace.data.sizes["layer"] if different > 1 else 1, regions))
    through = np.empty((len(tokens), regions))
    for own, here, step in _present_by_token(trace, tokens):
        first = np.eye(regions)[region_of] * here[:, None]  # (position, region)

        def mix(held: Floats, reach: Any, here: Bools = here, step: int = step) -> Floats:
            return uniform_mix(held, here, **mask_of_layer(trace, reach, step))

        mixed = by_reach(trace, measure, lambda reach: mix(first, reach))  # noqa: B023 (called at once)
        direct[own] = (mixed if mixed.ndim == 3 else mixed[:, None])[rows[own]]
        held = first
        for reach in _whole_reach(trace, measure):
            held = (mix(held, reach) + held) / 2
        through[own] = held[rows[own]]
    return direct, through


def _whole_reach(trace: Trace, measure: Measure) -> list[Any]:
    """Of every layer of the model, recorded or not."""
    reach = trace.model.get("reach")
    return ["mask"] * trace.model["layers"] if measure == "attention" or reach is None else list(reach)


def _present_by_token(trace: Trace, tokens: NDArray[np.intp]) -> Iterator[tuple[Bools, Bools, int]]:
    """(token), (key) and a recorded pass: which of the tokens were decided under the same mask while the same positions
    held a token, which these are, and one of their passes. In a causal model what is written later changes nothing, so
    one set serves all tokens."""
    if trace.data.attrs["causal"]:
        yield np.ones(len(tokens), dtype=bool), np.ones(trace.data.sizes["key"], dtype=bool), -1
        return
    places = {int(step): place for place, step in enumerate(trace.data["step"].values)}
    passes = [places[int(step)] for step in trace.data["token_step"].values[tokens]]
    if passes:
        there = present(trace)
        masks = np.concatenate([there, trace.data["block_of"].values], axis=1) if "block_of" in trace.data else there
        _, first, which = np.unique(masks[passes], axis=0, return_index=True, return_inverse=True)
        for number, one in enumerate(first):
            yield which.ravel() == number, there[passes[one]], passes[one]
