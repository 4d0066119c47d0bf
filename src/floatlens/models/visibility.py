"""Which keys each query of a pass may see, as one number per position instead of a (query, key) matrix.

Every position has a block number, and a query sees the keys whose number is not larger than its own. So full attention
is one block, causal attention a block per position, block diffusion a number every few positions, and a bidirectional
block after a causal context one number for all of that block. Numbers never decrease from left to right.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from floatlens.core.errors import FloatlensError

__all__ = ["Visibility", "causal_blocks", "layers_with_attention", "position_blocks"]


@dataclass(frozen=True, eq=False)
class Visibility:
    """The mask of one pass. Tensors are (batch, key); queries are the keys from `offset` on.

    `real` is False for padding, which nobody sees. Positions marked in `together` see each other whatever their blocks.

    Example: `Visibility(torch.tensor([[0, 0, 1, 1]])).dense()[0, 0].int().tolist()[1]  # [1, 1, 0, 0]`
    """

    blocks: Tensor
    offset: int = 0
    real: Tensor | None = None
    together: Tensor | None = None

    def __post_init__(self) -> None:
        if bool((self.blocks[:, 1:] < self.blocks[:, :-1]).any()):
            raise FloatlensError("block numbers must not decrease from one position to the next")

    def rows(self, start: int, stop: int, batch: slice, first: int, keys: int) -> Tensor:
        """(batch, 1, query, key) bool: what queries `start` to `stop` see of keys `first` to `keys`, padding aside."""
        of = self.blocks[batch]
        at, over = slice(self.offset + start, self.offset + stop), slice(first, keys)
        seen = of[:, None, over] <= of[:, at, None]
        if self.together is not None:
            near = self.together[batch]
            seen = seen | (near[:, at, None] & near[:, None, over])
        return seen[:, None]

    def dense(self) -> Tensor:
        """(batch, 1, query, key) bool, as torch's own attention takes it; padding sees itself and nothing else does."""
        keys = self.blocks.shape[1]
        seen = self.rows(0, keys - self.offset, slice(None), 0, keys)
        if self.real is None:
            return seen
        own = torch.eye(keys, dtype=torch.bool, device=seen.device)[self.offset :]
        return (seen & self.real[:, None, None]) | own

    def numbers(self) -> NDArray[np.int64] | None:
        """(batch, key) block numbers; None where they alone do not say what is seen."""
        return None if self.together is not None else self.blocks.cpu().numpy().astype(np.int64)

    @cached_property
    def first_hidden(self) -> Tensor:
        """(query,) on the CPU: the first key that some sample's query does not see; all keys before it are seen."""
        return self._bounds.amin(0)

    @cached_property
    def stop(self) -> Tensor:
        """(query,) on the CPU: one past the last key that any sample's query sees."""
        bounds = self._bounds
        if self.together is not None:
            last = self.together.cpu().long().mul(torch.arange(1, bounds.shape[1] + self.offset + 1)).amax(1)
            bounds = torch.where(self.together.cpu()[:, self.offset :], bounds.maximum(last[:, None]), bounds)
        return bounds.amax(0)

    @cached_property
    def bounds(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """`first_hidden` and `stop` as arrays."""
        return self.first_hidden.numpy(), self.stop.numpy()

    @cached_property
    def _bounds(self) -> Tensor:
        """(batch, query): the number of keys in a query's own block and in those before."""
        of = self.blocks.cpu()
        return torch.searchsorted(of, of[:, self.offset :].contiguous(), right=True)


def causal_blocks(batch: int, keys: int, device: torch.device | None = None) -> Tensor:
    """(batch, key) block numbers of causal attention: every position is a block of its own."""
    return torch.arange(keys, device=device).expand(batch, -1).contiguous()


def position_blocks(positions: Tensor, block_size: int) -> Tensor:
    """(batch, key) block numbers of block-causal attention, by absolute position."""
    return positions // block_size


def layers_with_attention(kinds: Sequence[str] | None, layers: int) -> tuple[int, ...]:
    """The layers with attention, by the kinds that a configuration names (None: all); state-space and convolution
    layers have none. Example: `layers_with_attention(["conv", "full_attention"], 2)  # (1,)`"""
    named = kinds or ["attention"] * layers
    return tuple(i for i, kind in enumerate(named) if "attention" in kind and kind != "linear_attention")
