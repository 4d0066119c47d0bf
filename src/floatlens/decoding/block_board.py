"""The sequence while a block-diffusion sampler writes it, one block after another.

A pass reaches to the end of the block that is being written. What lies before that block does not change any more, so
its keys may come from a cache; every step is then still that of a full pass. While edits are active no cache is used:
an edited row may change from step to step, and a cache would keep it as it was.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from floatlens.decoding.board import Board, Places, probability_of
from floatlens.decoding.canvas import Canvas
from floatlens.decoding.step import Step
from floatlens.models.base import LanguageModel

__all__ = ["BlockBoard", "BlockPasses", "columns_of"]


class BlockPasses:
    """Passes over a sequence that is finished block by block. `blocks` (batch, length) are its block numbers.

    With `use_cache` what was stored is not computed again. Without, the same passes are made over the whole sequence.
    """

    def __init__(self, model: LanguageModel, blocks: Tensor, *, use_cache: bool = True, observed: bool = True) -> None:
        self.model = model
        self._blocks = blocks
        self._cache = model.new_cache() if use_cache and not model.full_passes else None
        self._observed = observed
        self._begun = False

    @property
    def cached(self) -> bool:
        """Whether what is stored is kept, so storing saves later passes work."""
        return self._cache is not None

    def store(self, ids: Tensor, real: Tensor, stop: int, wanted: Tensor | None = None) -> Tensor:
        """Finish the columns before `stop`. Logits of the `wanted` rows; with any the pass is a step of decoding."""
        step = wanted is not None
        if wanted is None:
            wanted = torch.zeros_like(ids, dtype=torch.bool)
        observed = self._observed and (step or self._cache is not None)
        return self._run(ids, real, stop, wanted, keep=True, step=step, observed=observed)

    def denoise(self, ids: Tensor, real: Tensor, stop: int, wanted: Tensor) -> Tensor:
        """A pass over the block that ends before `stop`: logits (rows, vocabulary) of the rows `wanted`."""
        return self._run(ids, real, stop, wanted, keep=False, step=True, observed=self._observed)

    def _run(
        self, ids: Tensor, real: Tensor, stop: int, wanted: Tensor, *, keep: bool, step: bool, observed: bool
    ) -> Tensor:
        held = 0 if self._cache is None else int(self._cache.get_seq_length())
        device, span = self.model.device, slice(held, stop)
        if held >= stop:  # nothing precedes the first block
            return torch.zeros(0, self.model.vocab_size, device=device)
        there, continues = real[:, :stop], self._begun
        self._begun |= observed
        return self.model.forward(
            ids[:, span].to(device),
            None if there.all() else there.to(device),
            logits_at=wanted[:, span].to(device),
            blocks=self._blocks[:, :stop].to(device),
            cache=self._cache,
            keep=keep,
            step=step,
            continues=continues,
            observed=observed,
        ).float()


class BlockBoard(Board):
    """A board whose blocks are written one after another: `begin` a block, `fill` it, `finish` it.

    `alive` (batch,) marks the samples that are still being written; `real` (batch, length) where there is a token. The
    mask of its passes are the block numbers of the canvas, or those given.
    """

    def __init__(
        self, model: LanguageModel, canvas: Canvas, blocks: Tensor | None = None, *, use_cache: bool = True
    ) -> None:
        blocks = canvas.blocks if blocks is None else blocks
        assert blocks is not None
        super().__init__(model, canvas)
        self.alive = torch.ones(len(self.ids), dtype=torch.bool)
        self.real = canvas.attention_mask.clone()
        self.stop = 0
        self.passes = BlockPasses(model, blocks, use_cache=use_cache)

    def open(self) -> Tensor:
        return super().open() & self.alive[:, None]

    def begin(self, stop: int) -> None:
        """Begin the block that ends before column `stop`."""
        self.stop = stop

    def end(self, samples: Tensor) -> None:
        """The samples (batch,) bool are complete: nothing after the current block exists in them."""
        self.alive &= ~samples
        self.real[samples, self.stop :] = False

    def inside(self, start: int, stop: int) -> Tensor:
        """(1, length) bool: the columns from `start` to `stop`."""
        return columns_of(self.canvas.length, start, stop)

    def store(self, stop: int) -> None:
        """The pass that finishes the columns before `stop`: from now on they are only read."""
        self.passes.store(self.ids, self.real, stop)

    def logits(self, where: Places, *, ids: Tensor | None = None, observed: bool = True) -> Tensor:
        """One pass over the block: (n, vocabulary) float32 logits that decide the n places `where` inside it."""
        assert ids is None
        assert observed
        logits = self.passes.denoise(self.ids, self.real, self.stop, self.wanted(where))
        return self._noted(where, logits)

    def seed(self, where: Places) -> Tensor:
        """The pass that finishes the block and decides the places `where` right after it: (n, vocabulary) logits."""
        logits = self.passes.store(self.ids, self.real, self.stop, self.wanted(where))
        return self._noted(where, logits)

    def fill(self, where: Places, token: Tensor, confidence: Tensor, keep: Tensor, *, passes: int = 1) -> Step:
        step = super().fill(where, token, confidence, keep, passes=passes)
        return replace(step, sequence=step.sequence[:, : self.stop])

    def wanted(self, where: Places) -> Tensor:
        """(batch, length) bool: the rows that decide these places."""
        wanted = torch.zeros(self.ids.shape, dtype=torch.bool)
        wanted[where.sample, self.canvas.rows[where]] = True
        return wanted

    def _noted(self, where: Places, logits: Tensor) -> Tensor:
        if self.canvas.target is not None:
            self._probability[where] = probability_of(logits, self.canvas.target[where])
        return logits


def columns_of(length: int, start: int, stop: int) -> Tensor:
    """(1, length) bool: True from column `start` to `stop`."""
    at = torch.arange(length)[None]
    return (at >= start) & (at < stop)
