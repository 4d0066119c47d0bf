"""clean: only the gold documents, in evidence order. The reference of the other tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from floatlens.data.examples import Example
from floatlens.data.stress.arrange import gold_slots, rearranged
from floatlens.data.stress.base import Point, StressTest
from floatlens.data.stress.pool import Pool

__all__ = ["Clean"]


class Clean(StressTest):
    """One point: nothing but evidence."""

    name: ClassVar[str] = "clean"
    title: ClassVar[str] = "Gold documents alone"
    about: ClassVar[str] = "Only the gold documents: the reference for robustness."
    summary: ClassVar = "mean"

    def points(self) -> Sequence[Point]:
        return (Point(self.name, self.name, 0.0, ""),)

    def transform(self, example: Example, point: Point, pool: Pool) -> Example:
        return rearranged(example, gold_slots(example))
