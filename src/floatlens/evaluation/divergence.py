"""What an edit does to the first answer token: the KL divergence of its distribution from the unedited one.

Compared is the first step that the edit can reach: step 0, or step 1 for edits that look at the previous step. Up to
there both runs have the same tokens, since nothing was changed earlier.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

if TYPE_CHECKING:
    from floatlens.models import LanguageModel

__all__ = ["Tap", "divergence", "tapped", "unedited"]

_MOST_BYTES = 256 << 20
"""Of the logits that are kept for each model."""


class Tap:
    """The logits of one pass: of every sample, at the first place that is still to be written."""

    def __init__(self, step: int) -> None:
        self._step, self._passes = step, 0
        self.first: list[Tensor | None] = []

    def see(self, logits: Tensor, wanted: Tensor) -> None:
        if self._passes == self._step:
            counts = wanted.sum(dim=1).tolist()
            starts = torch.tensor([0, *counts]).cumsum(0).tolist()
            rows = logits.detach().float().cpu()
            self.first = [rows[start].clone() if count else None for start, count in zip(starts, counts, strict=False)]
        self._passes += 1


@contextmanager
def tapped(model: LanguageModel, step: int) -> Iterator[Tap]:
    """Listen to the passes of a decoding for as long as the context is open."""
    tap, forward = Tap(step), model.forward

    def listening(*args: Any, **named: Any) -> Tensor:
        logits = forward(*args, **named)
        wanted = named.get("logits_at")
        if named.get("observed", True) and wanted is not None and wanted.ndim == 2:
            tap.see(logits, wanted)
        return logits

    vars(model)["forward"] = listening
    try:
        yield tap
    finally:
        del vars(model)["forward"]


def unedited(
    model: LanguageModel, ids: Sequence[Sequence[int]], step: int, how: Mapping[str, Any], run: Callable[[], Any]
) -> Sequence[Tensor | None]:
    """What `tapped` hears of an unedited model while `run` decodes these prompts in this way, up to a step.

    It is the same for all edits, so it is kept for the next one that the same batch is asked under.
    """
    kept = _KEPT.setdefault(model, {})
    key = (repr(sorted(how.items())), step, tuple(map(tuple, ids)))
    if key not in kept:
        with tapped(model, step) as tap:
            run()
        kept[key] = tap.first or [None] * len(ids)
        while len(kept) > 1 and sum(map(_size, kept.values())) > _MOST_BYTES:
            del kept[next(iter(kept))]
    return kept[key]


_KEPT: WeakKeyDictionary[LanguageModel, dict[Any, Sequence[Tensor | None]]] = WeakKeyDictionary()


def _size(logits: Sequence[Tensor | None]) -> int:
    return sum(one.nbytes for one in logits if one is not None)


def divergence(plain: Tensor | None, edited: Tensor | None) -> float | None:
    """KL divergence, in nats, of the edited distribution from the plain one; None where one of them was never asked."""
    if plain is None or edited is None:
        return None
    p, q = (torch.log_softmax(x.double(), dim=-1) for x in (plain, edited))
    terms = torch.where(p > -torch.inf, p.exp() * (p - q), torch.zeros_like(p))
    return float(terms.sum().clamp(min=0.0))
