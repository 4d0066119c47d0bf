"""Entropy of each attention row, in nats: how widely every query spreads its attention."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from torch import Tensor

from floatlens.attention.probe import Layer, Mean, Need, Probe, register

__all__ = ["Entropy"]


@register
class Entropy(Probe):
    """One number per query; 0 is one key only, ln T is uniform."""

    name = "entropy"
    needs: ClassVar[frozenset[Need]] = frozenset({"entropy"})

    def layer(self, layer: Layer) -> Mapping[str, Tensor | Mean]:
        assert layer.entropy is not None
        return {"entropy": layer.entropy}
