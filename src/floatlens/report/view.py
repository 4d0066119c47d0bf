"""One trace packed for the explorer: tokens, the state of each position, received attention and anchors."""

from __future__ import annotations

from typing import Any

import numpy as np

from floatlens.analysis.anchor_map import OTHER, TraceView, trace_view
from floatlens.analysis.flow import gold_of
from floatlens.analysis.measure import Measure
from floatlens.report.codec import pack, packed_bits, planes
from floatlens.report.detail import Detail, thinned
from floatlens.traces import Trace

__all__ = ["LONGEST", "packed_trace"]

LONGEST = 48
"""Characters of a token that are shown; of longer ones the length is."""


def packed_trace(trace: Trace, detail: Detail, rule: str, measure: Measure = "attention") -> str:
    """The trace as one text for the page."""
    view = trace_view(trace, detail.groups, rule, measure)
    held = view.groups
    numbers = [int(step) for step in trace.data["step"].values]
    steps = thinned(len(numbers), detail.steps)
    layers = next(iter(held.values())).layers if held else []
    rows = [0, *(1 + place for place in thinned(len(layers), detail.layers))]
    header = _words(trace, view, steps) | {
        "levels": detail.levels,
        "groups": list(held),
        "same": dict.fromkeys(view.same_as_all, "all"),
        "steps": [numbers[step] for step in steps],
        "of_steps": len(numbers),
        "layers": [layers[row - 1] for row in rows[1:]],
        "of_layers": len(layers),
    }
    pick = np.ix_(steps, rows, range(trace.data.sizes["key"]))
    arrays = {"state": view.states[steps].tobytes()}
    if held:
        share = np.stack([one.share[pick] for one in held.values()], axis=1)  # (step, group, 1 + layer, key)
        null = np.stack([one.null[steps] for one in held.values()], axis=1)
        here = view.present[steps]
        arrays["share"] = planes(detail.codes.code(np.where(here[:, None, None], share, np.nan)))
        arrays["null"] = planes(detail.codes.code(np.where(here[:, None], null, np.nan)))
        arrays["anchors"] = packed_bits(np.stack([one.anchors[pick] for one in held.values()], axis=1))
    return pack(header, arrays)


def _words(trace: Trace, view: TraceView, steps: list[int]) -> dict[str, Any]:
    data, ids = trace.data, trace.data["final"].values.tolist()
    tokens = list(trace.tokens) or [f"#{token}" for token in ids]
    mask_id = trace.model["mask_id"]
    special = {trace.model["bos_id"], *trace.model["eos_ids"], mask_id} - {None}
    other = np.argwhere(view.states[steps] == OTHER)
    sequence = data["sequence"].values[steps]
    return {
        "tokens": [token if len(token) <= LONGEST else token[:LONGEST] for token in tokens],
        "long": {str(place): len(token) for place, token in enumerate(tokens) if len(token) > LONGEST},
        "ids": ids,
        "special": [place for place, token in enumerate(ids) if token in special],
        "regions": list(trace.regions),
        "region_of": data["region_of"].values.tolist(),
        "evidence": np.flatnonzero(data["evidence"].values).tolist(),
        "gold": gold_of(trace),
        "other": [[int(s), int(key), int(sequence[s, key])] for s, key in other],
        "committed": [
            [int(place), int(step), float(f"{sure:.4g}")]
            for place, step, sure in zip(
                data["token_position"].values,
                data["token_step"].values,
                data["token_confidence"].values.astype(float),
                strict=True,
            )
        ],
    }
