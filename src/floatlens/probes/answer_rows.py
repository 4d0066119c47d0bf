"""What every head looked at when a token was decided (methods §6): the row whose logits produced it, nothing else.

Which tokens a pass commits is known only after it, so candidate rows are noted during the pass and picked on commit.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from floatlens.attention.blocks import Block
from floatlens.attention.probe import Layer, Need, Probe, Shape, register

__all__ = ["AnswerRows"]


@register
class AnswerRows(Probe):
    """Per committed token, layer and head: the key with the largest weight, that weight, the mass on the evidence."""

    name = "answer_rows"
    needs: ClassVar[frozenset[Need]] = frozenset()

    def __init__(self) -> None:
        self._rows: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self._seen: dict[int, tuple[Tensor, Tensor, Tensor]] = {}

    def prepare(self, shape: Shape) -> None:
        self._seen.clear()

    def begin(self, layer: Layer) -> None:
        self._rows = layer.state.candidates()
        shape = (*layer.query.shape[:2], len(self._rows))
        device = layer.query.device
        self._seen[layer.index] = (
            torch.zeros(shape, dtype=torch.long, device=device),
            torch.zeros(shape, device=device),
            torch.full(shape, float("nan"), device=device),
        )

    def block(self, layer: Layer, block: Block) -> None:
        inside = np.flatnonzero((self._rows >= block.queries.start) & (self._rows < block.queries.stop))
        if not len(inside):
            return
        rows = torch.from_numpy(self._rows[inside] - block.queries.start).to(block.exp.device)
        weights = block.weights(rows)
        where = slice(int(inside[0]), int(inside[-1]) + 1)
        peak, key = weights.max(-1)
        argmax, peaks, evidence = self._seen[layer.index]
        argmax[block.batch, block.heads, where] = key
        peaks[block.batch, block.heads, where] = peak
        if layer.state.evidence is not None:
            span = layer.state.evidence[block.batch, : block.keys].astype(np.float32)
            marked = torch.from_numpy(span).to(weights.device)
            evidence[block.batch, block.heads, where] = torch.einsum("bhrk,bk->bhr", weights, marked)

    def pick(self, layer: int, sample: int, row: int) -> tuple[NDArray[np.generic], ...]:
        """(argmax, peak, evidence mass), each (head,), of one deciding row of the pass that has just ended."""
        at = int(np.searchsorted(self._rows, row))
        if at >= len(self._rows) or self._rows[at] != row:
            raise AssertionError(f"row {row} was no candidate of this pass")
        return tuple(t[sample, :, at].cpu().numpy() for t in self._seen[layer])
