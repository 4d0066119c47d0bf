"""distractor: all gold documents and a growing number of distractors of one kind, mixed in a drawn order."""

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal, TypeAlias, get_args

from pydantic import Field

from floatlens.core.errors import FloatlensError, did_you_mean
from floatlens.data.examples import Example
from floatlens.data.stress.arrangement import arranged, generator, gold_slots, mixed
from floatlens.data.stress.base import Distinct, Point, StressTest
from floatlens.data.stress.distractors import counterfactuals, no_counterfactual, random_distractors, topic_distractors
from floatlens.data.stress.pool import Pool

Kind: TypeAlias = Literal["random", "topic", "counterfactual"]


class Distractor(StressTest):
    name = "distractor"
    title = "Distractors"
    about = "A growing number of distractors beside the gold documents."
    axis = "distractors"
    series: ClassVar = {
        "random": "random documents",
        "topic": "documents on the same topic",
        "counterfactual": "the gold document with another answer",
    }

    kinds: Distinct[Kind] = Field(get_args(Kind), description="kinds of distractor, a curve each")
    counts: Distinct[Annotated[int, Field(ge=0)]] = Field((1, 4, 9), description="numbers of distractors")

    def points(self) -> Sequence[Point]:
        return tuple(Point(self.name, kind, float(n), f"{n}") for kind in self.kinds for n in sorted(self.counts))

    def unfit(self, example: Example, pool: Pool | None = None) -> str | None:
        reason = self.lacks(example)
        if reason is None and "counterfactual" in self.kinds:
            reason = no_counterfactual(example)
        return reason or super().unfit(example, pool)

    def transform(self, example: Example, point: Point, pool: Pool) -> Example:
        count = int(point.x)
        stated: list[str] = []
        if point.series == "random":
            others = random_distractors(example, pool, count, self.seed)
        elif point.series == "topic":
            others = topic_distractors(example, pool, count)
        elif point.series == "counterfactual":
            others, stated = counterfactuals(example, pool, count, self.seed)
        else:
            raise FloatlensError(f'no kind of distractor "{point.series}"{did_you_mean(point.series, self.series)}')
        slots = mixed(gold_slots(example), others, generator(self.seed, example.id, "distractor"))
        if point.series != "counterfactual":
            return arranged(example, slots)
        made = arranged(example, slots, replaced=stated)
        return made.model_copy(update={"wrong_answers": [*example.wrong_answers, *stated]})
