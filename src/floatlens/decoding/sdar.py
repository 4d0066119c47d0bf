"""SDAR's sampler: blocks by absolute position, so the first one may begin with the end of the prompt; within a block
each pass commits a quota of tokens, or more where the model is sure. Decoding ends after a block with a stop id.

The answer is filled up to whole blocks. Confidence is the probability of a token before any filter, as in the published
evaluation; `confidence="filtered"` is that of the published script, which is 1 for every token at temperature 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal, Self

import torch
from pydantic import Field
from torch import Tensor

from floatlens.decoding.block_board import BlockBoard
from floatlens.decoding.block_settings import BlockDiffusionSettings, has_any, quota
from floatlens.decoding.canvas import Canvas
from floatlens.decoding.draws import ban, best, categorical, nucleus, uniform
from floatlens.decoding.registry import Generators, Sampler
from floatlens.decoding.settings import Align
from floatlens.decoding.step import Step
from floatlens.models.base import LanguageModel

__all__ = ["SAMPLER", "SdarSettings", "run"]


class SdarSettings(BlockDiffusionSettings):
    """Settings of the sampler `sdar`."""

    align: ClassVar[Align | None] = "start"
    size_name: ClassVar[str] = "block_length"

    block_length: int | None = Field(None, ge=1, description="positions per block (default: the model's)")
    denoising_steps: int | None = Field(
        None, ge=1, description="passes over a block, which share its positions evenly (default: block_length)"
    )
    temperature: float = Field(0.0, ge=0, description="0 takes the most likely token, above 0 samples")
    top_k: int | None = Field(None, ge=1, description="sample from this many of the most likely tokens")
    top_p: float | None = Field(
        None, gt=0, le=1, description="sample from the most likely tokens of this total probability"
    )
    remasking: Literal["low_confidence_static", "low_confidence_dynamic", "sequential", "entropy_bounded"] = Field(
        "low_confidence_dynamic",
        description="which tokens a pass commits: the quota of the most confident ones (static); all above the "
        "threshold if these are at least the quota (dynamic); the quota from the left (sequential); those of the "
        "lowest entropy while the sum of entropies stays below its threshold (entropy_bounded)",
    )
    confidence_threshold: float = Field(0.85, ge=0, le=1, description="of low_confidence_dynamic")
    eb_threshold: float = Field(0.35, ge=0, description="of entropy_bounded, in nats")
    confidence: Literal["unfiltered", "filtered"] = Field(
        "unfiltered", description="probability before or after temperature, top_k and top_p"
    )
    stop_token_ids: tuple[int, ...] | None = Field(None, description="ids that end decoding (default: the model's EOS)")

    def resolved(self, model: LanguageModel) -> Self:
        """These settings with the model's block size and EOS where none were given."""
        given = super().resolved(model)
        stops = model.eos_ids if given.stop_token_ids is None else given.stop_token_ids
        steps = given.size if given.denoising_steps is None else given.denoising_steps
        return given.model_copy(update={"stop_token_ids": stops, "denoising_steps": steps})

    def masks(self, prompt: int) -> int:
        return -(-(prompt + self.gen_length) // self.size) * self.size - prompt

    def most_written(self) -> int:
        return self.gen_length + self.size - 1

    def ends(self, model: LanguageModel, known: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(dict.fromkeys((*known, *(self.stop_token_ids or ()))))


def run(model: LanguageModel, canvas: Canvas, settings: SdarSettings, random: Generators) -> Iterator[Step]:
    """Yield a step after every pass over a block. The pass over the finished blocks of the prompt is counted with the
    first step; the one that stores a block with the last step of the block."""
    size = settings.size
    board = BlockBoard(model, canvas, use_cache=settings.use_cache)
    first = min(canvas.prompt_lengths) // size * size
    board.store(first)
    extra = int(first > 0)
    for start in range(first, canvas.length, size):
        board.begin(min(start + size, canvas.length))
        inside, turn = board.inside(start, board.stop), 0
        while len((where := board.places(inside)).sample):
            logits = board.logits(where)
            token, confidence = _read(ban(logits, [board.mask_id]), logits, where.sample, settings, random)
            count = quota(size, settings.denoising_steps or size, turn)
            keep = _chosen(logits, where.sample, confidence, max(count, 1), settings)
            yield board.fill(where, token, confidence, keep, passes=1 + extra + bool(keep.all()))
            extra, turn = 0, turn + 1
        board.store(board.stop)
        if canvas.target is None and settings.stop_token_ids:
            board.end(has_any(board.ids, settings.stop_token_ids, canvas.answer))
        if not board.alive.any():
            break


def _read(
    logits: Tensor, plain: Tensor, sample: Tensor, settings: SdarSettings, random: Generators
) -> tuple[Tensor, Tensor]:
    """(n,) token and (n,) confidence."""
    if settings.temperature == 0:
        token = logits.argmax(dim=-1).cpu()
        if settings.confidence == "filtered":  # the most likely token is all that is left
            return token, torch.ones(len(token))
    else:
        logits = nucleus(nucleus(logits / settings.temperature, None, settings.top_k), settings.top_p)
        token = categorical(logits, uniform(sample, random))
    share = torch.softmax(logits if settings.confidence == "filtered" else plain, dim=-1)
    return token, share.gather(1, token.to(share.device)[:, None])[:, 0].cpu()


def _chosen(logits: Tensor, sample: Tensor, confidence: Tensor, count: int, settings: SdarSettings) -> Tensor:
    """(n,) bool: the tokens that the pass commits, of the open places of a block in order of (sample, position)."""
    batch = int(sample.max()) + 1
    counts = torch.full((batch,), count)
    if settings.remasking == "sequential":
        return best(torch.zeros(len(sample)), sample, counts)  # of equals the first
    if settings.remasking == "entropy_bounded":
        share = torch.softmax(logits, dim=-1).clamp(min=1e-12)
        entropy = -(share * share.log()).sum(dim=-1).cpu()
        for number in range(batch):
            own = entropy[sample == number].sort().values.cumsum(dim=0)
            counts[number] = max(int((own < settings.eb_threshold).sum()), 1)
        return best(-entropy, sample, counts)
    keep = best(confidence, sample, counts)
    if settings.remasking == "low_confidence_dynamic":
        sure = confidence > settings.confidence_threshold
        for number in range(batch):
            own = sample == number
            if int((sure & own).sum()) >= count:
                keep = torch.where(own, sure, keep)
    return keep


_ABOUT = "blocks by position, a quota of tokens per pass or all above a threshold, until a stop id (SDAR)"
SAMPLER = Sampler("sdar", "mdm", SdarSettings, run, _ABOUT, blocks=True)
