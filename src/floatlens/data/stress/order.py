"""order: the same documents, shuffled. Besides the score, the agreement of the answers is reported."""

from collections.abc import Sequence

from pydantic import Field

from floatlens.data.examples import Example
from floatlens.data.stress.arrangement import Slot, arranged, generator
from floatlens.data.stress.base import FixedCount, Point
from floatlens.data.stress.pool import Pool


class Order(FixedCount):
    name = "order"
    title = "Order of the documents"
    about = "The same documents in different orders."
    axis = "order"
    summary = "mean"
    repeats = True
    moves_gold = False

    shuffles: int = Field(4, ge=1, description="how many orders")

    def points(self) -> Sequence[Point]:
        return tuple(Point(self.name, self.name, float(i), f"shuffle {i + 1}") for i in range(self.shuffles))

    def transform(self, example: Example, point: Point, pool: Pool) -> Example:
        gold, others = self.gold_and_others(example, pool)
        slots: list[Slot] = [*gold, *((document, None) for document in others)]
        order = generator(self.seed, example.id, "order", f"{point.x:g}").permutation(len(slots))
        return arranged(example, [slots[i] for i in order.tolist()])
