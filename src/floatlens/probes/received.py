"""Received attention per head: the mean over queries of the weight on each key, for each query group (methods §1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from torch import Tensor

from floatlens.attention.probe import Layer, Mean, Need, PassState, Probe
from floatlens.attention.variable import HEAD_KEY, Variable

__all__ = ["GROUPS", "Received", "group_classes"]

GROUPS = {
    "received": "all",
    "received_masked": "masked",
    "received_committed": "committed",
    "received_answer": "answer",
}


def group_classes(state: PassState, group: str) -> list[int]:
    """The query classes (see `QueryClasses`) that make up a group."""
    every = range(2 * len(state.layout.regions))
    if group == "all":
        return list(every)
    if group == "answer":
        answer = state.layout.index("answer")
        return [] if answer is None else [2 * answer, 2 * answer + 1]
    return [c for c in every if (c % 2 == 1) == (group == "masked")]


class Received(Probe):
    """Shares sum to 1 over keys. A group without queries (masked, in an autoregressive model) is NaN, never 0."""

    name = "received"
    batched = True
    variables = (
        Variable("received", HEAD_KEY, "mean", "mean attention that a key receives over all queries; sums to 1"),
        Variable("received_masked", HEAD_KEY, "mean", "the same over queries that are still masked; NaN without any"),
        Variable("received_committed", HEAD_KEY, "mean", "the same over queries that hold a token"),
        Variable("received_answer", HEAD_KEY, "mean", "the same over queries in the answer, masked or not"),
    )
    needs: ClassVar[frozenset[Need]] = frozenset({"columns"})

    def layer(self, layer: Layer) -> Mapping[str, Tensor | Mean]:
        state = layer.state
        assert layer.columns is not None
        groups = [group_classes(state, group) for group in GROUPS.values()]
        total, count = layer.sums(state.classes.union_on(groups, layer.columns.device))
        return {name: Mean(total[:, i], count[:, i, None, None]) for i, name in enumerate(GROUPS)}
