"""Gold documents and distractors put into one list, in the ways the stress tests need, and the example made of it.

A slot is a document and, for gold, its number in evidence order. What is drawn is drawn once for a question and a test,
not for a dose, so two points of a curve differ only in what the test is about.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from floatlens.data.examples import Example
from floatlens.data.stress.evidence import evidence_order
from floatlens.prompts import Document

__all__ = ["Slot", "block", "filled", "gold_slots", "mixed", "rearranged", "shuffled", "slots_of", "spread"]

Slot: TypeAlias = tuple[Document, int | None]


def gold_slots(example: Example) -> list[Slot]:
    """The gold documents in evidence order."""
    return [(example.documents[i], number) for number, i in enumerate(evidence_order(example))]


def slots_of(documents: Sequence[Document]) -> list[Slot]:
    """Distractors as slots."""
    return [(document, None) for document in documents]


def mixed(gold: Sequence[Slot], others: Sequence[Slot], random: np.random.Generator) -> list[Slot]:
    """Gold and others in a drawn order in which the documents of a smaller dose keep their relative order.

    Each slot draws a key by its number and slots are sorted by key; more slots change no key.
    """
    for_gold, for_others = random.spawn(2)
    keys = [*for_gold.random(len(gold)).tolist(), *for_others.random(len(others)).tolist()]
    slots = [*gold, *others]
    return [slots[i] for i in sorted(range(len(slots)), key=lambda i: (keys[i], i))]


def shuffled(slots: Sequence[Slot], random: np.random.Generator) -> list[Slot]:
    """A permutation of them."""
    return [slots[i] for i in random.permutation(len(slots)).tolist()]


def filled(gold: Sequence[Slot], places: Sequence[int], others: Sequence[Slot]) -> list[Slot]:
    """Gold documents at their places, the others in their order at the remaining places."""
    at = dict(zip(places, gold, strict=True))
    rest = iter(others)
    return [at[place] if place in at else next(rest) for place in range(len(gold) + len(others))]


def block(count: int, total: int, start: int) -> list[int]:
    """`count` adjacent places from `start`, or the last `count` if there is no room after it."""
    first = min(start, total - count)
    return list(range(first, first + count))


def spread(count: int, total: int, offset: int) -> list[int]:
    """`count` of `total` places whose distances differ by at most one; `offset`, below `total`, moves them.

    Over all offsets each place is used equally often, so scattered documents have no advantage by their places.
    """
    return [(i * total + offset) // count for i in range(count)]


def rearranged(example: Example, slots: Sequence[Slot], **facts: Any) -> Example:
    """The example with these documents; `meta["stress"]` counts them and has `facts`.

    `gold_places` are in evidence order; a gold document that was split has several. `meta["gold"]` and
    `meta["gold_groups"]`, where the data has them, follow the gold documents to their new places.
    """
    numbers = [(number, place) for place, (_, number) in enumerate(slots) if number is not None]
    places = [place for _, place in sorted(numbers)]
    own = [document for document in example.documents if not document.is_gold]
    stress = {
        "documents": len(slots),
        "gold": len(places),
        "gold_places": places,
        "distractors": len(slots) - len(places),
        "own_distractors": sum(number is None and document in own for document, number in slots),
        **facts,
    }
    order = evidence_order(example)
    meta = example.meta | {"stress": stress}
    if order and meta.get("gold") == order:
        meta["gold"] = places
    groups = meta.get("gold_groups")
    if isinstance(groups, list) and len(groups) == len(order):
        by_number = [groups[sorted(order).index(i)] for i in order]
        meta["gold_groups"] = [by_number[number] for number, _ in sorted(numbers, key=lambda pair: pair[1])]
    return example.model_copy(update={"documents": [document for document, _ in slots], "meta": meta})
