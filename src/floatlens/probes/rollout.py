"""The exact rollout over tokens of the rows that decided a token (methods §7), pooled over the regions of the keys.

Token rollout multiplies (A + I)/2 over the layers, A being the mean attention of the heads. Only its product with the
regions' members is kept: H_l = (A_l H_{l-1} + H_{l-1})/2 is (position, region) and H_{-1} marks the region of each
position. So the result is that of whole matrices, at any length, and no (query, key) matrix is formed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from floatlens.attention.blocks import Block
from floatlens.attention.host import moved
from floatlens.attention.probe import Layer, Mean, PassState, Probe, Shape
from floatlens.attention.variable import Variable

__all__ = ["Rollout"]

_MEANING = "rollout of the deciding row over tokens through this layer, by region; NaN if an earlier layer is left out"


class Rollout(Probe):
    """Each row sums to 1 over `region`: where the state of the deciding row comes from after a layer, over all paths.

    With a key/value cache the rows of earlier passes are kept: under a causal mask later tokens do not change them.
    """

    name = "rollout"
    batched = True
    variables = (Variable("answer_rollout", ("token", "layer", "region"), "replace", _MEANING),)

    def __init__(self) -> None:
        self._through: dict[int, Tensor] = {}  # layer → (batch, region, position) of all positions so far
        self._kept: dict[int, Tensor] = {}  # the same of the positions whose keys are in the cache
        self._before: Tensor | None = None
        self._moved = torch.empty(0)
        self._size = (0, 0, 0)  # queries, keys and regions of the pass
        self._host: Mapping[Any, NDArray[np.float32]] = {}  # what is known after the pass, by layer

    def prepare(self, shape: Shape) -> None:
        self._through.clear()
        self._kept.clear()

    def begin(self, layer: Layer) -> None:
        self.open(layer.index, layer.state, layer.query.device)

    def open(self, index: int, state: PassState, device: torch.device) -> None:
        """Before a layer: what came through the layer before it."""
        batch, keys, regions = state.key_member.shape
        self._size = state.queries, keys, regions
        if index == 0:
            if not state.offset:
                self._through.clear()
                self._kept.clear()
            self._before = state.placed("key_member", device).transpose(1, 2).contiguous()
        else:
            self._before = self._known(index - 1)
        self._host = {}
        if self._before is not None:
            self._before = moved(self._before, device)
            self._moved = torch.zeros(batch, regions, state.queries, device=device)

    def block(self, layer: Layer, block: Block) -> None:
        if self._before is not None:
            self.move(block.batch, block.queries, self.summed(block))

    def summed(self, block: Block) -> Tensor:
        """(batch, query, key): the sum over the block's heads of what is multiplied over the layers."""
        return _head_sum(block)

    def move(self, batch: slice, rows: slice, shares: Tensor) -> None:
        """Rows (batch, row, key) that are a block of the layer's matrix."""
        if self._before is not None:  # products with regions first are the fast ones: there are few
            self._moved[batch, :, rows] += torch.bmm(self._before[batch, :, : shares.shape[-1]], shares.transpose(1, 2))

    def reads_blocks(self, layer: Layer) -> bool:
        return False

    def averaged(self, layer: Layer) -> Tensor | None:
        return self._before

    def averages(self, layer: Layer, found: Tensor) -> None:
        self._moved = found.transpose(1, 2) * layer.query.shape[1]

    def layer(self, layer: Layer) -> Mapping[str, Tensor | Mean]:
        return self.close(layer.index, layer.state, layer.query.shape[1])

    def close(self, index: int, state: PassState, heads: int) -> Mapping[str, Tensor | Mean]:
        """After a layer whose matrix is the sum of so many heads."""
        if self._before is None:
            return {}
        offset = state.offset
        mixed = self._moved / heads + self._before[..., offset:]
        mixed /= mixed.sum(1, keepdim=True).clamp(min=torch.finfo(torch.float32).tiny)  # padding stays 0
        if offset:
            earlier = self._kept.pop(index, None) if state.keep else self._kept.get(index)
            if earlier is None or earlier.shape[-1] != offset:  # the cache was filled before the capture
                self._through.pop(index, None)
                return {}
            mixed = torch.cat([earlier, mixed], dim=-1)
        self._through[index] = mixed
        if state.keep:
            self._kept[index] = mixed
        return {}

    def kept(self) -> Mapping[Any, Tensor]:
        return {one: known for one in self._through if (known := self._known(one)) is not None}

    def fetched(self, arrays: Mapping[Any, NDArray[Any]]) -> None:
        self._host = arrays

    def deciding_row(self, layer: int, sample: int, row: int) -> Mapping[str, NDArray[np.generic]]:
        return {"answer_rollout": self.of_row(layer, sample, row)}

    def of_row(self, layer: int, sample: int, row: int) -> NDArray[np.generic]:
        """(region): of a row of the pass."""
        queries, keys, regions = self._size
        if layer not in self._host:
            return np.full(regions, np.nan, dtype=np.float32)
        return self._host[layer][sample, :, keys - queries + row]

    def _known(self, layer: int) -> Tensor | None:
        """The rollout through a layer, of every position up to this pass; None where it cannot be known."""
        through = self._through.get(layer)
        return through if through is not None and through.shape[-1] == self._size[1] else None


def _head_sum(block: Block) -> Tensor:
    """(batch, query, key): the sum over the block's heads of their weights."""
    if block.exp.shape[2] <= block.exp.shape[1]:
        return torch.einsum("bhqk,bhq->bqk", block.exp, block.inverse)
    total, *others = zip(block.exp.unbind(1), block.inverse.unsqueeze(-1).unbind(1), strict=True)
    summed = total[0] * total[1]
    for exp, inverse in others:  # three times as fast as a product for each head
        summed.addcmul_(exp, inverse)
    return summed
