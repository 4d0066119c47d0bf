"""masks [Masks]: the question as it is in the data, with masks appended to the prompt; the first is scored after one
pass. The control appends one mask and then dots."""

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, cast

from pydantic import Field

from floatlens.data.examples import Example
from floatlens.data.stress.arrangement import arranged, evidence_order
from floatlens.data.stress.base import Appended, Distinct, Point, StressTest
from floatlens.data.stress.pool import Pool


class Masks(StressTest):
    name = "masks"
    title = "Appended masks"
    about = "Masks, or dots as a control, are appended to the prompt."
    axis = "tokens appended"
    needs = 0
    kind = "mdm"
    scale = "log2"
    reference = None
    series: ClassVar = {"mask": "masks", "dot": "one mask, then dots"}

    counts: Distinct[Annotated[int, Field(ge=1)]] = Field((1, 2, 4, 8, 16, 32), description="tokens appended")

    def points(self) -> Sequence[Point]:
        return tuple(Point(self.name, fill, float(n), f"{n}") for fill in self.series for n in sorted(self.counts))

    def transform(self, example: Example, point: Point, pool: Pool) -> Example:
        number_of = {i: number for number, i in enumerate(evidence_order(example))}
        return arranged(example, [(document, number_of.get(i)) for i, document in enumerate(example.documents)])

    def appended(self, point: Point) -> Appended | None:
        return Appended(int(point.x), cast("Any", point.series))
