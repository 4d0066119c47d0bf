"""What position, layout and order have in common: the same number of documents, and the same ones, at every point."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from floatlens.data.examples import Example
from floatlens.data.stress.arrange import Slot, gold_slots, slots_of
from floatlens.data.stress.base import StressTest
from floatlens.data.stress.distractors import random_distractors
from floatlens.data.stress.pool import Pool

__all__ = ["FixedCount"]


class FixedCount(StressTest):
    """A test that arranges `documents` documents: the gold ones, and random distractors beside them.

    Gold documents beyond that number are left out from the end of the evidence.
    """

    shared: ClassVar[frozenset[str]] = frozenset({"seed", "documents"})

    documents: int = Field(10, ge=2, description="documents shown at every point")

    def gold_and_others(self, example: Example, pool: Pool) -> tuple[list[Slot], list[Slot]]:
        """The same documents for every test of this kind."""
        gold = gold_slots(example)[: self.documents]
        others = random_distractors(example, pool, self.documents - len(gold), self.seed)
        return gold, slots_of(others)

    def all_gold(self, example: Example) -> str | None:
        """The reason why nothing can be moved, where the gold documents fill every place."""
        gold = sum(document.is_gold for document in example.documents)
        if gold >= self.documents:
            return f"has {gold} gold documents, which fill all {self.documents} places"
        return None
