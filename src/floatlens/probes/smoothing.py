"""How alike tokens are in each layer (methods §18): cosines and effective rank of states, distances of attention rows.

States are those that enter a layer. Rows of a pass over cached keys join the states of the passes before it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from floatlens.attention.probe import Layer, Mean, Need, PassState
from floatlens.attention.variable import Variable
from floatlens.core.errors import FloatlensError
from floatlens.probes.row_sample import RowSample

__all__ = ["Smoothing", "effective_rank", "mean_cosine", "row_distance"]

_BY_LAYER = ("step", "layer")


class Smoothing(RowSample):
    """Per step and layer. The distance of attention rows is the mean over pairs of the rows at every n-th position,
    where n is such that the finished sequence has at most `rows` of them. At most `max_bytes` of states are kept for a
    cache.
    """

    name = "smoothing"
    variables = (
        Variable("state_cosine", _BY_LAYER, "replace", "mean cosine of the states of two tokens, over all pairs"),
        Variable("masked_cosine", _BY_LAYER, "replace", "the same over pairs of masked tokens"),
        Variable("effective_rank", _BY_LAYER, "replace", "exp of the entropy of the states' singular values"),
        Variable(
            "row_distance", ("step", "layer", "head"), "replace", "mean Jensen-Shannon distance of two rows, base 2"
        ),
    )
    needs: ClassVar[frozenset[Need]] = frozenset({"residual"})

    def __init__(self, rows: int = 24, max_bytes: int = 2 << 30) -> None:
        super().__init__(rows)
        self.max_bytes = max_bytes
        self._layers = self._every = 1
        self._kept: dict[int, tuple[Tensor, Tensor]] = {}

    def prepare(self, shape: Any) -> None:
        self._kept.clear()
        self._layers = shape.layers
        self._every = max(1, -(-shape.length // self.rows))

    def rows_of(self, state: PassState) -> NDArray[np.int64]:
        return np.arange(-state.offset % self._every, state.queries, self._every)

    def layer(self, layer: Layer) -> Mapping[str, Tensor | Mean]:
        state = layer.state
        states, rows = self._joined(layer)
        real = torch.from_numpy(state.key_region[:, : states.shape[1]] >= 0).to(states.device)
        masked = torch.zeros_like(real)
        masked[:, state.offset :] = torch.from_numpy(state.masked & state.real).to(states.device)
        return {
            "state_cosine": mean_cosine(states, real),
            "masked_cosine": mean_cosine(states, masked),
            "effective_rank": effective_rank(states, real),
            "row_distance": row_distance(rows, real[:, :: self._every]),
        }

    def _joined(self, layer: Layer) -> tuple[Tensor, Tensor]:
        """The states (batch, key, width) and the rows (batch, head, row, key) of all tokens so far."""
        assert layer.residual is not None
        states, rows, offset = layer.residual.float(), self.taken, layer.state.offset
        if offset:
            before, earlier = self._kept[layer.index]
            states = torch.cat([before[:, :offset], states], dim=1)
            earlier = earlier[:, :, : -(-offset // self._every)]
            wide = torch.nn.functional.pad(earlier, (0, rows.shape[-1] - earlier.shape[-1]))
            rows = torch.cat([wide, rows], dim=2)
        if layer.state.keep:
            size = (states.numel() + rows.numel()) * states.element_size() * self._layers
            if size > self.max_bytes:
                raise FloatlensError(
                    f'probe "smoothing": the states of {states.shape[1]} tokens in {self._layers} layers take '
                    f"{size / 2**20:.0f} MiB and max_bytes allows {self.max_bytes / 2**20:.0f}; give "
                    f"use_cache=False or Smoothing(max_bytes=…)"
                )
            self._kept[layer.index] = states, rows
        return states, rows


def mean_cosine(states: Tensor, among: Tensor) -> Tensor:
    """(batch,): the mean cosine over pairs of tokens in `among` (batch, token); NaN for fewer than two.

    The sum over pairs is that of the squared length of Σ x̂, minus the tokens with themselves.

    Example: `mean_cosine(torch.tensor([[[1.0, 0], [1, 0], [0, 1]]]), torch.ones(1, 3, dtype=torch.bool))  # 1/3`
    """
    unit = torch.nn.functional.normalize(states.double(), dim=-1) * among[..., None]
    count = among.sum(-1).double()
    own = unit.square().sum((-1, -2))  # below the count where a state is zero
    found = (unit.sum(1).square().sum(-1) - own) / (count * (count - 1))
    return torch.where(count > 1, found, torch.nan).float()


def effective_rank(states: Tensor, among: Tensor) -> Tensor:
    """(batch,): exp of the entropy of the singular values of the states in `among`, divided by their sum.

    Example: `effective_rank(torch.eye(4)[None], torch.ones(1, 4, dtype=torch.bool))  # 4`
    """
    kept = states.double() * among[..., None]
    gram = kept @ kept.mT if kept.shape[1] <= kept.shape[2] else kept.mT @ kept
    values = torch.linalg.eigvalsh(gram).clamp(min=0).sqrt()
    share = values / values.sum(-1, keepdim=True)
    found = torch.special.entr(share).sum(-1).exp()
    return torch.where(among.any(-1), found, torch.nan).float()


def row_distance(weights: Tensor, among: Tensor) -> Tensor:
    """(batch, head): the mean Jensen-Shannon distance, 0 … 1, over pairs of rows (batch, head, row, key) in `among`
    (batch, row); NaN without a pair.

    Example: `row_distance(torch.eye(2)[None, None], torch.ones(1, 2, dtype=torch.bool))  # 1`
    """
    first, second = torch.triu_indices(weights.shape[2], weights.shape[2], 1, device=weights.device)
    pairs = among[:, first] & among[:, second]
    own = torch.special.entr(weights).sum(-1)
    total = torch.zeros(weights.shape[:2], dtype=torch.float64, device=weights.device)
    for row in range(weights.shape[2] - 1):  # the pairs of one row at a time
        mixed = (weights[:, :, row : row + 1] + weights[:, :, row + 1 :]) / 2
        gap = torch.special.entr(mixed).sum(-1) - (own[:, :, row : row + 1] + own[:, :, row + 1 :]) / 2
        distance = (gap.clamp(min=0) / math.log(2)).clamp(max=1).sqrt()
        total += (distance * pairs[:, None, first == row]).sum(-1)
    count = pairs.sum(-1, keepdim=True)
    return torch.where(count > 0, total / count, torch.nan).float()
