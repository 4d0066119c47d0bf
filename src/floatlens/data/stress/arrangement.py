"""The gold documents of a question in evidence order, and documents put into one list as the stress tests need them.

A slot is a document and, for gold, its number in evidence order. What is drawn is drawn once for a question and a test,
not for a dose, so two points of a curve differ only in what the test is about.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from floatlens.data.examples import Example
from floatlens.prompts import Document

__all__ = ["Slot", "arranged", "block", "cut", "evidence_order", "filled", "generator", "gold_slots", "mixed", "spread"]

Slot: TypeAlias = tuple[Document, int | None]

_END = re.compile(
    r"[.!?…]+[\"'”’)\]]*\s+(?=[\"'“‘(\[]*[^\W_])"  # a full stop, followed by what may begin a sentence
    r"|[。！？]+[”’」』）]*\s*"
    r"|\s*\n\s*"
)
_LAST_WORD = re.compile(r"(\S+?)[.!?…]+[\"'”’)\]]*\s+$")
_ABBREVIATIONS = frozenset(
    """mr mrs ms dr st prof jr sr vs vol inc ltd co corp gen col capt lt sgt rev hon gov sen rep pres fig approx
    ca cf al etc dept est jan feb mar apr jun jul aug sep sept oct nov dec""".split()  # noqa: SIM905
)


def generator(seed: int, *purpose: str) -> np.random.Generator:
    """A generator for one purpose of one question. Example: `generator(0, example.id, "order", "2").permutation(10)`"""
    digest = hashlib.sha256(json.dumps([seed, *purpose]).encode()).digest()
    return np.random.default_rng(np.frombuffer(digest, dtype="<u4"))


def gold_slots(example: Example) -> list[Slot]:
    """The gold documents in evidence order."""
    return [(example.documents[i], number) for number, i in enumerate(evidence_order(example))]


def mixed(gold: Sequence[Slot], others: Sequence[Document], random: np.random.Generator) -> list[Slot]:
    """Gold and others in a drawn order in which the documents of a smaller dose keep their relative order.

    Each slot draws a key by its number and slots are sorted by key; more slots change no key.
    """
    for_gold, for_others = random.spawn(2)
    keys = [*for_gold.random(len(gold)).tolist(), *for_others.random(len(others)).tolist()]
    slots = [*gold, *((document, None) for document in others)]
    return [slots[i] for i in sorted(range(len(slots)), key=lambda i: (keys[i], i))]


def filled(gold: Sequence[Slot], places: Sequence[int], others: Sequence[Document]) -> list[Slot]:
    """Gold documents at their places, the others in their order at the remaining places."""
    at = dict(zip(places, gold, strict=True))
    rest = iter(others)
    return [at[place] if place in at else (next(rest), None) for place in range(len(gold) + len(others))]


def block(count: int, total: int, start: int) -> list[int]:
    """`count` adjacent places from `start`, or the last `count` if there is no room after it."""
    first = min(start, total - count)
    return list(range(first, first + count))


def spread(count: int, total: int, offset: int) -> list[int]:
    """`count` of `total` places whose distances differ by at most one; `offset`, below `total`, moves them.

    Over all offsets each place is used equally often, so scattered documents have no advantage by their places.
    """
    return [(i * total + offset) // count for i in range(count)]


def arranged(example: Example, slots: Sequence[Slot], **facts: Any) -> Example:
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


def evidence_order(example: Example) -> list[int]:
    """Indexes of the gold documents: in the order of `meta["gold"]` if it lists just these, else as in the data."""
    standing = [i for i, document in enumerate(example.documents) if document.is_gold]
    listed = example.meta.get("gold")
    if isinstance(listed, list) and all(type(i) is int for i in listed) and sorted(listed) == standing:
        return listed
    return standing


def cut(document: Document) -> list[Document]:
    """A document for each sentence, with the same title and gold mark."""
    return [document.model_copy(update={"text": sentence}) for sentence in sentences(document.text)]


def sentences(text: str) -> list[str]:
    """The sentences of a text; in doubt, a sentence continues.

    A rule for prose, not a parser: nothing is cut after an abbreviation or an initial, or before a small letter.
    Example: `sentences("Dr. Ott lives in Kell. He sings.")  # ["Dr. Ott lives in Kell.", "He sings."]`
    """
    found, start = [], 0
    for end in _END.finditer(text):
        if "\n" in end[0] or end[0][0] in "。！？" or _is_end(text[start : end.end()], text[end.end() :]):
            found.append(text[start : end.end()].strip())
            start = end.end()
    found.append(text[start:].strip())
    return [sentence for sentence in found if sentence]


def _is_end(before: str, after: str) -> bool:
    begins = after.lstrip("\"'“‘([")[:1]
    word = _LAST_WORD.search(before)
    if begins.islower() or word is None:
        return False
    last = word[1].strip("\"'“‘([”’)]").lower()
    if last in ("no", "nos") and begins.isdigit():
        return False
    return last not in _ABBREVIATIONS and "." not in last and not (len(last) == 1 and last.isalpha())
