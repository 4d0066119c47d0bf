"""Parallel decoding by confidence (Fast-dLLM): each pass commits every token of the block above a threshold.

A block ends when it is full, so the number of passes depends on the model. Every pass is a full pass: no key or value
is reused, so the attention of each step is exact.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from pydantic import Field
from torch import Tensor

from floatlens.decoding.board import Board
from floatlens.decoding.canvas import Canvas
from floatlens.decoding.draws import ban, best, gumbel_argmax, wide
from floatlens.decoding.registry import Generators, Sampler
from floatlens.decoding.settings import BlockSettings
from floatlens.decoding.step import Step
from floatlens.models.base import LanguageModel

__all__ = ["SAMPLER", "ThresholdSettings", "run"]


class ThresholdSettings(BlockSettings):
    """Settings of the sampler `threshold`."""

    threshold: float = Field(
        0.9, ge=0, le=1, description="commit every token of at least this probability, and always the most likely one"
    )
    temperature: float = Field(0.0, ge=0, description="weight of the Gumbel noise; 0 takes the most likely token")

    def max_steps(self, masks: int) -> int:
        return masks


def run(model: LanguageModel, canvas: Canvas, settings: ThresholdSettings, random: Generators) -> Iterator[Step]:
    """Yield a step after every pass. Each sample moves to its next block independently of the others."""
    board = Board(model, canvas)
    block_of = canvas.block_of(settings.block_length)
    while bool((masks := board.open()).any()):
        where = board.places(_current(masks, block_of))
        logits = board.logits(where)
        token = gumbel_argmax(ban(logits, [board.mask_id]), where.sample, settings.temperature, random)
        share = torch.softmax(wide(logits), dim=-1)
        confidence = share.gather(1, token.to(share.device)[:, None])[:, 0].cpu()
        first = best(confidence, where.sample, torch.ones(len(masks), dtype=torch.long))
        yield board.fill(where, token, confidence, first | (confidence >= settings.threshold))


def _current(masks: Tensor, block_of: Tensor) -> Tensor:
    """(batch, length) bool: each sample's first block that still has a mask."""
    beyond = int(block_of.max()) + 1
    first = block_of.masked_fill(~masks, beyond).amin(dim=1, keepdim=True)
    return block_of == first


_ABOUT = "block by block, every token above a confidence threshold at once (Fast-dLLM)"
SAMPLER = Sampler("threshold", "mdm", ThresholdSettings, run, _ABOUT)
