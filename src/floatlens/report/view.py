"""One trace as the explorer shows it: tokens, what stands where at each step, received attention and anchors.

Attention is the mean over heads, by layer and as their mean, for each group of queries; anchors are those of the rule.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from floatlens.analysis.anchors import GROUPS, Anchors, QueryGroup, anchors, columns_of, present, queries_of
from floatlens.analysis.flow import gold_of
from floatlens.analysis.rules import find_anchors
from floatlens.report.codec import pack, packed_bits, planes
from floatlens.report.detail import Detail, thinned
from floatlens.traces import Trace

__all__ = ["ABSENT", "LONGEST", "MASK", "OTHER", "TOKEN", "Attention", "attention_of", "packed_trace"]

ABSENT, MASK, TOKEN, OTHER = 0, 1, 2, 3
"""What stands at a position before a pass: nothing yet, a mask, the token of the finished text, another token."""
LONGEST = 48
"""Characters of a token that are shown; of longer ones the length is."""

Floats = NDArray[np.float64]


class Attention:
    """Received attention of one group, (step, 1 + layer, key), the mean over layers first; anchors likewise.

    `null` (step, key) is what uniform attention would give.
    """

    def __init__(self, found: Anchors) -> None:
        trace = found.trace
        share = found.share.mean("head", skipna=False) if "head" in found.share.dims else found.share
        mean = share.values.mean(axis=1)
        of_mean = find_anchors(found.rule, columns_of(trace, mean, found.group))
        self.share: Floats = np.concatenate([mean[:, None], share.values], axis=1)
        self.anchors: NDArray[np.bool_] = np.concatenate([of_mean[:, None], found.by_layer().values], axis=1)
        self.null: Floats = np.asarray(found.null.values)
        self.layers: list[int] = [int(layer) for layer in share["layer"].values]


def attention_of(trace: Trace, group: QueryGroup, rule: str) -> Attention | None:
    """None where the group never asks, as the masked queries of an autoregressive model."""
    if GROUPS[group] not in trace.data or not queries_of(trace, group).any():
        return None
    return Attention(anchors(trace, rule=rule, group=group))


def packed_trace(trace: Trace, detail: Detail, rule: str) -> str:
    """The trace as one text for the page."""
    found = {group: attention_of(trace, group, rule) for group in detail.groups}
    held = {group: one for group, one in found.items() if one is not None and not _twin(group, one, found)}
    numbers = [int(step) for step in trace.data["step"].values]
    steps = thinned(len(numbers), detail.steps)
    layers = next(iter(held.values())).layers if held else []
    rows = [0, *(1 + place for place in thinned(len(layers), detail.layers))]
    header = _words(trace, steps) | {
        "levels": detail.levels,
        "groups": list(held),
        "same": {group: "all" for group, one in found.items() if one is not None and group not in held},
        "steps": [numbers[step] for step in steps],
        "of_steps": len(numbers),
        "layers": [layers[row - 1] for row in rows[1:]],
        "of_layers": len(layers),
    }
    pick = np.ix_(steps, rows, range(trace.data.sizes["key"]))
    arrays = {"state": _states(trace)[steps].tobytes()}
    if held:
        share = np.stack([one.share[pick] for one in held.values()], axis=1)  # (step, group, 1 + layer, key)
        null = np.stack([one.null[steps] for one in held.values()], axis=1)
        here = present(trace)[steps]
        arrays["share"] = planes(detail.codes.code(np.where(here[:, None, None], share, np.nan)))
        arrays["null"] = planes(detail.codes.code(np.where(here[:, None], null, np.nan)))
        arrays["anchors"] = packed_bits(np.stack([one.anchors[pick] for one in held.values()], axis=1))
    return pack(header, arrays)


def _twin(group: QueryGroup, one: Attention, found: dict[QueryGroup, Attention | None]) -> bool:
    """Whether a group shows nothing that `all` does not, as the committed queries of an autoregressive model."""
    whole = found.get("all")
    return group != "all" and whole is not None and np.array_equal(one.share, whole.share, equal_nan=True)


def _words(trace: Trace, steps: list[int]) -> dict[str, Any]:
    data, ids = trace.data, trace.data["final"].values.tolist()
    tokens = list(trace.tokens) or [f"#{token}" for token in ids]
    mask_id = trace.model["mask_id"]
    special = {trace.model["bos_id"], *trace.model["eos_ids"], mask_id} - {None}
    other = np.argwhere(_states(trace)[steps] == OTHER)
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


def _states(trace: Trace) -> NDArray[np.uint8]:
    """(step, key): see `ABSENT` …"""
    sequence, final = trace.data["sequence"].values, trace.data["final"].values
    as_final = np.where(sequence == final, TOKEN, OTHER)
    return np.where(~present(trace), ABSENT, np.where(trace.masked, MASK, as_final)).astype(np.uint8)
