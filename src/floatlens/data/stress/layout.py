"""layout: the same documents, with the gold ones adjacent, scattered, in reverse order, or split into sentences."""

from collections.abc import Sequence
from typing import Literal, TypeAlias, get_args

from pydantic import Field

from floatlens.core.errors import FloatlensError, did_you_mean
from floatlens.data.examples import Example
from floatlens.data.stress.arrangement import arranged, block, cut, filled, generator, spread
from floatlens.data.stress.base import Distinct, FixedCount, Point
from floatlens.data.stress.pool import Pool

Name: TypeAlias = Literal["adjacent", "scattered", "reversed", "split"]


class Layout(FixedCount):
    name = "layout"
    title = "Layout of the gold documents"
    about = "The gold documents are arranged in different ways among the others."
    axis = "layout"
    needs = 2
    summary = "mean"

    layouts: Distinct[Name] = Field(get_args(Name), description="adjacent, scattered, reversed, split")

    def points(self) -> Sequence[Point]:
        return tuple(Point(self.name, self.name, float(i), layout) for i, layout in enumerate(self.layouts))

    def hardest(self) -> Sequence[Point]:
        return self.points()

    def transform(self, example: Example, point: Point, pool: Pool) -> Example:
        if point.point not in get_args(Name):
            raise FloatlensError(f'no layout "{point.point}"{did_you_mean(point.point, get_args(Name))}')
        gold, others = self.gold_and_others(example, pool)
        total = self.documents
        start, offset = generator(self.seed, example.id, "layout").random(2).tolist()
        if point.point in ("adjacent", "reversed"):
            placed = gold if point.point == "adjacent" else gold[::-1]
            places = block(len(gold), total, int(start * (total - len(gold) + 1)))
            return arranged(example, filled(placed, places, others))
        if point.point == "split":
            gold = [(piece, number) for document, number in gold for piece in cut(document)]
            others = others[: max(0, total - len(gold))]
            total = len(gold) + len(others)
        return arranged(example, filled(gold, spread(len(gold), total, int(offset * total)), others))
