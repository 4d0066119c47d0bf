"""Fast-dLLM v2's sampler: shifted blocks by absolute position, written in small blocks from left to right; every token
above a threshold at once, and always the most likely one. The pass that finishes a block decides the next one's first
token. Decoding ends at a stop id with no mask before it.

The published cache inside a block (`use_block_cache`) is approximate: its passes are not those of the model, so it
decodes and is never observed. A prompt of exactly one block is read like any other; the published code leaves it out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor

from floatlens.core.errors import FloatlensError
from floatlens.decoding.block_board import BlockBoard
from floatlens.decoding.block_settings import MaxNewTokens
from floatlens.decoding.board import Places
from floatlens.decoding.canvas import Canvas
from floatlens.decoding.draws import ban, best, gumbel_argmax
from floatlens.decoding.registry import Generators, Sampler
from floatlens.decoding.settings import Align
from floatlens.decoding.small_blocks import SmallBlockPasses
from floatlens.decoding.step import Step
from floatlens.models.base import LanguageModel

__all__ = ["SAMPLER", "FastDllmV2Settings", "run"]


class FastDllmV2Settings(MaxNewTokens):
    """Settings of the sampler `fast_dllm_v2`."""

    align: ClassVar[Align | None] = "start"
    size_name: ClassVar[str] = "block_size"

    block_size: int | None = Field(None, ge=1, description="positions per block (default: the model's)")
    small_block_size: int = Field(8, ge=1, description="positions that are filled before the next ones of a block")
    threshold: float = Field(
        1.0, ge=0, le=1, description="commit every token above this probability, and always the most likely one"
    )
    stop_token: int | None = Field(None, ge=0, description="the id that ends decoding (default: the model's EOS)")
    use_block_cache: bool = Field(
        False,
        description="the published cache inside a block: approximate, with other tokens; for one prompt at a time, and "
        "not with traces or edits",
    )

    @model_validator(mode="after")
    def _both_caches(self) -> Self:
        if self.use_block_cache and not self.use_cache:
            raise ValueError("use_block_cache=True needs the cache of finished blocks as well; leave use_cache on")
        return self

    def check(self, model: LanguageModel) -> None:
        if not model.shift:
            raise FloatlensError(f"this sampler is for models with shifted logits, and those of {model.ref} are not")
        if self.use_block_cache and model.observers:
            raise FloatlensError(
                "use_block_cache=True reads keys that are out of date, which no full pass has, so it cannot be traced, "
                "captured or edited; set use_block_cache=False"
            )

    def check_masks(self, masks: Sequence[int]) -> None:
        if self.use_block_cache and len(masks) > 1:  # the published code refreshes all samples with any of them
            raise ValueError(
                f"use_block_cache=True decodes one prompt at a time, not {len(masks)}: in a batch the tokens of a "
                "prompt would depend on the others"
            )

    def resolved(self, model: LanguageModel) -> Self:
        """These settings with the model's block size and EOS where none were given."""
        given = super().resolved(model)
        stop = model.eos_ids[0] if given.stop_token is None and model.eos_ids else given.stop_token
        return given.model_copy(update={"stop_token": stop})

    def masks(self, prompt: int) -> int:
        """Whole blocks, of which the first begins in the prompt, and the first token of another."""
        return (prompt // self.size + max(self.gen_length // self.size, 1)) * self.size + 1 - prompt

    def most_written(self) -> int:
        return self.masks(0)

    def ends(self, model: LanguageModel, known: tuple[int, ...]) -> tuple[int, ...]:
        return known if self.stop_token in (None, *known) else (*known, int(self.stop_token or 0))

    def columns(self, sequence: Tensor, answer: Tensor, written: int) -> int:
        """Up to the stop id of the sample that went on longest."""
        stops = (sequence == self.stop_token) & answer if self.stop_token is not None else torch.zeros_like(answer)
        at = torch.arange(sequence.shape[1])
        ends = [int(at[row].min()) + 1 if row.any() else written for row in stops]
        return max(ends)


def run(model: LanguageModel, canvas: Canvas, settings: FastDllmV2Settings, random: Generators) -> Iterator[Step]:
    """Yield a step after every pass that decides tokens. The pass over the prompt's whole blocks, where it decides
    none, is counted with the first step."""
    settings.check(model)  # observers may have come since the plan
    size = settings.size
    board = BlockBoard(model, canvas, use_cache=settings.use_cache)
    if settings.use_block_cache:
        assert canvas.blocks is not None
        board.passes = SmallBlockPasses(model, canvas.blocks)
    first = min(canvas.prompt_lengths) // size * size
    extra = 0
    for start in range(first, canvas.length, size):
        if start:
            board.begin(start)
            seeds = board.places(board.inside(start, start + 1))
            if len(seeds.sample):
                yield _committed(board, seeds, board.seed(seeds), settings, random, extra)
                extra = 0
                _end(board, settings)
            else:
                board.store(start)
                extra += 1
        board.begin(min(start + size, canvas.length))
        for small in range(start, board.stop, settings.small_block_size):
            stop = min(small + settings.small_block_size, board.stop)
            inside = board.inside(small, stop)
            if isinstance(board.passes, SmallBlockPasses):
                board.passes.begin(small, stop)
            while len((where := board.places(inside)).sample):
                yield _committed(board, where, board.logits(where), settings, random, extra)
                extra = 0
                _end(board, settings)
        if not board.alive.any():
            break


def _committed(
    board: BlockBoard, where: Places, logits: Tensor, settings: FastDllmV2Settings, random: Generators, extra: int
) -> Step:
    """The step that commits the tokens above the threshold, and of each sample the most likely one."""
    token = gumbel_argmax(ban(logits, [board.mask_id]), where.sample, settings.temperature, random)
    share = torch.softmax(logits, dim=-1)
    confidence = share.gather(1, token.to(share.device)[:, None])[:, 0].cpu()
    keep = best(confidence, where.sample, torch.ones(len(board.ids), dtype=torch.long))
    return board.fill(where, token, confidence, keep | (confidence > settings.threshold), passes=1 + extra)


def _end(board: BlockBoard, settings: FastDllmV2Settings) -> None:
    """End the samples that have a stop id with no mask before it."""
    if board.canvas.target is not None or settings.stop_token is None:
        return
    answer = board.canvas.answer
    settled = ((board.ids == board.mask_id) & answer).long().cumsum(dim=1) == 0
    board.end(((board.ids == settings.stop_token) & answer & settled).any(dim=1))


_ABOUT = "shifted blocks by position, small block by small block, every token above a threshold (Fast-dLLM v2)"
SAMPLER = Sampler("fast_dllm_v2", "mdm", FastDllmV2Settings, run, _ABOUT, blocks=True)
