"""Received attention per head: the mean over queries of what each key gets, for every query group of methods §1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from torch import Tensor

from floatlens.attention.probe import Layer, Mean, Need, PassState, Probe, register

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


@register
class Received(Probe):
    """Shares sum to 1 over keys. A group without queries (masked, in an autoregressive model) is NaN, never 0."""

    name = "received"
    needs: ClassVar[frozenset[Need]] = frozenset({"columns"})

    def layer(self, layer: Layer) -> Mapping[str, Tensor | Mean]:
        state = layer.state
        unions = state.classes.union([group_classes(state, group) for group in GROUPS.values()])
        total, count = layer.sums(unions)
        return {name: Mean(total[:, i], count[:, i, None, None]) for i, name in enumerate(GROUPS)}
