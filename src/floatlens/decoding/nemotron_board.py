"""The sequence while Nemotron's samplers write it: a causal context, and a block that sees the context and itself.

The context is computed by causal passes, the last of which also decides the next token (the seed of a block). Its keys
may come from a cache. Settings that these samplers share are here too.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Self

import torch
from pydantic import Field
from torch import Tensor

from floatlens.core.errors import FloatlensError
from floatlens.decoding.block_settings import MaxNewTokens
from floatlens.decoding.board import Board, Places, probability_of
from floatlens.decoding.canvas import Canvas
from floatlens.decoding.draws import ban, gumbel_argmax
from floatlens.decoding.registry import Generators
from floatlens.decoding.settings import Align
from floatlens.decoding.step import Step
from floatlens.models.base import LanguageModel

__all__ = ["FAMILIES", "NemotronBoard", "NemotronSettings", "settled_eos"]

FAMILIES = ("nemotron-diffusion",)
"""Mixed causal and bidirectional passes are for models that were trained on both."""


class NemotronSettings(MaxNewTokens):
    """Settings that the samplers of the diffusion mode share."""

    align: ClassVar[Align | None] = "end"
    size_name: ClassVar[str] = "block_length"

    block_length: int | None = Field(None, ge=2, description="positions per block (default: the model's)")
    threshold: float | None = Field(
        None,
        ge=0,
        le=1,
        description="commit every token of at least this probability, and always the most likely one (default: one "
        "token per pass)",
    )
    eos_token_id: int | None = Field(None, ge=0, description="the id that ends an answer (default: the model's EOS)")

    def resolved(self, model: LanguageModel) -> Self:
        """These settings with the model's block size and EOS where none were given."""
        given = super().resolved(model)
        eos = model.eos_ids[0] if given.eos_token_id is None and model.eos_ids else given.eos_token_id
        return given.model_copy(update={"eos_token_id": eos})

    def masks(self, prompt: int) -> int:
        if not prompt:
            raise FloatlensError("a causal context cannot be empty; give at least the BOS token as a prompt")
        return self.gen_length

    def number_blocks(self, length: int, first: int) -> Tensor:
        """Causal: a block of its own for each column. Passes over what is being written bring their own numbers."""
        return torch.arange(length)

    def ends(self, model: LanguageModel, known: tuple[int, ...]) -> tuple[int, ...]:
        return known if self.eos_token_id is None else tuple(dict.fromkeys((*known, self.eos_token_id)))

    def columns(self, sequence: Tensor, answer: Tensor, written: int) -> int:
        """Up to the first EOS of the sample that went on longest."""
        found = []
        for ids, where in zip(sequence, answer, strict=True):
            own = where.nonzero().flatten()
            ends = (ids[own] == self.eos_token_id).nonzero().flatten() if self.eos_token_id is not None else own[:0]
            found.append(int(own[ends[0]]) + 1 if len(ends) else written)
        return max(found)


class NemotronBoard(Board):
    """A board of blocks after a causal context. `alive` (batch,) are the samples that are still being written.

    With `causal` False the context is bidirectional: each pass over it sees the columns before its end.
    """

    def __init__(self, model: LanguageModel, canvas: Canvas, *, use_cache: bool, causal: bool = True) -> None:
        super().__init__(model, canvas)
        self.alive = torch.ones(len(self.ids), dtype=torch.bool)
        self.start = canvas.length - int(canvas.answer.sum(dim=1).max())
        self._causal = causal
        self._cache: Any = model.new_cache(own_blocks=True) if use_cache and not model.full_passes else None
        self._finished, self._begun = 0, False
        self._numbers = torch.arange(canvas.length)  # block numbers of what is finished

    def open(self) -> Tensor:
        return super().open() & self.alive[:, None]

    def context(self, stop: int, *, seeds: bool, observed: bool = True) -> Tensor:
        """The pass that finishes the columns before `stop`. With `seeds` it is a step, and its last row's logits (alive
        samples, vocabulary) decide column `stop`."""
        if not self._causal:
            self._numbers[self._finished : stop] = self._finished
        self._finished = stop
        wanted = torch.zeros(self.ids.shape, dtype=torch.bool)
        if seeds:
            wanted[self.alive, stop - 1] = True
        observed = observed and (seeds or self._cache is not None)
        return self._run(stop, self._numbers[:stop], wanted, keep=True, step=seeds, observed=observed)

    def block(self, start: int, stop: int, where: Places) -> Tensor:
        """A pass over the block, which sees all of itself: logits (n, vocabulary) of its places `where`."""
        numbers = self._numbers[:stop].clone()
        numbers[start:] = start
        wanted = torch.zeros(self.ids.shape, dtype=torch.bool)
        wanted[where] = True
        logits = self._run(stop, numbers, wanted, keep=False, step=True, observed=True)
        return self.noted(where, logits)

    def causal_rows(self, stop: int, wanted: Tensor) -> Tensor:
        """A causal pass to column `stop` whose keys are kept: logits of the rows `wanted` (batch, length)."""
        return self._run(stop, self._numbers[:stop], wanted, keep=True, step=True, observed=True)

    def crop(self, stop: int) -> None:
        """Forget cached keys from column `stop` on."""
        if self._cache is not None and stop < self._held:
            self._cache.crop(stop - self._held)

    def read(self, logits: Tensor, sample: Tensor, temperature: float, random: Generators) -> tuple[Tensor, Tensor]:
        """(n,) token, never the mask, and (n,) its probability."""
        token = gumbel_argmax(ban(logits, [self.mask_id]), sample, temperature, random)
        share = torch.softmax(logits, dim=-1)
        return token, share.gather(1, token.to(share.device)[:, None])[:, 0].cpu()

    def write(self, where: Places, token: Tensor, confidence: Tensor, keep: Tensor, stop: int, passes: int = 1) -> Step:
        """Fill places of the block, and give the step with the sequence as the pass saw it, up to column `stop`."""
        step = super().fill(where, token, confidence, keep, passes=passes)
        return replace(step, sequence=step.sequence[:, :stop])

    def noted(self, where: Places, logits: Tensor) -> Tensor:
        """The logits; where a text is forced, the probability of its tokens is recorded."""
        if self.canvas.target is not None:
            self._probability[where] = probability_of(logits, self.canvas.target[where])
        return logits

    def column(self, at: int) -> Places:
        """Column `at` of the samples that are still being written."""
        sample = self.alive.nonzero().flatten()
        return Places(sample, torch.full_like(sample, at))

    @property
    def _held(self) -> int:
        return 0 if self._cache is None else int(self._cache.get_seq_length())

    def _run(self, stop: int, numbers: Tensor, wanted: Tensor, *, keep: bool, step: bool, observed: bool) -> Tensor:
        continues, self._begun = self._begun, self._begun or observed
        device, real, held = self.model.device, self.canvas.attention_mask[:, :stop], self._held
        return self.model.forward(
            self.ids[:, held:stop].to(device),
            None if real.all() else real.to(device),
            logits_at=wanted[:, held:stop].to(device),
            blocks=numbers.expand(len(self.ids), -1).to(device),
            cache=self._cache,
            keep=keep,
            step=step,
            continues=continues,
            observed=observed,
        ).float()


def settled_eos(board: NemotronBoard, eos: int | None) -> Tensor:
    """(batch,) bool: whether a sample has EOS with no mask before it. A forced text has no end."""
    answer = board.canvas.answer
    if eos is None or board.canvas.target is not None:
        return torch.zeros(len(answer), dtype=torch.bool)
    settled = ((board.ids == board.mask_id) & answer).long().cumsum(dim=1) == 0
    found: Tensor = ((board.ids == eos) & answer & settled).any(dim=1)
    return found
