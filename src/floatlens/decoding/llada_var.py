"""LLaDA's sampler for answers of open length (the evaluation of iLLaDA): one block after another, each as if it were
the whole answer, so no pass sees a mask of a later block. It ends after a block with a stop token.

Attention is full: what was written changes with every block, so there is no cache.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from floatlens.core.errors import FloatlensError
from floatlens.decoding.block_board import BlockBoard
from floatlens.decoding.block_settings import has_any
from floatlens.decoding.canvas import Canvas
from floatlens.decoding.draws import ban, best, gumbel_argmax, uniform
from floatlens.decoding.registry import Generators, Sampler
from floatlens.decoding.settings import Align, BlockSettings
from floatlens.decoding.step import Step
from floatlens.models.base import LanguageModel

__all__ = ["SAMPLER", "LladaVarSettings", "run"]


class LladaVarSettings(BlockSettings):
    """Settings of the sampler `llada_var`."""

    align: ClassVar[Align | None] = "end"

    gen_length: int = Field(32, ge=1, description="how many tokens to write at most")
    steps: int = Field(
        default_factory=lambda data: data.get("block_length", 1),
        ge=1,
        description="forward passes for each block (default: block_length)",
    )
    temperature: float = Field(0.0, ge=0, description="weight of the Gumbel noise; 0 takes the most likely token")
    remasking: Literal["low_confidence", "random"] = Field(
        "low_confidence", description="which tokens stay: those of the highest probability, or random ones"
    )
    stop_token_ids: tuple[int, ...] = Field((), description="ids after whose block nothing more is written")

    def check(self, model: LanguageModel) -> None:
        if model.attention != "full":
            raise FloatlensError(
                f'the sampler "llada_var" is for full attention, and that of {model.ref} is {model.attention}'
            )

    def number_blocks(self, length: int, first: int) -> Tensor:
        """What the passes over each block add to those before."""
        return (torch.arange(length) - first).clamp_min(0) // self.block_length

    def ends(self, model: LanguageModel, known: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(dict.fromkeys((*known, *self.stop_token_ids)))

    def columns(self, sequence: Tensor, answer: Tensor, written: int) -> int:
        return written

    def check_steps(self, masks: int) -> None:
        if self.steps > self.block_length:
            raise ValueError(f"steps={self.steps} is more than block_length={self.block_length}; it is per block")

    def max_steps(self, masks: int) -> int:
        return self.steps * -(-masks // self.block_length)


def run(model: LanguageModel, canvas: Canvas, settings: LladaVarSettings, random: Generators) -> Iterator[Step]:
    """Yield a step after every pass. A block with n masks is shared among its passes as in the sampler `llada`."""
    board = BlockBoard(model, canvas, torch.zeros_like(canvas.ids), use_cache=False)  # all sees all
    size = settings.block_length
    for start in range(canvas.length - settings.gen_length, canvas.length, size):
        board.begin(start + size)
        inside = board.inside(start, board.stop)
        for turn in range(settings.steps):
            where = board.places(inside)
            if not len(where.sample):
                break
            logits = board.logits(where)
            token = gumbel_argmax(ban(logits, [board.mask_id]), where.sample, settings.temperature, random)
            share = torch.softmax(logits, dim=-1)
            confidence = share.gather(1, token.to(share.device)[:, None])[:, 0].cpu()
            score = confidence if settings.remasking == "low_confidence" else uniform(where.sample, random)
            count = size // settings.steps + (turn < size % settings.steps)
            yield board.fill(where, token, confidence, best(score, where.sample, torch.full((len(board.ids),), count)))
        if canvas.target is None and settings.stop_token_ids:
            board.end(has_any(board.ids, settings.stop_token_ids, canvas.answer))
        if not board.alive.any():
            break


_ABOUT = "LLaDA's sampler block by block, no later mask in sight, until a stop token (iLLaDA's evaluation)"
SAMPLER = Sampler("llada_var", "mdm", LladaVarSettings, run, _ABOUT)
