"""Dream's sampler: no blocks; each pass unmasks a share of the remaining masks, on a schedule of times from 1 to eps.

Defaults are those of Dream's README (temperature 0, no top_p, no top_k), not the legacy defaults in its code. It works
for shifted and unshifted models, and it does not stop at EOS.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor

from floatlens.decoding.board import Board
from floatlens.decoding.canvas import Canvas
from floatlens.decoding.draws import ban, best, categorical, gumbel, nucleus, uniform
from floatlens.decoding.registry import Generators, Sampler
from floatlens.decoding.settings import Settings
from floatlens.decoding.step import Step
from floatlens.models.base import LanguageModel

__all__ = ["SAMPLER", "DreamSettings", "run"]


class DreamSettings(Settings):
    """Settings of the sampler `dream`."""

    gen_length: int = Field(32, ge=0, description="how many masks to append to the prompt (0: only fill its own masks)")
    steps: int = Field(
        default_factory=lambda data: data.get("gen_length", 1),
        ge=1,
        description="forward passes for the whole answer (default: gen_length)",
    )
    alg: Literal["origin", "maskgit_plus", "topk_margin", "entropy"] = Field(
        "entropy",
        description="which masks are filled first: random ones (origin), or those of the highest probability "
        "(maskgit_plus), of the largest lead over the second token (topk_margin), or of the lowest entropy",
    )
    alg_temp: float = Field(0.0, ge=0, description="temperature of that order; 0 makes it strict (no effect on origin)")
    temperature: float = Field(0.0, ge=0, description="temperature of the tokens; 0 takes the most likely one")
    top_p: float | None = Field(
        None, gt=0, le=1, description="sample from the most likely tokens of this total probability"
    )
    top_k: int | None = Field(None, ge=1, description="sample from this many of the most likely tokens")
    eps: float = Field(1e-3, gt=0, lt=1, description="the time at which the schedule ends")

    @model_validator(mode="after")
    def _some_steps(self) -> DreamSettings:
        if self.steps < 1:
            raise ValueError("gen_length=0 leaves the number of passes open; set steps")
        return self

    def max_steps(self, masks: int) -> int:
        return self.steps


def run(model: LanguageModel, canvas: Canvas, settings: DreamSettings, random: Generators) -> Iterator[Step]:
    """Yield a step after every pass; a pass commits nothing where the schedule rounds down to 0 tokens.

    The number of masks to fill is computed for each sample. The published code takes the mean over the batch, so a
    sample's text depends on the other samples; here a sample gets the same text alone and in a batch.
    """
    board = Board(model, canvas)
    time = torch.linspace(1, settings.eps, settings.steps + 1)
    for turn in range(settings.steps):
        where = board.places()
        if not len(where.sample):
            break
        last = turn == settings.steps - 1
        fraction = torch.ones(()) if last else 1 - time[turn + 1] / time[turn]
        token, confidence = _read(board.logits(where), where.sample, board.mask_id, settings, random)
        if settings.alg == "origin":
            keep = uniform(where.sample, random) < fraction
        else:
            # float32 throughout: the published rounding depends on the last bit
            count = (board.open().sum(dim=1).float() * fraction).long()
            keep = best(_order(confidence, where.sample, settings.alg_temp, random), where.sample, count)
        yield board.fill(where, token, confidence, keep)


def _read(
    logits: Tensor, sample: Tensor, mask_id: int, settings: DreamSettings, random: Generators
) -> tuple[Tensor, Tensor]:
    """(n,) token, and (n,) confidence in it by the measure that `alg` names."""
    if settings.temperature > 0:
        logits = logits / settings.temperature
    writable = ban(logits, [mask_id])
    if settings.temperature > 0:
        token = categorical(nucleus(writable, settings.top_p, settings.top_k), uniform(sample, random))
    else:
        token = writable.argmax(dim=-1).cpu()
    share = torch.softmax(nucleus(logits, settings.top_p, settings.top_k), dim=-1)
    if settings.alg == "topk_margin":
        two = share.topk(2, dim=-1).values
        return token, (two[:, 0] - two[:, 1]).cpu()
    if settings.alg == "entropy":
        return token, (share * torch.log(share + 1e-10)).sum(dim=-1).cpu()
    return token, share.gather(1, token.to(share.device)[:, None])[:, 0].cpu()


def _order(confidence: Tensor, sample: Tensor, alg_temp: float, random: Generators) -> Tensor:
    """Scores whose highest come first. With `alg_temp` they draw from softmax(confidence / alg_temp), none twice."""
    if alg_temp == 0:
        return confidence
    return confidence.double() / alg_temp + gumbel(uniform(sample, random))


SAMPLER = Sampler(
    "dream", "mdm", DreamSettings, run, "the whole answer at once, a scheduled share of the masks per pass (Dream)"
)
