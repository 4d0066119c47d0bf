"""clean: only the gold documents, in evidence order. The reference of the other tests."""

from collections.abc import Sequence

from floatlens.data.examples import Example
from floatlens.data.stress.arrangement import arranged, gold_slots
from floatlens.data.stress.base import Point, StressTest
from floatlens.data.stress.pool import Pool


class Clean(StressTest):
    name = "clean"
    title = "Gold documents alone"
    about = "Only the gold documents: the reference for robustness."
    summary = "mean"

    def points(self) -> Sequence[Point]:
        return (Point(self.name, self.name, 0.0, ""),)

    def transform(self, example: Example, point: Point, pool: Pool) -> Example:
        return arranged(example, gold_slots(example))
