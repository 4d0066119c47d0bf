"""What an edit did, by step and layer: how many rows it changed and how much attention it moved.

Two running sums are kept on the model's device and copied to the CPU only when they are read.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["Change", "ChangeTotals"]


@dataclass(frozen=True)
class Change:
    """One step of one layer, over all samples and runs. A row is one query of one head of one sample.

    `mass` is the attention that was moved, summed over the rows. Padding is not counted, and a row that is computed
    again (autoregressive, without a cache) is counted once.
    """

    edit: str
    step: int
    layer: int
    rows: int
    mass: float

    @property
    def mean(self) -> float:
        """Attention moved per changed row, 0 … 1."""
        return self.mass / self.rows if self.rows else 0.0


class ChangeTotals:
    """Running sums of one edit."""

    def __init__(self) -> None:
        self._sums: dict[tuple[int, int], Tensor] = {}

    def add(self, step: int, layer: int, moved: Tensor) -> None:
        """`moved` (…): the attention moved in each row, 0 in rows that do not count."""
        some = torch.stack([(moved > 0).sum(dtype=torch.float64), moved.sum(dtype=torch.float64)])
        held = self._sums.get((step, layer))
        self._sums[step, layer] = some if held is None else held + some.to(held.device)

    def clear(self) -> None:
        self._sums.clear()

    def changes(self, edit: str) -> list[Change]:
        found = []
        for (step, layer), sums in sorted(self._sums.items()):
            rows, mass = sums.tolist()
            found.append(Change(edit, step, layer, int(rows), mass))
        return found
