"""wrong [RGB, RAMDocs]: documents that state a wrong answer, taken from the data, beside the gold ones and then alone.

The first point shows gold documents only, the second both in a drawn order, the last wrong documents only.
"""

from collections.abc import Sequence

from pydantic import Field

from floatlens.data.examples import Example
from floatlens.data.stress.arrangement import arranged, generator, gold_slots, mixed
from floatlens.data.stress.base import Point, StressTest
from floatlens.data.stress.distractors import no_wrong_documents, wrong_documents
from floatlens.data.stress.pool import Pool


class Wrong(StressTest):
    name = "wrong"
    title = "Documents with a wrong answer"
    about = "Gold documents, then as many documents beside them that state a wrong answer, then those alone."
    axis = "documents with a wrong answer"
    note = "x is the share of documents that state a wrong answer; they come from the data."
    by_default = False

    documents: int = Field(1, ge=1, description="gold documents, and documents with a wrong answer")

    def points(self) -> Sequence[Point]:
        return tuple(Point(self.name, self.name, x, word) for x, word in ((0.0, "none"), (0.5, "half"), (1.0, "all")))

    def lacks(self, example: Example) -> str | None:
        return super().lacks(example) or no_wrong_documents(example, self.documents, self.name)

    def transform(self, example: Example, point: Point, pool: Pool) -> Example:
        gold = gold_slots(example)[: self.documents] if point.x < 1 else []
        others = wrong_documents(example)[: self.documents] if point.x > 0 else []
        slots = mixed(gold, others, generator(self.seed, example.id, "wrong"))
        return arranged(example, slots, wrong_documents=len(others))
