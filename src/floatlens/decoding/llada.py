"""LLaDA's sampler: fill the answer block by block, a fixed number of tokens per pass, the most confident first.

Noise is Gumbel noise in float64; guidance contrasts the pass with one in which everything given is masked. It does not
stop at EOS: the answer is always filled to its end, as published.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor

from floatlens.core.errors import FloatlensError
from floatlens.decoding.board import Board, Places
from floatlens.decoding.canvas import Canvas
from floatlens.decoding.draws import ban, best, gumbel_argmax, uniform
from floatlens.decoding.registry import Generators, Sampler
from floatlens.decoding.settings import BlockSettings, require_divisor
from floatlens.decoding.step import Step
from floatlens.models.base import LanguageModel

__all__ = ["SAMPLER", "LladaSettings", "run"]


class LladaSettings(BlockSettings):
    """Settings of the sampler `llada`."""

    steps: int = Field(
        default_factory=lambda data: data.get("gen_length", 1),
        ge=1,
        description="forward passes for the whole answer, split evenly over the blocks (default: gen_length)",
    )
    temperature: float = Field(0.0, ge=0, description="weight of the Gumbel noise; 0 takes the most likely token")
    cfg_scale: float = Field(
        0.0, ge=0, description="classifier-free guidance; above 0 every step takes a second pass without the prompt"
    )
    remasking: Literal["low_confidence", "random"] = Field(
        "low_confidence", description="which tokens stay: those of the highest probability, or random ones"
    )
    logits_eos_inf: bool = Field(False, description="never write the EOS token")
    confidence_eos_eot_inf: bool = Field(
        False, description="keep EOS and end-of-turn tokens until nothing else is left"
    )

    @model_validator(mode="after")
    def _even_blocks(self) -> LladaSettings:
        if self.steps < 1:
            raise ValueError("gen_length=0 leaves the number of passes open; set steps")
        require_divisor("steps", self.steps, "the number of blocks", self.blocks)
        return self

    def check(self, model: LanguageModel) -> None:
        asked = [name for name in ("logits_eos_inf", "confidence_eos_eot_inf") if getattr(self, name)]
        if asked and not model.eos_ids:
            raise FloatlensError(f"{asked[0]} needs an EOS token, and {model.ref} names none")

    def check_masks(self, masks: Sequence[int]) -> None:
        super().check_masks(masks)
        if not self.gen_length and self.block_length:
            if len(set(masks)) > 1:
                raise ValueError("in blocks, prompts of one batch must hold equally many masks")
            require_divisor("steps", self.steps, "the number of blocks", masks[0] // self.block_length)

    def check_steps(self, masks: int) -> None:
        if self.steps > masks:
            raise ValueError(f"steps={self.steps} is more than the {masks} tokens to write; use steps={masks} or fewer")

    def max_steps(self, masks: int) -> int:
        return self.steps


def run(model: LanguageModel, canvas: Canvas, settings: LladaSettings, random: Generators) -> Iterator[Step]:
    """Yield a step after every pass.

    A block with n masks and S passes commits n // S tokens in each pass, and one more in the first n % S. Passes
    without a mask left (S > n) are not run.
    """
    board = Board(model, canvas)
    block_of = canvas.block_of(settings.block_length)
    blocks = int(block_of[canvas.answer].max()) + 1
    passes = settings.steps // blocks
    for block in range(blocks):
        inside = block_of == block
        masks = (board.open() & inside).sum(dim=1)
        for turn in range(passes):
            where = board.places(inside)
            if not len(where.sample):
                break
            logits = _guided(board, where, settings.cfg_scale)
            token, confidence = _read(board, logits, where.sample, settings, random)
            score = confidence if settings.remasking == "low_confidence" else uniform(where.sample, random)
            keep = best(score, where.sample, masks // passes + (turn < masks % passes))
            yield board.fill(where, token, confidence, keep)  # guidance: one pass, as published, on a batch of two


def _guided(board: Board, where: Places, scale: float) -> Tensor:
    """Logits with classifier-free guidance: contrasted, by `scale`, with a pass that does not see the prompt."""
    logits = board.logits(where)
    if not scale:
        return logits
    given = board.canvas.attention_mask & ~board.canvas.answer
    without = board.logits(where, ids=board.ids.masked_fill(given, board.mask_id), observed=False)
    return without + (scale + 1) * (logits - without)


def _read(
    board: Board, logits: Tensor, sample: Tensor, settings: LladaSettings, random: Generators
) -> tuple[Tensor, Tensor]:
    """(n,) token and (n,) confidence, its noise-free probability."""
    if settings.logits_eos_inf:
        logits = ban(logits, board.model.eos_ids)
    token = gumbel_argmax(ban(logits, [board.mask_id]), sample, settings.temperature, random)
    if settings.confidence_eos_eot_inf:  # at any temperature; the published code misses EOS above 0 (aliased tensors)
        logits = ban(logits, board.canvas.end_ids)
    share = torch.softmax(logits, dim=-1)
    return token, share.gather(1, token.to(share.device)[:, None])[:, 0].cpu()


_ABOUT = "block by block, a fixed number of tokens per pass, most confident first (LLaDA)"
SAMPLER = Sampler("llada", "mdm", LladaSettings, run, _ABOUT)
