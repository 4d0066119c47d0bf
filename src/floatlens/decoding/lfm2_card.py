"""The loop of LFM2.5-Encoder's model card: each pass commits the single most likely token of all open places.

Ids beyond the tokenizer and special tokens other than EOS are never written. It does not stop at EOS.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

import torch
from pydantic import Field

from floatlens.decoding.board import Board
from floatlens.decoding.canvas import Canvas
from floatlens.decoding.draws import ban, best
from floatlens.decoding.registry import Generators, Sampler
from floatlens.decoding.settings import Settings
from floatlens.decoding.step import Step
from floatlens.models.base import LanguageModel

__all__ = ["SAMPLER", "Lfm2CardSettings", "run"]


class Lfm2CardSettings(Settings):
    """Settings of the sampler `lfm2_card`."""

    gen_length: int = Field(32, ge=0, description="how many masks to append to the prompt (0: only fill its own masks)")
    suppress_from: int | None = Field(
        None, ge=1, description="no id from this one on is written (default: the length of the tokenizer)"
    )
    suppress_tokens: tuple[int, ...] | None = Field(
        None, description="ids that are never written (default: the tokenizer's special tokens except EOS)"
    )

    def resolved(self, model: LanguageModel) -> Self:
        tokenizer = model.tokenizer
        found: dict[str, Any] = {}
        if tokenizer is not None and self.suppress_from is None:
            found["suppress_from"] = len(tokenizer)
        if tokenizer is not None and self.suppress_tokens is None:
            found["suppress_tokens"] = tuple(one for one in tokenizer.all_special_ids if one not in model.eos_ids)
        return self.model_copy(update=found)

    def max_steps(self, masks: int) -> int:
        return masks


def run(model: LanguageModel, canvas: Canvas, settings: Lfm2CardSettings, random: Generators) -> Iterator[Step]:
    """Yield a step after every pass; each sample gets one token in each."""
    board = Board(model, canvas)
    settings = settings.resolved(model)
    above = range(settings.suppress_from or model.vocab_size, model.vocab_size)
    never = [*{*above, *(settings.suppress_tokens or ()), board.mask_id}]
    while len((where := board.places()).sample):
        share = torch.softmax(ban(board.logits(where), never), dim=-1)
        confidence, token = (found.cpu() for found in share.max(dim=-1))
        yield board.fill(where, token, confidence, best(confidence, where.sample, torch.ones(len(canvas.ids)).long()))


_ABOUT = "the single most likely token of all places in every pass (LFM2.5-Encoder's model card)"
SAMPLER = Sampler("lfm2_card", "mdm", Lfm2CardSettings, run, _ABOUT)
