"""LLaDA2.1's sampler: as LLaDA2.0's, and in the same passes tokens that were placed in the block are replaced where the
model is sure of another one. A block ends with a pass that finds no mask and changes nothing.

A position may therefore be written in several steps; what counts is the last.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from pydantic import Field
from torch import Tensor

from floatlens.decoding.block_board import BlockBoard
from floatlens.decoding.board import Places
from floatlens.decoding.canvas import Canvas
from floatlens.decoding.llada2 import PositionBlocks, confident, read, settled_end, start_blocks
from floatlens.decoding.registry import Generators, Sampler
from floatlens.decoding.step import Step
from floatlens.models.base import LanguageModel

__all__ = ["SAMPLER", "Llada21Settings", "run"]


class Llada21Settings(PositionBlocks):
    """Settings of the sampler `llada21`."""

    editing_threshold: float = Field(
        0.9, ge=0, le=1, description="replace a placed token where another one has more than this probability"
    )
    max_post_steps: int = Field(16, ge=0, description="passes over a block after its last mask was filled")
    num_to_transfer: int = Field(1, ge=1, description="masks that a pass fills at least")

    def max_steps(self, masks: int) -> int:
        return masks + (masks // self.size + 1) * self.max_post_steps


def run(model: LanguageModel, canvas: Canvas, settings: Llada21Settings, random: Generators) -> Iterator[Step]:
    """Yield a step after every pass over a block. Where a text is forced nothing is replaced."""
    board, first = start_blocks(model, canvas, settings)
    forced = canvas.target is not None
    for start in range(first, canvas.length, settings.size):
        board.begin(start + settings.size)
        inside, after = board.inside(start, board.stop), torch.zeros(len(canvas.ids), dtype=torch.long)
        busy = board.alive.clone()
        while True:
            masks = board.open() & inside
            full = ~masks.any(dim=1)
            after += full & busy
            busy &= board.alive & ~(full & ((after > settings.max_post_steps) | forced))
            if not busy.any():
                break
            where = Places(*(canvas.answer & inside & busy[:, None]).nonzero(as_tuple=True))
            token, confidence = read(board.logits(where), where.sample, board.mask_id, settings, random)
            keep = _changes(board, where, token, confidence, settings)
            yield board.fill(where, token, confidence, keep)
            edited = torch.zeros_like(busy)
            edited[where.sample[keep]] = True
            busy &= ~full | edited
        if settings.eos_early_stop:
            board.end(settled_end(board, settings.eos_id))
        if not board.alive.any():
            break
        if board.passes.cached and board.stop < canvas.length:
            board.store(board.stop)


def _changes(board: BlockBoard, where: Places, token: Tensor, confidence: Tensor, settings: Llada21Settings) -> Tensor:
    """(n,) bool: the masks that are filled and the placed tokens that are replaced."""
    current = board.ids[where]
    masked = current == board.mask_id
    keep = torch.zeros_like(masked)
    keep[masked] = confident(confidence[masked], where.sample[masked], settings.threshold, settings.num_to_transfer)
    if board.canvas.target is not None:
        return keep
    return keep | (~masked & (confidence > settings.editing_threshold) & (token != current))


_ABOUT = "as llada2, and placed tokens of a block are replaced where the model is sure of others (LLaDA2.1)"
SAMPLER = Sampler("llada21", "mdm", Llada21Settings, run, _ABOUT, blocks=True)
