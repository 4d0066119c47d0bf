"""One trace as the explorer shows it: received attention and anchors of each query group, and the state of positions.

Attention is the mean over heads, for each layer and as their mean; anchors are those of the rule.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from floatlens.analysis.anchors import GROUPS, QueryGroup, anchors, columns_of, present, queries_of
from floatlens.analysis.kernels import Bools, Floats
from floatlens.analysis.rules import find_anchors
from floatlens.traces import Trace

__all__ = ["ABSENT", "MASK", "OTHER", "TOKEN", "AttentionView", "TraceView", "trace_view"]

ABSENT, MASK, TOKEN, OTHER = 0, 1, 2, 3
"""The state of a position before a pass: no token yet, a mask, the token of the finished text, another token."""


@dataclass(frozen=True, eq=False)
class AttentionView:
    """Received attention of one query group: `share` and `anchors` are (step, 1 + layer, key), the mean over layers
    first; `null` (step, key) is what uniform attention would give."""

    share: Floats
    anchors: Bools
    null: Floats
    layers: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class TraceView:
    """`groups` are the query groups that have queries; `same_as_all` those that show exactly what `all` shows.

    `states` (step, key) holds ABSENT, MASK, TOKEN or OTHER, `present` (step, key) where there is a token.
    """

    groups: dict[QueryGroup, AttentionView]
    same_as_all: tuple[QueryGroup, ...]
    states: NDArray[np.uint8]
    present: Bools


def trace_view(trace: Trace, groups: Iterable[QueryGroup] = tuple(GROUPS), rule: str = "zscore") -> TraceView:
    """What the explorer shows of a trace.

    Example: `trace_view(trace, ["all"]).groups["all"].share.shape`
    """
    found = {group: view for group in groups if (view := _attention(trace, group, rule)) is not None}
    whole = found.get("all")
    same = tuple(
        group
        for group, view in found.items()
        if group != "all" and whole is not None and np.array_equal(view.share, whole.share, equal_nan=True)
    )
    sequence, final, here = trace.data["sequence"].values, trace.data["final"].values, present(trace)
    tokens = np.where(sequence == final, TOKEN, OTHER)
    states = np.where(~here, ABSENT, np.where(trace.masked, MASK, tokens)).astype(np.uint8)
    return TraceView({group: view for group, view in found.items() if group not in same}, same, states, here)


def _attention(trace: Trace, group: QueryGroup, rule: str) -> AttentionView | None:
    """None where the group has no queries, such as the masked queries of an autoregressive model."""
    if GROUPS[group] not in trace.data or not queries_of(trace, group).any():
        return None
    found = anchors(trace, rule=rule, group=group)
    share = found.share.mean("head", skipna=False) if "head" in found.share.dims else found.share
    mean = share.values.mean(axis=1)
    of_mean = find_anchors(found.rule, columns_of(trace, mean, group))
    return AttentionView(
        np.concatenate([mean[:, None], share.values], axis=1),
        np.concatenate([of_mean[:, None], found.by_layer().values], axis=1),
        np.asarray(found.null.values),
        tuple(int(layer) for layer in share["layer"].values),
    )
