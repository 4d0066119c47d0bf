"""Received attention of one layer in one pass, as edits use it: per sample and head, from a group of rows.

For a diffusion model it is the mean over all real queries ("all"), over the rows of the answer ("answer"), or the last
real row ("last"). For an autoregressive model it is always the last real row, which decides the next token, because
that row is the same whether earlier ones come from a cache or not.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from floatlens.attention.blocks import Block
from floatlens.attention.probe import Layer
from floatlens.attention.setting import RowGroup
from floatlens.attention.softmax import QueryClasses

__all__ = ["ReceivedAttention", "choosable"]


class ReceivedAttention:
    """Accumulates `received` (batch, head, key) block by block; it is complete after the last one."""

    def __init__(self, layer: Layer, rows: RowGroup = "all") -> None:
        self._state = layer.state
        batch, heads = layer.query.shape[:2]
        self.received = torch.zeros(batch, heads, layer.key.shape[2], device=layer.query.device)
        self._last = layer.state.last_rows if layer.state.causal or rows == "last" else None
        self._rows = layer.state.answer_rows if rows == "answer" and self._last is None else None

    @property
    def classes(self) -> QueryClasses | None:
        """The query classes of the column sums that blocks must carry; None where rows are read instead."""
        return self._state.classes if self._last is None and self._rows is None else None

    def block(self, block: Block) -> None:
        into = self.received[block.batch, block.heads, : block.keys]
        if self._rows is not None:
            self._add_rows(block, self._rows, into)
            return
        if self._last is None:
            assert block.columns is not None
            counts = self._state.classes.counts[block.batch].sum(1).clamp(min=1).to(into.device)
            into += block.columns.sum(2) / counts[:, None, None]
            return
        rows = self._last[block.batch] - block.queries.start
        if (rows == rows[0]).all() and 0 <= rows[0] < block.exp.shape[2]:  # one row for all samples, as with a cache
            torch.mul(block.exp[:, :, rows[0]], block.inverse[:, :, rows[0], None], out=into)
            return
        inside = (rows >= 0) & (rows < block.queries.stop - block.queries.start)
        some = torch.from_numpy(np.flatnonzero(inside)).to(into.device)
        if len(some):
            at = torch.from_numpy(rows[inside]).to(into.device)
            into[some] = block.exp[some, :, at] * block.inverse[some, :, at].unsqueeze(-1)

    @staticmethod
    def _add_rows(block: Block, rows: NDArray[np.bool_], into: Tensor) -> None:
        """Add the block's part of the mean over some rows (batch, query)."""
        some = np.flatnonzero(rows[block.batch, block.queries].any(0))
        if not len(some):
            return
        part = slice(int(some[0]), int(some[-1]) + 1)
        share = rows[block.batch] / rows[block.batch].sum(1, keepdims=True).clip(min=1)
        weight = torch.from_numpy(share[:, block.queries][:, part].astype(np.float32)).to(into.device)
        scaled = weight.unsqueeze(1) * block.inverse[:, :, part]
        into += (scaled.unsqueeze(2) @ block.exp[:, :, part]).squeeze(2)


def choosable(layer: Layer, rows: RowGroup = "all") -> Tensor:
    """(batch, key) bool: keys that may be anchors: real, seen by the last row; none where a sample has ended, or where
    it has no rows of the group."""
    position = layer.state.position
    assert position is not None
    alive = np.asarray(layer.state.real[:, position.first_step == position.step].any(1))
    if rows != "all":
        alive = alive & layer.state.answer_rows.any(1)
    present = torch.from_numpy(position.real & alive[:, None]).to(layer.query.device)
    if not layer.state.causal or not layer.mask.irregular:
        return present
    seen = []
    for sample, row in enumerate(layer.state.last_rows.tolist()):
        keys, one = layer.mask.key_stop(row + 1), slice(sample, sample + 1)
        visible = layer.mask.sees(row, row + 1, one, slice(0, 1), keys, present.device)[0, 0, 0]
        seen.append(torch.nn.functional.pad(visible, (0, present.shape[1] - keys)))
    return present & torch.stack(seen)
