"""Passes over a small block that read the rest of its block as an earlier pass left it: Fast-dLLM v2's block cache.

A pass over the whole block is made while the first place of the small block is open. The passes after it compute the
small block alone. The keys they read outside it are out of date, so they equal no pass over the sequence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from floatlens.decoding.block_board import BlockPasses
from floatlens.models.base import LanguageModel

if TYPE_CHECKING:
    from transformers import Cache

__all__ = ["SmallBlockPasses"]


class SmallBlockPasses(BlockPasses):
    """Passes over one unpadded sequence, whose blocks are written one small block after another."""

    def __init__(self, model: LanguageModel, blocks: Tensor) -> None:
        super().__init__(model, blocks)
        self._small = slice(0, 0)
        self._rest: Cache | None = None  # the keys outside the small block, at the last pass over the whole block

    def begin(self, start: int, stop: int) -> None:
        """Begin the small block from column `start` to `stop`."""
        self._small, self._rest = slice(start, stop), None

    def denoise(self, ids: Tensor, real: Tensor, stop: int, wanted: Tensor) -> Tensor:
        assert self.model.mask_id is not None  # the contract of kind "mdm"
        if self._rest is None or bool(ids[:, self._small.start].eq(self.model.mask_id).any()):
            return self._refresh(ids, real, stop, wanted)
        device, small = self.model.device, self._small
        blocks = self._blocks[:, :stop]
        return self.model.forward(
            ids[:, small].to(device),
            positions=torch.arange(small.start, small.stop, device=device)[None],
            logits_at=wanted[:, small].to(device),
            blocks=torch.cat([_outside(blocks, small, 1), blocks[:, small]], dim=1).to(device),  # in the cache's order
            cache=self._rest,
            keep=False,
        ).float()

    def _refresh(self, ids: Tensor, real: Tensor, stop: int, wanted: Tensor) -> Tensor:
        """A pass over the whole block, of which the keys outside the small block are kept until the next one."""
        from transformers import DynamicCache

        cache = self._cache
        assert cache is not None  # observers that want full passes are refused with these settings
        held = int(cache.get_seq_length())
        logits = self._run(ids, real, stop, wanted, keep=True, step=True, observed=True)
        layers: Any = cache.layers
        pairs = [(layer.keys, layer.values) for layer in layers]
        self._rest = DynamicCache([tuple(_outside(part, self._small, -2) for part in pair) for pair in pairs])
        cache.crop(held - stop)
        return logits


def _outside(tensor: Tensor, columns: slice, dim: int) -> Tensor:
    """`tensor` without these columns of its dimension `dim`."""
    length = tensor.shape[dim]
    before, after = tensor.narrow(dim, 0, columns.start), tensor.narrow(dim, columns.stop, length - columns.stop)
    return torch.cat([before, after], dim=dim)
