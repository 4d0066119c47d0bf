"""`DecidingRows`: base class of probes that look at the rows whose logits decided a token (methods §6).

Which tokens a pass commits is known only after it. So statistics of all candidate rows are kept during the pass, and
those of the deciding rows are picked on commit.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from floatlens.attention.blocks import Block
from floatlens.attention.probe import Layer, Probe, Shape

__all__ = ["DecidingRows"]


class DecidingRows(Probe):
    """A subclass implements `rows`; its variables have the dims (token, layer, head)."""

    def __init__(self) -> None:
        self._rows: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self._found: dict[int, dict[str, Tensor]] = {}

    def rows(self, layer: Layer, block: Block, weights: Tensor) -> Mapping[str, Tensor]:
        """The variables (batch, head, row) of some rows, from their attention weights (batch, head, row, key)."""
        raise NotImplementedError

    def prepare(self, shape: Shape) -> None:
        self._found.clear()

    def begin(self, layer: Layer) -> None:
        self._rows = layer.state.candidates()
        shape = (*layer.query.shape[:2], len(self._rows))
        self._found[layer.index] = {
            one.name: torch.full(
                shape,
                float("nan") if one.dtype.startswith("float") else -1,
                dtype=getattr(torch, one.dtype),
                device=layer.query.device,
            )
            for one in self.variables
        }

    def block(self, layer: Layer, block: Block) -> None:
        inside = np.flatnonzero((self._rows >= block.queries.start) & (self._rows < block.queries.stop))
        if not len(inside):
            return
        rows = torch.from_numpy(self._rows[inside] - block.queries.start).to(block.exp.device)
        where = slice(int(inside[0]), int(inside[-1]) + 1)
        for name, values in self.rows(layer, block, block.weights(rows)).items():
            self._found[layer.index][name][block.batch, block.heads, where] = values.to(
                self._found[layer.index][name].dtype
            )

    def deciding_row(self, layer: int, sample: int, row: int) -> Mapping[str, NDArray[np.generic]]:
        at = int(np.searchsorted(self._rows, row))
        if at >= len(self._rows) or self._rows[at] != row:
            raise AssertionError(f"row {row} was no candidate of this pass")
        return {name: values[sample, :, at].cpu().numpy() for name, values in self._found[layer].items()}
