"""position [Lost in the Middle]: the gold documents, adjacent and in evidence order, at one position after another.

The other documents are the same in the same order at every point. Near the end the block is as far back as it fits.
"""

from collections.abc import Sequence
from typing import Self

from pydantic import Field, model_validator

from floatlens.data.examples import Example
from floatlens.data.stress.arrangement import arranged, block, filled
from floatlens.data.stress.base import Distinct, FixedCount, Point
from floatlens.data.stress.pool import Pool


class Position(FixedCount):
    name = "position"
    title = "Position of the gold document"
    about = "The gold document is moved from the first position to the last."
    axis = "position of the gold document"
    headline = True
    note = "Figures count positions from 1; settings and the column x count them from 0."

    places: Distinct[int] | None = Field(None, description="positions, counted from 0; None: all of them")

    @model_validator(mode="after")
    def _inside(self) -> Self:
        for place in self.places or ():
            if not 0 <= place < self.documents:
                raise ValueError(f"places wants 0 to {self.documents - 1}, got {place}")
        return self

    def points(self) -> Sequence[Point]:
        places = range(self.documents) if self.places is None else sorted(self.places)
        return tuple(Point(self.name, self.name, float(at), f"{at + 1} of {self.documents}") for at in places)

    def transform(self, example: Example, point: Point, pool: Pool) -> Example:
        gold, others = self.gold_and_others(example, pool)
        return arranged(example, filled(gold, block(len(gold), self.documents, int(point.x)), others))

    @classmethod
    def tick(cls, x: float, point: str) -> str:
        return f"{x + 1:g}"
