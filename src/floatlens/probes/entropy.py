"""Entropy of each attention row, in nats: how widely each query spreads its attention."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from torch import Tensor

from floatlens.attention.probe import Layer, Mean, Need, Probe
from floatlens.attention.variable import HEAD_QUERY, Variable

__all__ = ["Entropy"]


class Entropy(Probe):
    """One number per query: 0 for a single key, ln T for uniform attention over T keys."""

    name = "entropy"
    batched = True
    variables = (Variable("entropy", HEAD_QUERY, "append", "entropy of a query's attention, in nats"),)
    needs: ClassVar[frozenset[Need]] = frozenset({"entropy"})

    def layer(self, layer: Layer) -> Mapping[str, Tensor | Mean]:
        assert layer.entropy is not None
        return {"entropy": layer.entropy}
