"""Views of one trace: `anchor_map` for figures (methods §2), a layer as step × key, and `trace_view` for the explorer.

In the explorer attention is the mean over heads, for each layer and as their mean; anchors are those of the rule.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from floatlens.analysis.anchors import GROUPS, Anchors, QueryGroup, anchors, columns_of, present, queries_of
from floatlens.analysis.kernels import Bools, Floats
from floatlens.analysis.measure import Measure, variable_of
from floatlens.analysis.rules import DEFAULT_RULE, find_anchors
from floatlens.core.errors import FloatlensError
from floatlens.traces import Trace

__all__ = ["ABSENT", "MASK", "OTHER", "TOKEN", "AnchorMap", "AttentionView", "TraceView", "anchor_map", "trace_view"]


@dataclass(frozen=True, eq=False)
class AnchorMap:
    """`values` and `anchors` are (step, key); values are NaN where no token is. `source` are the anchors shown."""

    values: Floats
    anchors: Bools
    steps: tuple[int, ...]
    layer: int | None
    source: Anchors

    @property
    def ranked(self) -> tuple[int, ...]:
        """The keys that are anchors at some step, by the most they receive then, largest first."""
        strength = np.where(self.anchors, self.values, -np.inf).max(axis=0)
        return tuple(int(key) for key in np.argsort(-strength, kind="stable") if np.isfinite(strength[key]))


def anchor_map(of: Anchors | Trace, layer: int | None = None) -> AnchorMap:
    """The map of one layer, or of the mean over layers with the anchors of the mean by the same rule.

    A trace is shown with the anchors of the default rule.

    Example: `anchor_map(fl.anchors(trace, rule="top1"), layer=0).values`
    """
    found = anchors(of) if isinstance(of, Trace) else of
    received, share = (x.mean("head") if "head" in x.dims else x for x in (found.received, found.share))
    if layer is None:
        mean = share.mean("layer", skipna=False).values
        columns = columns_of(found.trace, mean, found.group, found.normalise, found.measure)
        marked, values = find_anchors(found.rule, columns), columns.value
    else:
        layers = [int(one) for one in received["layer"].values]
        if layer not in layers:
            raise FloatlensError(f"no layer {layer} in this trace; it holds {', '.join(map(str, layers))}")
        marked, values = found.by_layer().sel(layer=layer).values, received.sel(layer=layer).values
    steps = tuple(int(step) for step in received["step"].values)
    return AnchorMap(np.where(present(found.trace), values, np.nan), np.asarray(marked), steps, layer, found)


ABSENT, MASK, TOKEN, OTHER = 0, 1, 2, 3
"""The state of a position before a pass: no token yet, a mask, the token of the finished text, another token."""


@dataclass(frozen=True, eq=False)
class AttentionView:
    """Received attention of one query group: `share` and `anchors` are (step, 1 + layer, key), the mean over layers
    first; `null` (step, key) is what uniform attention would give, as a mean over layers where they differ in reach."""

    share: Floats
    anchors: Bools
    null: Floats
    layers: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class TraceView:
    """`groups` are the query groups that have queries; `same_as_all` those that show exactly what `all` shows. `states`
    (step, key) holds ABSENT, MASK, TOKEN or OTHER, `present` (step, key) where there is a token."""

    groups: dict[QueryGroup, AttentionView]
    same_as_all: tuple[QueryGroup, ...]
    states: NDArray[np.uint8]
    present: Bools


def trace_view(
    trace: Trace, groups: Iterable[QueryGroup] = tuple(GROUPS), rule: str = DEFAULT_RULE, measure: Measure = "attention"
) -> TraceView:
    """What the explorer shows of a trace.
    Example: `trace_view(trace, ["all"]).groups["all"].share.shape`"""
    found = {group: view for group in groups if (view := _attention(trace, group, rule, measure)) is not None}
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


def _attention(trace: Trace, group: QueryGroup, rule: str, measure: Measure) -> AttentionView | None:
    """None where the group has no queries, such as the masked queries of an autoregressive model."""
    if variable_of(measure, GROUPS[group]) not in trace.data or not queries_of(trace, group).any():
        return None
    found = anchors(trace, rule=rule, group=group, measure=measure)
    share = found.share.mean("head", skipna=False) if "head" in found.share.dims else found.share
    mean = share.values.mean(axis=1)
    of_mean = find_anchors(found.rule, columns_of(trace, mean, group, measure=measure))
    return AttentionView(
        np.concatenate([mean[:, None], share.values], axis=1),
        np.concatenate([of_mean[:, None], found.by_layer().values], axis=1),
        np.asarray(found.null.values if found.null.ndim == 2 else found.null.values.mean(axis=1)),
        tuple(int(layer) for layer in share["layer"].values),
    )
