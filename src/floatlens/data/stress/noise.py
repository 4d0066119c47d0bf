"""noise [RGB]: of n documents round(ratio · n) are noise and the others gold, as far as there are gold documents.

With fewer gold documents the prompt is shorter; filling it with noise would change the ratio. The order is drawn.
"""

from collections.abc import Sequence
from typing import Self

from pydantic import Field, model_validator

from floatlens.data.examples import Example
from floatlens.data.stress.arrangement import arranged, generator, gold_slots, mixed
from floatlens.data.stress.base import Distinct, Point, StressTest
from floatlens.data.stress.distractors import random_distractors
from floatlens.data.stress.pool import Pool


class Noise(StressTest):
    name = "noise"
    title = "Noise documents"
    about = "A growing number of noise documents beside the gold; noise takes slots from surplus gold."
    axis = "noise documents"
    headline = True
    note = "The axis counts noise documents; x is the noise ratio."

    ratios: Distinct[float] = Field((0.0, 0.2, 0.4, 0.6, 0.8), description="noise ratios, from 0 to below 1")
    documents: int = Field(5, ge=1, description="documents that a ratio is a share of")

    @model_validator(mode="after")
    def _leave_gold(self) -> Self:
        counted: dict[int, float] = {}
        for ratio in self.ratios:
            if not 0 <= ratio < 1 or self._count(ratio) == self.documents:
                raise ValueError(
                    f"ratios wants 0 or more, with at least one of the {self.documents} documents left for the gold, "
                    f"got {ratio:g}"
                )
            other = counted.setdefault(self._count(ratio), ratio)
            if other != ratio:
                raise ValueError(
                    f"ratios {other:g} and {ratio:g} of {self.documents} documents are both {self._count(ratio)}; "
                    "leave one out"
                )
        return self

    def _count(self, ratio: float) -> int:
        return round(ratio * self.documents)

    def points(self) -> Sequence[Point]:
        return tuple(Point(self.name, self.name, float(x), f"{self._count(x)}") for x in sorted(self.ratios))

    def transform(self, example: Example, point: Point, pool: Pool) -> Example:
        noise = self._count(point.x)
        gold = gold_slots(example)[: self.documents - noise]
        others = random_distractors(example, pool, noise, self.seed)
        return arranged(example, mixed(gold, others, generator(self.seed, example.id, "noise")))
