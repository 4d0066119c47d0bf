"""Where documents stand: gold documents and distractors put into one list, in the ways the stress tests want it.

A slot is a document and, for gold, its number in evidence order. Whatever is drawn is drawn once for a question and a
test, not for a dose, so that two points of a curve differ only in what the test is about.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from floatlens.prompts import Document

__all__ = ["Slot", "block", "filled", "mixed", "shuffled", "spread"]

Slot: TypeAlias = tuple[Document, int | None]


def mixed(gold: Sequence[Slot], others: Sequence[Slot], random: np.random.Generator) -> list[Slot]:
    """Gold and others in a drawn order in which those of a smaller dose keep their order among themselves.

    Every slot has a height by its number, and slots stand by height; further ones change no height.
    """
    for_gold, for_others = random.spawn(2)
    heights = [*for_gold.random(len(gold)).tolist(), *for_others.random(len(others)).tolist()]
    slots = [*gold, *others]
    return [slots[i] for i in sorted(range(len(slots)), key=lambda i: (heights[i], i))]


def shuffled(slots: Sequence[Slot], random: np.random.Generator) -> list[Slot]:
    """A permutation of them."""
    return [slots[i] for i in random.permutation(len(slots)).tolist()]


def filled(gold: Sequence[Slot], places: Sequence[int], others: Sequence[Slot]) -> list[Slot]:
    """Gold documents at their places, the others in their order at the places that are left."""
    at = dict(zip(places, gold, strict=True))
    rest = iter(others)
    return [at[place] if place in at else next(rest) for place in range(len(gold) + len(others))]


def block(count: int, total: int, start: int) -> list[int]:
    """`count` places side by side from `start` on, or as far back as they go."""
    first = min(start, total - count)
    return list(range(first, first + count))


def spread(count: int, total: int, offset: int) -> list[int]:
    """`count` of `total` places whose distances differ by no more than one; `offset`, below `total`, moves them.

    Over all offsets every place is taken equally often, so that scattered documents gain nothing by their places.
    """
    return [(i * total + offset) // count for i in range(count)]
