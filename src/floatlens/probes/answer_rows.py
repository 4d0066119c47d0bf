"""What each head attended to when a token was decided (methods §6): the row whose logits produced it."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from floatlens.attention.blocks import Block
from floatlens.attention.probe import DecidingRows, Layer
from floatlens.attention.variable import Variable

__all__ = ["AnswerRows"]

_TOKENS = ("token", "layer", "head")


class AnswerRows(DecidingRows):
    """Per committed token, layer and head: the key with the largest weight, that weight, the mass on the evidence; and
    the mass on each region, mean over heads."""

    name = "answer_rows"
    batched = True
    holds_positions = ("answer_argmax",)
    variables = (
        Variable("answer_argmax", _TOKENS, "replace", "key with the largest weight in the deciding row", "int32"),
        Variable("answer_peak", _TOKENS, "replace", "that largest weight"),
        Variable("answer_evidence", _TOKENS, "replace", "mass of that row on the evidence; NaN without evidence"),
        Variable("answer_flow", ("token", "layer", "region"), "replace", "mass of that row on each region, head mean"),
    )

    def rows(self, layer: Layer, block: Block, weights: Tensor) -> Mapping[str, Tensor]:
        peak, key = weights.max(-1)
        regions = layer.state.placed("key_member", weights.device)[block.batch, : block.keys]
        flow = torch.einsum("bhrk,bkg->bhrg", weights, regions)
        found = {"answer_argmax": key, "answer_peak": peak, "answer_flow": flow}
        if layer.state.evidence is not None:
            marked = layer.state.placed("evidence", weights.device)[block.batch, : block.keys]
            found["answer_evidence"] = torch.einsum("bhrk,bk->bhr", weights, marked)
        return found
