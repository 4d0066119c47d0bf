"""order: the same documents, shuffled. Besides the score, the agreement of the answers is reported."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from pydantic import Field

from floatlens.data.examples import Example
from floatlens.data.stress.arrange import rearranged, shuffled
from floatlens.data.stress.base import Point
from floatlens.data.stress.fixed import FixedCount
from floatlens.data.stress.pool import Pool
from floatlens.data.stress.seeds import generator

__all__ = ["Order"]


class Order(FixedCount):
    """Each point is a shuffle with a seed of its own."""

    name: ClassVar[str] = "order"
    title: ClassVar[str] = "Order of the documents"
    about: ClassVar[str] = "The same documents in different orders."
    axis: ClassVar[str] = "order"
    summary: ClassVar = "mean"
    repeats: ClassVar[bool] = True

    shuffles: int = Field(4, ge=1, description="how many orders")

    def points(self) -> Sequence[Point]:
        return tuple(Point(self.name, self.name, float(i), f"shuffle {i + 1}") for i in range(self.shuffles))

    def transform(self, example: Example, point: Point, pool: Pool) -> Example:
        gold, others = self.gold_and_others(example, pool)
        random = generator(self.seed, example.id, "order", f"{point.x:g}")
        return rearranged(example, shuffled([*gold, *others], random))
