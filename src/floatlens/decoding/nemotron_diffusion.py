"""Nemotron's diffusion sampler: the causal pass over the context decides the first token of a block (its seed); passes
over the block fill the rest, one token each or all above a threshold; a causal pass then stores the block.

With `causal_context=False` there is no seed, and the context is bidirectional, block by block. A thinking budget puts
the end-of-thinking token into the block that crosses it, unless the model wrote one before.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor

from floatlens.decoding.block_board import columns_of
from floatlens.decoding.board import Places
from floatlens.decoding.canvas import Canvas
from floatlens.decoding.draws import best
from floatlens.decoding.nemotron_board import FAMILIES, NemotronBoard, NemotronSettings, settled_eos
from floatlens.decoding.registry import Generators, Sampler
from floatlens.decoding.step import Step
from floatlens.models.base import LanguageModel

__all__ = ["SAMPLER", "NemotronDiffusionSettings", "run"]


class NemotronDiffusionSettings(NemotronSettings):
    """Settings of the sampler `nemotron_diffusion`."""

    causal_context: bool = Field(True, description="compute the context by causal passes, which seed each block")
    max_thinking_tokens: int | None = Field(None, ge=0, description="where thinking ends at the latest")
    end_think_token_id: int | None = Field(None, ge=0, description="the id that ends thinking")

    @model_validator(mode="after")
    def _whole_budget(self) -> Self:
        if (self.max_thinking_tokens is None) != (self.end_think_token_id is None):
            raise ValueError("max_thinking_tokens and end_think_token_id go together; give both")
        if self.max_thinking_tokens is not None and not self.causal_context:
            raise ValueError("a thinking budget needs causal_context")
        return self

    def seeds(self, offset: int) -> bool:
        return self.causal_context and offset % self.size == 0

    def number_blocks(self, length: int, first: int) -> Tensor:
        """Without a causal context the prompt sees all of itself, as does each block."""
        if self.causal_context:
            return super().number_blocks(length, first)
        return (torch.arange(length) - first).div(self.size, rounding_mode="floor").clamp_min(-1) + 1

    def max_steps(self, masks: int) -> int:
        return masks + masks // 2 + 1


def run(
    model: LanguageModel, canvas: Canvas, settings: NemotronDiffusionSettings, random: Generators
) -> Iterator[Step]:
    """Yield a step after every pass that decides tokens. Passes that only fill the cache are counted with the next
    step, or with the last one."""
    board = NemotronBoard(model, canvas, use_cache=settings.use_cache, causal=settings.causal_context)
    extra = 0
    for start in range(board.start, canvas.length, settings.size):
        stop = min(start + settings.size, canvas.length)
        inside = columns_of(canvas.length, start, stop)
        if settings.causal_context:
            yield _settled(board, _seed(board, settings, start, random), settings, inside, stop)
        elif start:
            board.context(start, seeds=False)
            extra = 1
        while len((where := board.places(inside)).sample):
            token, confidence = board.read(board.block(start, stop, where), where.sample, settings.temperature, random)
            keep = best(confidence, where.sample, torch.ones(len(board.ids), dtype=torch.long))
            if settings.threshold is not None:
                keep |= confidence >= settings.threshold
            step = board.write(where, token, confidence, keep, stop, 1 + extra)
            extra = 0
            yield _settled(board, step, settings, inside, stop)
        if not board.alive.any():
            break


def _settled(board: NemotronBoard, step: Step, settings: NemotronDiffusionSettings, inside: Tensor, stop: int) -> Step:
    """End the samples with EOS. After the last block comes, as published, another pass over it, which decides nothing
    and is counted with the last step."""
    board.alive &= ~settled_eos(board, settings.eos_token_id)
    if len(board.places(inside).sample) or (stop < board.canvas.length and board.alive.any()):
        return step
    board.context(stop, seeds=False, observed=False)
    return replace(step, passes=step.passes + 1)


def _seed(board: NemotronBoard, settings: NemotronDiffusionSettings, start: int, random: Generators) -> Step:
    """The step of the causal pass over the context: the first token of the block, and the end of thinking if due."""
    where = board.column(start)
    logits = board.noted(where, board.context(start, seeds=True))
    token, confidence = board.read(logits, where.sample, settings.temperature, random)
    step = board.write(where, token, confidence, torch.ones_like(token, dtype=torch.bool), start)
    budget, end = settings.max_thinking_tokens, settings.end_think_token_id
    if budget is None or end is None or board.canvas.target is not None:
        return step
    place = max(board.start + budget, start)
    if place >= min(start + settings.size, board.canvas.length):
        return step
    before = board.ids[:, board.start : start]
    due = board.alive & ~(before == end).any(dim=1)
    sample = due.nonzero().flatten()
    board.ids[sample, place] = end
    return _with_tokens(step, Places(sample, torch.full_like(sample, place)), end, start - 1)


def _with_tokens(step: Step, where: Places, token: int, row: int) -> Step:
    """The step with a token that the sampler itself put at these places, with confidence 1."""
    at = torch.cat([step.position, where.position])
    sample = torch.cat([step.sample, where.sample])
    order = (sample * (int(at.max()) + 1) + at).argsort()
    ones = torch.ones(len(where.sample))
    tokens = torch.cat([step.token, torch.full_like(where.sample, token)])
    chosen = {"sample": sample, "position": at, "token": tokens, "confidence": torch.cat([step.confidence, ones])}
    rows = torch.cat([step.row, torch.full_like(where.sample, row)])
    ordered: dict[str, Any] = {name: value[order] for name, value in (chosen | {"row": rows}).items()}
    return replace(step, **ordered)


_ABOUT = "blocks after a causal context that seeds them, one token per pass or all above a threshold (Nemotron)"
SAMPLER = Sampler("nemotron_diffusion", "mdm", NemotronDiffusionSettings, run, _ABOUT, families=FAMILIES)
