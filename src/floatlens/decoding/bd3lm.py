"""Block diffusion as dllm samples it (BD3LM): blocks begin where the prompt ends; a schedule says how many tokens of a
block each pass commits, the most confident first. Decoding ends after a block that holds EOS.

A pad token takes no position and is not seen by later blocks, also where the model itself wrote it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar, Literal, Self

import torch
from pydantic import Field
from torch import Tensor

from floatlens.decoding.block_board import BlockBoard, BlockPasses
from floatlens.decoding.block_settings import MaxNewTokens, has_any
from floatlens.decoding.board import Places
from floatlens.decoding.canvas import Canvas
from floatlens.decoding.draws import ban, best, gumbel_argmax, uniform
from floatlens.decoding.registry import Generators, Sampler
from floatlens.decoding.settings import Align
from floatlens.decoding.step import Step
from floatlens.models.base import LanguageModel

__all__ = ["SAMPLER", "Bd3lmSettings", "run", "transfer_counts"]

Scheduler = Literal["linear", "cosine"]


class Bd3lmSettings(MaxNewTokens):
    """Settings of the sampler `bd3lm`."""

    align: ClassVar[Align | None] = "end"
    size_name: ClassVar[str] = "block_size"

    block_size: int | None = Field(None, ge=1, description="positions per block (default: the model's)")
    steps: int | None = Field(
        None, ge=1, description="forward passes for the whole answer, split over the blocks (default: one per token)"
    )
    steps_per_block: int | None = Field(None, ge=1, description="passes per block, instead of steps")
    scheduler: Scheduler = Field("linear", description="how the passes of a block share its tokens")
    remasking: Literal["low_confidence", "random"] = Field(
        "low_confidence", description="which tokens stay: those of the highest probability, or random ones"
    )
    cfg_scale: float = Field(
        0.0, ge=0, description="classifier-free guidance; above 0 every pass is made again without the prompt"
    )
    right_shift_logits: bool = Field(False, description="row i decides position i + 1; no cache is used then")
    eos_token_id: int | None = Field(None, ge=0, description="the id that ends decoding (default: the model's)")
    pad_token_id: int | None = Field(None, ge=0, description="the id that is never seen (default: the model's)")

    def resolved(self, model: LanguageModel) -> Self:
        """These settings with the model's block size, EOS and padding where none were given."""
        given = super().resolved(model)
        eos = model.eos_ids[0] if given.eos_token_id is None and model.eos_ids else given.eos_token_id
        pad = model.pad_id if given.pad_token_id is None else given.pad_token_id
        return given.model_copy(update={"eos_token_id": eos, "pad_token_id": pad})

    def ends(self, model: LanguageModel, known: tuple[int, ...]) -> tuple[int, ...]:
        return known if self.eos_token_id in (None, *known) else (*known, int(self.eos_token_id or 0))

    def columns(self, sequence: Tensor, answer: Tensor, written: int) -> int:
        return written

    def counts(self, block: int) -> list[int]:
        """How many tokens each pass over a block of that many positions commits."""
        blocks = -(-self.gen_length // self.size)
        steps = self.steps_per_block or (block if self.steps is None else -(-self.steps // blocks))
        return transfer_counts(block, steps, self.scheduler)

    def max_steps(self, masks: int) -> int:
        whole, rest = divmod(masks, self.size)
        return whole * len(self.counts(self.size)) + (len(self.counts(rest)) if rest else 0)


def transfer_counts(masks: int, steps: int, scheduler: Scheduler) -> list[int]:
    """Tokens per pass, from a schedule of times 1 … 0; passes that would commit nothing are left out.

    Of the n masks left at time t, n · (1 − (1 − α(s)) / (1 − α(t))) are filled on the way to time s, rounded half to
    even; the ratio is taken in float32, as published, and it decides some of the roundings.
    """
    times = torch.arange(steps, -1, -1, dtype=torch.float64).div(steps).float()
    left = 1 - (1 - times if scheduler == "linear" else 1 - torch.cos(torch.pi / 2 * (1 - times)))
    share = (1 - left[1:] / left[:-1]).double().tolist()
    counts = []
    for part in share:
        count = min(round(masks * part), masks)
        masks -= count
        counts += [count] if count else []
    return counts


def run(model: LanguageModel, canvas: Canvas, settings: Bd3lmSettings, random: Generators) -> Iterator[Step]:
    """Yield a step after every pass over a block. Each block begins with a pass over what was written before it, which
    is counted with the first step."""
    start = canvas.length - int(canvas.answer.sum(dim=1).max())
    if settings.right_shift_logits and not model.shift:
        canvas = replace(canvas, rows=torch.where(canvas.rows >= 0, (canvas.rows - 1).clamp(min=0), -1))
    # shifted, the row before a block decides its first token, so no pass can leave it out
    use_cache = settings.use_cache and not (settings.right_shift_logits or model.shift)
    board = BlockBoard(model, canvas, use_cache=use_cache)
    guide = _Guide(board, settings, use_cache) if settings.cfg_scale else None
    calls = 2 if settings.cfg_scale else 1
    for first in range(start, canvas.length, settings.size):
        stop = min(first + settings.size, canvas.length)
        _hide_padding(board, first, settings.pad_token_id)
        board.store(first)
        if guide is not None:
            guide.store(first)
        board.begin(stop)
        for turn, count in enumerate(settings.counts(stop - first)):
            where = board.places(board.inside(first, stop))
            logits = board.logits(where)
            if guide is not None:
                logits = guide.contrast(where, logits)
            token = gumbel_argmax(ban(logits, [board.mask_id]), where.sample, settings.temperature, random)
            share = torch.softmax(logits, dim=-1)
            confidence = share.gather(1, token.to(share.device)[:, None])[:, 0].cpu()
            score = confidence if settings.remasking == "low_confidence" else uniform(where.sample, random)
            keep = best(score, where.sample, torch.full((len(board.ids),), count))
            yield board.fill(where, token, confidence, keep, passes=calls * (1 + (turn == 0)))
        if canvas.target is None and settings.eos_token_id is not None:
            board.end(has_any(board.ids, (settings.eos_token_id,), board.inside(first, stop)))
        if not board.alive.any():
            break


def _hide_padding(board: BlockBoard, stop: int, pad: int | None) -> None:
    """From now on nobody sees pad tokens before column `stop`."""
    if pad is not None:
        board.real[:, :stop] &= board.ids[:, :stop] != pad


class _Guide:
    """The passes without the prompt: its tokens are masked, what was written stays."""

    def __init__(self, board: BlockBoard, settings: Bd3lmSettings, use_cache: bool) -> None:
        assert board.canvas.blocks is not None
        self._board = board
        self._scale = settings.cfg_scale
        self._prompt = board.canvas.attention_mask & ~board.canvas.answer
        if settings.pad_token_id is not None:
            self._prompt &= board.ids != settings.pad_token_id
        self._passes = BlockPasses(board.model, board.canvas.blocks, use_cache=use_cache, observed=False)

    @property
    def _ids(self) -> Tensor:
        return self._board.ids.masked_fill(self._prompt, self._board.mask_id)

    def store(self, stop: int) -> None:
        self._passes.store(self._ids, self._board.real, stop)

    def contrast(self, where: Places, logits: Tensor) -> Tensor:
        board = self._board
        without = self._passes.denoise(self._ids, board.real, board.stop, board.wanted(where))
        return without + (self._scale + 1) * (logits - without)


_ABOUT = "blocks after the prompt, a schedule of tokens per pass, most confident first, until EOS (BD3LM)"
SAMPLER = Sampler("bd3lm", "mdm", Bd3lmSettings, run, _ABOUT, blocks=True)
