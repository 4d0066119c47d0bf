"""The position of a pass in its decoding run: its step, and the step in which each of its rows was first computed.

A run is one decoding of one batch. Models do not announce it, so a pass continues a run if it follows from the previous
pass. Only edits need this.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from floatlens.models.base import LanguageModel, Pass

__all__ = ["DecodingRun", "PassPosition", "RunTracker"]

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class DecodingRun:
    """One decoding, compared by identity. `fingerprints` has a number per sample that depends on its prompt alone."""

    fingerprints: tuple[int, ...]
    written: Bools | None = None
    """(batch, key), of a diffusion model: the masks of its first pass, which is where the answer is written. What later
    passes append is written too."""


@dataclass(frozen=True, eq=False)
class PassPosition:
    """One pass of a run. `ids` and `real` are (batch, key); the ids of keys cached before the run are -1."""

    run: DecodingRun
    step: int
    first_step: Ints
    """(query,): the step that first computed each row. A row is always edited as in that step."""
    ids: Ints
    real: Bools
    cached: bool

    @cached_property
    def first(self) -> Ints:
        """(batch,): column of each sample's first real token."""
        return np.asarray(self.real.argmax(1))


class RunTracker:
    """Assigns the passes of one model to decoding runs."""

    def __init__(self, model: LanguageModel) -> None:
        self._causal = model.kind == "arm"
        self._mask_id = model.mask_id
        self._last: PassPosition | None = None

    def restart(self) -> None:
        """The next pass begins a new run."""
        self._last = None

    def follow(self, info: Pass) -> PassPosition:
        """The position of the pass that is about to run.

        An autoregressive pass continues a run if its cache holds that run's keys, or, without a cache, if it repeats
        the sequence with one more column. A diffusion pass continues it if no token was changed (masks may be filled;
        under a mask of blocks another block may follow). Samplers that replace tokens say so themselves.
        """
        ids = info.ids.cpu().numpy().astype(np.int64)
        keys = info.offset + ids.shape[1]
        real = np.ones((len(ids), keys), dtype=bool)
        if info.attention_mask is not None:
            real = info.attention_mask.cpu().numpy().astype(bool)[:, :keys]
        before = self._last if self._last is not None and self._last.real.shape[0] == len(ids) else None
        grows = info.visible is not None and info.visible.together is None
        continues = before is not None and (
            self._continues(before, ids, real, info.offset, grows) if info.continues is None else info.continues
        )
        if info.offset:
            known = before.ids if continues and before is not None else np.full((len(ids), info.offset), -1)
            ids = np.concatenate([known, ids], axis=1)
        self._last = self._next(before if continues else None, ids, real, info.offset)
        return self._last

    def _continues(self, before: PassPosition, ids: Ints, real: Bools, offset: int, grows: bool) -> bool:
        held = before.ids.shape[1]
        if offset:
            return bool(offset == held)
        if not self._causal:
            grown = grows and ids.shape[1] > held
            if not (grown or (ids.shape == before.ids.shape and np.array_equal(real, before.real))):
                return False
            committed = before.real & (before.ids != self._mask_id)
            return bool((ids[:, :held] == before.ids)[committed].all())
        if before.cached or ids.shape[1] != held + 1:
            return False
        return np.array_equal(ids[:, :held], before.ids) and np.array_equal(real[:, :held], before.real)

    def _next(self, before: PassPosition | None, ids: Ints, real: Bools, offset: int) -> PassPosition:
        queries = ids.shape[1] - offset
        if before is None:
            marks = tuple(zlib.crc32(row[there].tobytes()) for row, there in zip(ids, real, strict=True))
            run = DecodingRun(marks, None if self._causal else real & (ids == self._mask_id))
            return PassPosition(run, 0, np.zeros(queries, dtype=np.int64), ids, real, bool(offset))
        step = before.step + 1
        first_step = np.full(queries, step, dtype=np.int64)
        if self._causal and not offset:  # without a cache the rows of earlier steps are computed again
            first_step[: len(before.first_step)] = before.first_step
        return PassPosition(before.run, step, first_step, ids, real, bool(offset))
