"""Nemotron's self-speculation: a bidirectional pass drafts a block, a causal pass verifies it. What both agree on is
written, and one token more, so the text is that of the autoregressive mode.

One prompt at a time. While attention is recorded no cache is used, since drafts that were refused would stay in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from floatlens.decoding.board import Places
from floatlens.decoding.canvas import Canvas
from floatlens.decoding.draws import best
from floatlens.decoding.nemotron_board import FAMILIES, NemotronBoard, NemotronSettings, settled_eos
from floatlens.decoding.registry import Generators, Sampler
from floatlens.decoding.step import Step
from floatlens.models.base import LanguageModel

__all__ = ["SAMPLER", "NemotronLinearSpecSettings", "run"]


class NemotronLinearSpecSettings(NemotronSettings):
    """Settings of the sampler `nemotron_linear_spec`."""

    def masks(self, prompt: int) -> int:
        """The last block may reach past `gen_length`."""
        return super().masks(prompt) + self.size - 1

    def seeds(self, offset: int) -> bool:
        return True

    def most_written(self) -> int:
        return self.gen_length + self.size - 1

    def check_masks(self, masks: Sequence[int]) -> None:
        if len(masks) > 1:
            raise ValueError(f"it takes one prompt at a time, and was given {len(masks)}")

    def max_steps(self, masks: int) -> int:
        return masks * (self.size + 1)


def run(
    model: LanguageModel, canvas: Canvas, settings: NemotronLinearSpecSettings, random: Generators
) -> Iterator[Step]:
    """Yield a step after every pass; those of the draft write nothing."""
    board = NemotronBoard(model, canvas, use_cache=settings.use_cache and not model.observers)
    at = board.start
    yield _verified(board, at - 1, at, board.context(at, seeds=True), settings, random)
    while at + 1 - board.start < settings.gen_length and not settled_eos(board, settings.eos_token_id).any():
        stop = min(at + settings.size, canvas.length)
        yield from _draft(board, at, stop, settings, random)
        wanted = torch.zeros(board.ids.shape, dtype=torch.bool)
        wanted[:, at:stop] = True
        step = _verified(board, at, stop, board.causal_rows(stop, wanted), settings, random)
        at = int(step.position.max())
        board.crop(at)
        yield step


def _verified(
    board: NemotronBoard, at: int, stop: int, logits: Tensor, settings: NemotronLinearSpecSettings, random: Generators
) -> Step:
    """The step of a causal pass whose rows `at` to `stop` decide the columns after them: as many as agree with the
    draft, and one more. The rest of the draft is masked again."""
    columns = torch.arange(at + 1, min(stop + 1, board.canvas.length))
    where = Places(torch.zeros_like(columns), columns)
    logits = board.noted(where, logits[: len(columns)])
    token, confidence = board.read(logits, where.sample, settings.temperature, random)
    agree = token[:-1] == board.ids[0, columns[:-1]]
    accepted = int(agree.long().cumprod(dim=0).sum()) + 1
    step = board.write(where, token, confidence, torch.arange(len(columns)) < accepted, stop)
    board.ids[0, at + 1 + accepted : stop] = board.mask_id
    return step


def _draft(
    board: NemotronBoard, at: int, stop: int, settings: NemotronLinearSpecSettings, random: Generators
) -> Iterator[Step]:
    """Fill the block after the token at column `at`, in one pass or in several; these steps commit nothing."""
    while len((where := Places(*_open(board, at, stop))).sample):
        before = board.ids.clone()
        token, confidence = board.read(board.block(at, stop, where), where.sample, settings.temperature, random)
        keep = torch.ones_like(token, dtype=torch.bool)
        if settings.threshold:
            keep = best(confidence, where.sample, torch.ones(1, dtype=torch.long)) | (confidence >= settings.threshold)
        board.ids[where.sample[keep], where.position[keep]] = token[keep]
        yield replace(board.write(where, token, confidence, torch.zeros_like(keep), stop), sequence=before[:, :stop])


def _open(board: NemotronBoard, at: int, stop: int) -> tuple[Tensor, ...]:
    masks = board.open()
    masks[:, :at] = False
    masks[:, stop:] = False
    return masks.nonzero(as_tuple=True)


_ABOUT = "a bidirectional draft verified by a causal pass, so the text of mode ar in fewer passes (Nemotron)"
SAMPLER = Sampler("nemotron_linear_spec", "mdm", NemotronLinearSpecSettings, run, _ABOUT, families=FAMILIES)
