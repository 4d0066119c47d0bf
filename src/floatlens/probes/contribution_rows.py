"""Contributions to the rows that decided tokens, and their rollout: as `answer_rows` and `rollout`, in every layer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from floatlens.attention.blocks import Block
from floatlens.attention.mixing import MixerLayer
from floatlens.attention.probe import DecidingRows, Layer, Mean, Need, PassState, Shape
from floatlens.attention.variable import Variable
from floatlens.probes.contribution import ValueNorms
from floatlens.probes.rollout import Rollout

__all__ = ["ContributionRollout", "ContributionRows"]

_TOKENS, _REGIONS = ("token", "layer", "head"), ("token", "layer", "region")
_TINY = torch.finfo(torch.float32).tiny


class ContributionRows(DecidingRows):
    """Per committed token and layer: who contributed to the row that decided it. A layer without heads holds the same
    at every head."""

    name = "contribution_rows"
    batched = True
    holds_positions = ("contribution_argmax",)
    variables = (
        Variable("contribution_argmax", _TOKENS, "replace", "key that contributes most to the deciding row", "int32"),
        Variable("contribution_peak", _TOKENS, "replace", "its contribution"),
        Variable(
            "contribution_evidence",
            _TOKENS,
            "replace",
            "contribution of the evidence to that row; NaN without evidence",
        ),
        Variable("contribution_answer_flow", _REGIONS, "replace", "contribution of each region to that row, head mean"),
    )
    needs: ClassVar[frozenset[Need]] = frozenset({"mixers"})
    attention_only: ClassVar[bool] = False

    def __init__(self) -> None:
        super().__init__()
        self._written, self._norms = ValueNorms(), torch.empty(0)

    def prepare(self, shape: Shape) -> None:
        super().prepare(shape)
        self._written = ValueNorms()

    def begin(self, layer: Layer) -> None:
        super().begin(layer)
        self._norms = self._written.of(layer)

    def rows(self, layer: Layer, block: Block, weights: Tensor) -> Mapping[str, Tensor]:
        shares = weights * self._norms[block.batch, block.heads][:, :, None, : block.keys]
        shares = shares / shares.sum(-1, keepdim=True).clamp(min=_TINY)
        return _of_rows(layer.state, shares, block.batch)

    def begin_mixer(self, layer: MixerLayer) -> None:
        self.open(layer.index, layer.state, layer.heads, layer.terms.device)

    def mixer_block(self, layer: MixerLayer, rows: slice, shares: Tensor) -> None:
        picked, where = self.inside(rows, shares.device)
        if len(picked):
            chosen = shares[:, None, picked].expand(-1, layer.heads, -1, -1)
            every = slice(None)
            self.hold(layer.index, every, every, where, _of_rows(layer.state, chosen, every), layer.heads)


def _of_rows(state: PassState, shares: Tensor, batch: slice) -> dict[str, Tensor]:
    """The variables of rows, from shares (batch, head, row, key)."""
    peak, key = shares.max(-1)
    keys = shares.shape[-1]
    regions = state.placed("key_member", shares.device)[batch, :keys]
    found = {
        "contribution_argmax": key,
        "contribution_peak": peak,
        "contribution_answer_flow": shares @ regions[:, None],
    }
    if state.evidence is not None:
        marked = state.placed("evidence", shares.device)[batch, :keys]
        found["contribution_evidence"] = (shares @ marked[:, None, :, None])[..., 0]
    return found


class ContributionRollout(Rollout):
    """The rollout over tokens with contributions in place of attention; defined through every layer that is covered."""

    name = "contribution_rollout"
    variables = (
        Variable(
            "contribution_rollout",
            _REGIONS,
            "replace",
            "rollout of contributions of the deciding row through this layer, by region; NaN if an earlier layer is "
            "left out",
        ),
    )
    needs: ClassVar[frozenset[Need]] = frozenset({"mixers"})
    attention_only: ClassVar[bool] = False

    def __init__(self) -> None:
        super().__init__()
        self._written, self._norms = ValueNorms(), torch.empty(0)

    def prepare(self, shape: Shape) -> None:
        super().prepare(shape)
        self._written = ValueNorms()

    def begin(self, layer: Layer) -> None:
        super().begin(layer)
        self._norms = self._written.of(layer)

    def reads_blocks(self, layer: Layer) -> bool:
        return True  # each head normalises its rows anew, so no mean over heads of plain weights gives the product

    def summed(self, block: Block) -> Tensor:
        norms = self._norms[block.batch, block.heads][:, :, : block.keys]
        total = (block.exp @ norms[..., None])[..., 0]
        return torch.einsum("bhqk,bhq,bhk->bqk", block.exp, torch.where(total > 0, 1 / total, 0.0), norms)

    def begin_mixer(self, layer: MixerLayer) -> None:
        self.open(layer.index, layer.state, layer.terms.device)

    def mixer_block(self, layer: MixerLayer, rows: slice, shares: Tensor) -> None:
        self.move(slice(None), rows, shares)

    def mixer(self, layer: MixerLayer) -> Mapping[str, Tensor | Mean]:
        return self.close(layer.index, layer.state, 1)

    def deciding_row(self, layer: int, sample: int, row: int) -> Mapping[str, Any]:
        return {"contribution_rollout": self.of_row(layer, sample, row)}
