"""`RowSample`: base class of probes that look at whole attention rows, but only at some of each pass."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from floatlens.attention.blocks import Block
from floatlens.attention.probe import Layer, PassState, Probe
from floatlens.core.errors import FloatlensError

__all__ = ["RowSample"]


class RowSample(Probe):
    """Takes the weights of some rows of a pass: of those of `rows_of` at most `rows`, evenly spaced over them.

    After a layer `chosen` (row,) are their numbers in the pass and `taken` (batch, head, row, key) their weights.
    """

    def __init__(self, rows: int = 24) -> None:
        if isinstance(rows, bool) or not isinstance(rows, int) or rows < 2:
            raise FloatlensError(f"{type(self).__name__}(rows={rows!r}): give a whole number from 2")
        self.rows = rows
        self.chosen: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self.taken = torch.empty(0)

    def rows_of(self, state: PassState) -> NDArray[np.int64]:
        """The rows to take: by default, evenly spaced over those whose logits can decide a token in this pass."""
        among = state.candidates()
        return among[np.linspace(0, len(among) - 1, min(self.rows, len(among))).round().astype(np.int64)]

    def begin(self, layer: Layer) -> None:
        self.chosen = self.rows_of(layer.state)
        batch, heads = layer.query.shape[:2]
        self.taken = torch.zeros(batch, heads, len(self.chosen), layer.key.shape[2], device=layer.query.device)

    def block(self, layer: Layer, block: Block) -> None:
        inside = np.flatnonzero((self.chosen >= block.queries.start) & (self.chosen < block.queries.stop))
        if len(inside):
            rows: Any = torch.from_numpy(self.chosen[inside] - block.queries.start).to(block.exp.device)
            where = slice(int(inside[0]), int(inside[-1]) + 1)
            self.taken[block.batch, block.heads, where, : block.keys] = block.weights(rows)
