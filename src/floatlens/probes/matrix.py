"""Full attention weights of selected layers, heads and steps, for close inspection and for tests of other probes."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from floatlens.attention.blocks import Block
from floatlens.attention.probe import Layer, Mean
from floatlens.attention.select import Select
from floatlens.probes.snapshot import Snapshot, matrices

__all__ = ["Matrix"]


class Matrix(Snapshot):
    """`Matrix(Select(layers=[0, -1], heads=0, steps=[0, 7]))`. Keys that a query cannot see by causality are NaN."""

    name = "matrix"
    variables = (matrices("matrix", "attention weights, where asked for"),)

    def __init__(self, select: Select | None = None, max_bytes: int = 256 << 20) -> None:
        super().__init__(select if select is not None else Select(), max_bytes)
        self._weights: Tensor | None = None

    def begin(self, layer: Layer) -> None:
        self._weights = None
        if layer.index in self.chosen_layers:
            batch, _, queries = layer.query.shape[:3]
            size = (batch, len(self.chosen_heads), queries, layer.key.shape[2])
            self._weights = torch.zeros(size, device=layer.query.device)

    def block(self, layer: Layer, block: Block) -> None:
        if self._weights is None:
            return
        inside = [(i, h) for i, h in enumerate(self.chosen_heads) if block.heads.start <= h < block.heads.stop]
        for i, h in inside:
            at = h - block.heads.start
            weights = block.exp[:, at] * block.inverse[:, at].unsqueeze(-1)
            self._weights[block.batch, i, block.queries, : block.keys] = weights

    def layer(self, layer: Layer) -> Mapping[str, Tensor | Mean]:
        if self._weights is not None:
            self.keep(layer, self._weights)
        return {}
