"""misleading [RAMDocs]: all gold documents and others beside them: ones that state a wrong answer, or noise.

Both series add the same number of documents to the same gold ones, so they differ only in what the others say.
"""

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal, TypeAlias, get_args

from pydantic import Field

from floatlens.core.errors import FloatlensError, did_you_mean
from floatlens.data.examples import Example
from floatlens.data.stress.arrangement import arranged, generator, gold_slots, mixed
from floatlens.data.stress.base import Distinct, Point, StressTest
from floatlens.data.stress.distractors import no_wrong_documents, random_distractors, wrong_documents
from floatlens.data.stress.pool import Pool

Kind: TypeAlias = Literal["wrong", "noise"]


class Misleading(StressTest):
    name = "misleading"
    title = "Misleading documents and noise"
    about = "Documents that state a wrong answer, or as many noise documents, beside the gold documents."
    axis = "added documents"
    by_default = False
    series: ClassVar = {"wrong": "documents with a wrong answer", "noise": "noise documents"}

    kinds: Distinct[Kind] = Field(get_args(Kind), description="kinds of added document, a curve each")
    counts: Distinct[Annotated[int, Field(ge=0)]] = Field((1, 2), description="numbers of added documents")

    def points(self) -> Sequence[Point]:
        return tuple(Point(self.name, kind, float(n), f"{n}") for kind in self.kinds for n in sorted(self.counts))

    def lacks(self, example: Example) -> str | None:
        return super().lacks(example) or no_wrong_documents(example, max(self.counts), self.name)

    def transform(self, example: Example, point: Point, pool: Pool) -> Example:
        count = int(point.x)
        if point.series not in get_args(Kind):
            raise FloatlensError(f'no kind of added document "{point.series}"{did_you_mean(point.series, self.series)}')
        if point.series == "wrong":
            others = wrong_documents(example)[:count]
        else:
            others = random_distractors(example, pool, count, self.seed)
        slots = mixed(gold_slots(example), others, generator(self.seed, example.id, "misleading"))
        return arranged(example, slots, wrong_documents=count if point.series == "wrong" else 0)
