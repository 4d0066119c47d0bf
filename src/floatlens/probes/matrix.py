"""`Matrix`: full attention weights of selected layers, heads and steps; `Snapshot`: probes that keep such matrices.

With a key/value cache each pass computes only its new rows; they are appended to the earlier ones, so the snapshot of
a step is that of a full pass over the sequence so far. The size of what is kept is limited.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import torch
import xarray as xr
from numpy.typing import NDArray
from torch import Tensor

from floatlens.attention.blocks import Block
from floatlens.attention.probe import Layer, Mean, Probe, Shape
from floatlens.attention.select import Select
from floatlens.attention.variable import Variable
from floatlens.core.errors import FloatlensError

__all__ = ["Matrix", "Snapshot", "matrices"]


def matrices(name: str, meaning: str) -> Variable:
    """The variable of a `Snapshot`: it has step, layer and head dimensions of its own, for those that were chosen."""
    return Variable(name, (f"{name}_step", f"{name}_layer", f"{name}_head", "query", "key"), "append", meaning)


class Snapshot(Probe):
    """Base class of the probes that keep matrices, in the last of their `variables`. `select=None` keeps none.

    `unseen` is what they hold for keys outside a query's block; of a causal model it is NaN.
    """

    unseen: ClassVar[float] = float("nan")

    def __init__(self, select: Select | None, max_bytes: int) -> None:
        self.select = select
        self.max_bytes = max_bytes
        self.chosen_layers: tuple[int, ...] = ()
        self.chosen_heads: tuple[int, ...] = ()
        self.chosen_steps: frozenset[int] = frozenset()
        self.taken: dict[tuple[int, int], NDArray[np.float32]] = {}
        self._rows: dict[int, Tensor] = {}

    def finish(self, length: int) -> dict[str, xr.DataArray]:
        """All matrices in one array, padded with NaN to the final length."""
        if not self.taken:
            return {}
        variable = self.variables[-1]
        steps = sorted({step for step, _ in self.taken})
        layers = sorted({layer for _, layer in self.taken})
        size = (len(steps), len(layers), len(self.chosen_heads), length, length)
        stacked = np.full(size, np.nan, dtype=np.float32)
        for (step, layer), rows in self.taken.items():
            q, k = min(rows.shape[2], length), min(rows.shape[3], length)
            stacked[steps.index(step), layers.index(layer), :, :q, :k] = rows[0, :, :q, :k]
        chosen = (steps, layers, self.chosen_heads)
        coords = {dim: np.array(values) for dim, values in zip(variable.dims, chosen, strict=False)}
        return {variable.name: xr.DataArray(stacked, dims=variable.dims, coords=coords)}

    def prepare(self, shape: Shape) -> None:
        self.taken, self._rows = {}, {}
        if self.select is None:
            return
        self.chosen_layers = self.select.layer_ids(shape.layers)
        self.chosen_heads = self.select.head_ids(shape.heads)
        steps = self.select.step_ids(shape.steps)
        self.chosen_steps = frozenset(steps)
        size = 4 * len(steps) * len(self.chosen_layers) * len(self.chosen_heads) * shape.length**2
        count = f"{len(steps)} steps × {len(self.chosen_layers)} layers × {len(self.chosen_heads)} heads"
        self._check(size, f"{count} × {shape.length}² positions")

    def _check(self, size: int, what: str) -> None:
        if size > self.max_bytes:
            raise FloatlensError(
                f'probe "{self.name}": {what} would take {size / 2**20:.0f} MiB and max_bytes allows '
                f"{self.max_bytes / 2**20:.0f}; select fewer with Select(layers=…, heads=…, steps=…)"
            )

    def keep(self, layer: Layer, rows: Tensor) -> None:
        """Rows (batch, selected head, new query, key) of this pass; stored if its step is selected."""
        earlier, blocks = self._rows.get(layer.index), layer.mask.blocks
        blank = float("nan") if layer.state.causal else self.unseen
        if blocks is not None and not layer.state.causal:
            seen = blocks.rows(0, rows.shape[2], slice(None), 0, rows.shape[3])
            rows = rows.masked_fill(~seen.to(rows.device), blank)
        if layer.state.offset and earlier is not None:
            grown = torch.nn.functional.pad(earlier, (0, rows.shape[-1] - earlier.shape[-1]), value=blank)
            rows = torch.cat([grown, rows], dim=2)
        if layer.state.causal:
            q = torch.arange(rows.shape[3] - rows.shape[2], rows.shape[3], device=rows.device)[:, None]
            rows = rows.masked_fill(torch.arange(rows.shape[3], device=rows.device) > q, float("nan"))
        if layer.state.keep:
            self._rows[layer.index] = rows
        if layer.state.is_step and layer.state.step in self.chosen_steps:
            self.taken[layer.state.step, layer.index] = rows.cpu().numpy()
            self._check(sum(matrix.nbytes for matrix in self.taken.values()), f"{len(self.taken)} matrices")


class Matrix(Snapshot):
    """`Matrix(Select(layers=[0, -1], heads=0, steps=[0, 7]))`. Keys that a query cannot see by causality are NaN."""

    unseen = 0.0
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

    def reads_blocks(self, layer: Layer) -> bool:
        """In the chosen layers; in the chosen steps, or in all where a cache makes later rows build on earlier ones."""
        state = layer.state
        chosen = state.keep or bool(state.offset) or state.step in self.chosen_steps
        return layer.index in self.chosen_layers and chosen

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
