"""LLaDA2.0's sampler: blocks by absolute position; a pass commits every token above a threshold if these are at least
its quota, else the quota of the most confident ones. Decoding ends after a block with EOS.

As published, a pass reaches to the end of the block and there is no cache. With one, the pass that stores a finished
block and the first pass over the next block are the two halves of one published pass, and are counted as one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor

from floatlens.decoding.block_board import BlockBoard
from floatlens.decoding.block_settings import BlockDiffusionSettings, has_any, quota
from floatlens.decoding.canvas import Canvas
from floatlens.decoding.draws import ban, best, categorical, nucleus, uniform
from floatlens.decoding.registry import Generators, Sampler
from floatlens.decoding.settings import Align
from floatlens.decoding.step import Step
from floatlens.models.base import LanguageModel

__all__ = ["SAMPLER", "Llada2Settings", "PositionBlocks", "confident", "read", "run", "settled_end", "start_blocks"]


class PositionBlocks(BlockDiffusionSettings):
    """Settings that both samplers of LLaDA2 have."""

    align: ClassVar[Align | None] = "start"
    size_name: ClassVar[str] = "block_length"

    block_length: int | None = Field(None, ge=1, description="positions per block (default: the model's)")
    temperature: float = Field(0.0, ge=0, description="0 takes the most likely token, above 0 samples")
    top_k: int | None = Field(None, ge=1, description="sample from this many of the most likely tokens")
    top_p: float | None = Field(
        None, gt=0, le=1, description="sample from the most likely tokens of this total probability"
    )
    threshold: float = Field(0.95, ge=0, le=1, description="commit every token above this probability")
    eos_early_stop: bool = Field(False, description="end at EOS as soon as no mask precedes it")
    eos_id: int | None = Field(None, ge=0, description="the id that ends an answer (default: the model's EOS)")

    def resolved(self, model: LanguageModel) -> Self:
        """These settings with the model's block size and EOS where none were given."""
        given = super().resolved(model)
        eos = model.eos_ids[0] if given.eos_id is None and model.eos_ids else given.eos_id
        return given.model_copy(update={"eos_id": eos})

    def masks(self, prompt: int) -> int:
        return -(-(prompt + self.gen_length) // self.size) * self.size - prompt

    def most_written(self) -> int:
        return self.gen_length + self.size - 1

    def ends(self, model: LanguageModel, known: tuple[int, ...]) -> tuple[int, ...]:
        return known if self.eos_id is None else tuple(dict.fromkeys((*known, self.eos_id)))

    def kept(self, answer: Tensor) -> Tensor:
        """Without what fills up the last block."""
        kept: Tensor = answer & (answer.long().cumsum(dim=1) <= self.gen_length)
        return kept

    def columns(self, sequence: Tensor, answer: Tensor, written: int) -> int:
        """Up to the first EOS, or to `gen_length` tokens, of the longest sample."""
        found = [0]
        for ids, where in zip(sequence, answer, strict=True):
            own = where.nonzero().flatten()[: self.gen_length]
            ends = (ids[own] == self.eos_id).nonzero().flatten() if self.eos_id is not None else own[:0]
            found.append(int(own[ends[0]] if len(ends) else own[-1]) + 1)
        return max(found)


class Llada2Settings(PositionBlocks):
    """Settings of the sampler `llada2`."""

    steps: int | None = Field(
        None, ge=1, description="passes over a block, which share its positions evenly (default: block_length)"
    )
    minimal_topk: int = Field(1, ge=1, description="steps is at most gen_length // minimal_topk")

    @model_validator(mode="after")
    def _some_steps(self) -> Self:
        if self.minimal_topk > self.gen_length:
            raise ValueError(f"minimal_topk={self.minimal_topk} is more than gen_length={self.gen_length}")
        return self

    @property
    def turns(self) -> int:
        """Passes that share the positions of a block."""
        return min(self.steps or self.size, self.gen_length // self.minimal_topk)


def run(model: LanguageModel, canvas: Canvas, settings: Llada2Settings, random: Generators) -> Iterator[Step]:
    """Yield a step after every pass over a block."""
    board, first = start_blocks(model, canvas, settings)
    for start in range(first, canvas.length, settings.size):
        board.begin(start + settings.size)
        inside, turn = board.inside(start, board.stop), 0
        while len((where := board.places(inside)).sample):
            logits = board.logits(where)
            token, confidence = read(logits, where.sample, board.mask_id, settings, random)
            keep = confident(confidence, where.sample, settings.threshold, quota(settings.size, settings.turns, turn))
            yield board.fill(where, token, confidence, keep)
            turn += 1
            if settings.eos_early_stop:
                board.end(settled_end(board, settings.eos_id))
        if canvas.target is None and settings.eos_id is not None:
            board.end(has_any(board.ids, (settings.eos_id,), canvas.answer & board.inside(0, board.stop)))
        if not board.alive.any():
            break
        if board.passes.cached and board.stop < canvas.length:
            board.store(board.stop)


def start_blocks(model: LanguageModel, canvas: Canvas, settings: PositionBlocks) -> tuple[BlockBoard, int]:
    """The board of blocks by position, with the whole blocks of the prompt stored, and the first column after them."""
    board = BlockBoard(model, canvas, use_cache=settings.use_cache)
    first = min(canvas.prompt_lengths) // settings.size * settings.size
    if board.passes.cached:
        board.store(first)
    return board, first


def read(
    logits: Tensor, sample: Tensor, mask_id: int, settings: PositionBlocks, random: Generators
) -> tuple[Tensor, Tensor]:
    """(n,) token, never the mask, and (n,) its probability in the distribution it was taken from."""
    if settings.temperature > 0:
        logits = nucleus(nucleus(logits / settings.temperature, None, settings.top_k), settings.top_p)
        token = categorical(ban(logits, [mask_id]), uniform(sample, random))
    else:
        token = ban(logits, [mask_id]).argmax(dim=-1).cpu()
    share = torch.softmax(logits, dim=-1)
    return token, share.gather(1, token.to(share.device)[:, None])[:, 0].cpu()


def confident(confidence: Tensor, sample: Tensor, threshold: float, count: int) -> Tensor:
    """(n,) bool: of each sample the tokens above the threshold if these are at least `count`, else the best `count`."""
    batch = int(sample.max()) + 1 if len(sample) else 0
    keep = best(confidence, sample, torch.full((batch,), max(count, 1)))
    sure = confidence > threshold
    for number in range(batch):
        own = sample == number
        if int((sure & own).sum()) >= max(count, 1):
            keep = torch.where(own, sure, keep)
    return keep


def settled_end(board: BlockBoard, eos_id: int | None) -> Tensor:
    """(batch,) bool: whether a sample has EOS after its prompt and no mask before it. A forced text has no end."""
    answer = board.canvas.answer
    if eos_id is None or board.canvas.target is not None:
        return torch.zeros(len(answer), dtype=torch.bool)
    settled = ((board.ids == board.mask_id) & answer).long().cumsum(dim=1) == 0
    found: Tensor = ((board.ids == eos_id) & answer & settled).any(dim=1)
    return found


_ABOUT = "blocks by position, all tokens above a threshold or a quota of them, until EOS (LLaDA2.0)"
SAMPLER = Sampler("llada2", "mdm", Llada2Settings, run, _ABOUT, blocks=True)
