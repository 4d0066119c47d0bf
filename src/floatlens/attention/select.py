"""Which layers, heads and steps are captured or edited; checked against the model before the first pass."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from operator import index

from floatlens.core.errors import FloatlensError

__all__ = ["Select"]

Indices = Collection[int] | slice | int | None


@dataclass(frozen=True)
class Select:
    """`Select(layers=[0, 15], heads=slice(0, 8), steps=range(0, 32, 4))`; None keeps all, negatives count back."""

    layers: Indices = None
    heads: Indices = None
    steps: Indices = None

    def layer_ids(self, count: int) -> tuple[int, ...]:
        return _resolve("layers", self.layers, count)

    def head_ids(self, count: int) -> tuple[int, ...]:
        return _resolve("heads", self.heads, count)

    def step_ids(self, count: int) -> tuple[int, ...]:
        """The selected steps of a run of at most `count` steps."""
        return _resolve("steps", self.steps, count)

    def has_step(self, step: int, count: int) -> bool:
        """Whether one step of a run of at most `count` steps is selected."""
        if self.steps is None:
            return True
        if isinstance(self.steps, slice):
            return step in range(count)[self.steps]
        return step in self.step_ids(count)


def _resolve(what: str, wanted: Indices, count: int) -> tuple[int, ...]:
    if wanted is None:
        return tuple(range(count))
    if isinstance(wanted, slice):
        return tuple(range(count)[wanted])
    try:
        ids = [index(i) for i in (wanted if isinstance(wanted, Collection) else [wanted])]
    except TypeError:
        raise FloatlensError(f"{what}={wanted!r}: give a whole number, a list of them, a slice or None") from None
    for i in ids:
        if not -count <= i < count:
            raise FloatlensError(f"{what[:-1]} {i} is outside 0..{count - 1}; choose among {count} {what}")
    return tuple(sorted({i % count for i in ids}))
