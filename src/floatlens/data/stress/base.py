"""What a stress test is: `StressTest`, the class to derive from, and `Point`, one place on its curve.

A test is one class in one file: its settings are its fields, its words and the way its curve is drawn and summarised
are class attributes. Nothing else in the package knows a test by name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from floatlens.core.errors import FloatlensError
from floatlens.data.examples import Example
from floatlens.data.matching import normalise
from floatlens.data.stress.arrangement import Slot, gold_slots
from floatlens.data.stress.distractors import random_distractors
from floatlens.data.stress.pool import Pool
from floatlens.prompts import Document

if TYPE_CHECKING:
    from floatlens.data.sources import Data

__all__ = ["Appended", "Distinct", "FixedCount", "Point", "StressTest"]

T = TypeVar("T")


def _distinct(given: tuple[T, ...]) -> tuple[T, ...]:
    if not given:
        raise ValueError("an empty list; give at least one value")
    if len(set(given)) < len(given):
        raise ValueError("a value is given twice")
    return given


def _listed(given: Any) -> Any:
    return [part.strip() for part in given.split(",") if part.strip()] if isinstance(given, str) else given


Distinct = Annotated[tuple[T, ...], BeforeValidator(_listed), AfterValidator(_distinct)]
"""A list setting: one or more values, each once; as text, separated by commas."""


@dataclass(frozen=True)
class Point:
    """One place on a stress curve: the test, the series (the line within the test), the place, and the place in words.

    Example: `Point("distractor", "topic", 4, "4").label  # "distractor topic 4"`
    """

    test: str
    series: str
    x: float
    point: str

    @property
    def label(self) -> str:
        """Unique among all points of all tests."""
        series = "" if self.series == self.test else self.series
        return " ".join(filter(None, [self.test, series, self.point]))


@dataclass(frozen=True)
class Appended:
    """Tokens after the prompt, of which the first is scored after one pass: masks throughout, or one mask and dots."""

    count: int
    fill: Literal["mask", "dot"] = "mask"


class StressTest(BaseModel, ABC):
    """A stress test with its settings. A derived class needs `name`, `title`, `about`, `points` and `transform`.

    Example: `STRESS_TESTS["noise"](documents=4).points()[0].label  # "noise 0"`
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    __test__ = False  # not a test case of pytest

    name: ClassVar[str]
    title: ClassVar[str]
    about: ClassVar[str]  # one sentence: what is changed
    axis: ClassVar[str] = ""  # what x counts, as the label of the axis
    note: ClassVar[str] = ""  # what readers of tables must know about x, if anything
    needs: ClassVar[int] = 1  # the fewest gold documents a question must have
    kind: ClassVar[Literal["any", "mdm"]] = "any"  # the kind of model it applies to
    # how a curve becomes one number: the area under it over the width of the axis, or, without a scale, the mean
    summary: ClassVar[Literal["area", "mean"]] = "area"
    scale: ClassVar[Literal["linear", "log2"]] = "linear"
    # the test whose score robustness divides by; None: the first point of the same curve
    reference: ClassVar[str | None] = "clean"
    repeats: ClassVar[bool] = False  # all points show the same documents: the agreement of the answers is reported
    by_default: ClassVar[bool] = True  # done where no test is chosen; false if most data has nothing for it
    headline: ClassVar[bool] = False  # its robustness is among the headline numbers of a report
    series: ClassVar[Mapping[str, str]] = {}  # the series in words, where there are several
    shared: ClassVar[frozenset[str]] = frozenset({"seed"})  # settings with one value for all tests

    seed: int = Field(0, ge=0)

    def prepare(self, data: Data, pool: Pool) -> Self:
        """The test for one data set; a test that has to look at all questions first does it here."""
        return self

    @abstractmethod
    def points(self) -> Sequence[Point]:
        """All points, series by series, each from left to right."""

    @abstractmethod
    def transform(self, example: Example, point: Point, pool: Pool) -> Example:
        """The question at a point: the same id, question and answers, other documents."""

    def lacks(self, example: Example) -> str | None:
        """What a question lacks to take the test, as far as marks and answers show it; to be read after "question"."""
        gold = sum(document.is_gold for document in example.documents)
        answered = any(normalise(answer) for answer in example.answers)
        if gold < self.needs:
            said = f"has {gold} gold document{'s' * (gold != 1)}, and {self.name} needs {self.needs} or more"
            return said + (_HINT if not gold and answered and example.documents else "")
        if self.needs and self.reference != self.name and not answered:
            return "has no accepted answer, so nothing shows which documents lack it"
        return None

    def unfit(self, example: Example, pool: Pool | None = None) -> str | None:
        """Why a question cannot take the test, to be read after "question"; None if it can.

        With a pool it is also checked whether the pool has enough documents for the largest doses.
        """
        reason = self.lacks(example)
        if reason is not None or pool is None:
            return reason
        try:
            for point in self.hardest():
                self.apply(example, point, pool)
        except FloatlensError as error:
            return str(error).removeprefix(f'question "{example.id}" ')
        return None

    def hardest(self) -> Sequence[Point]:
        """The points that need most of the pool: the last of each series."""
        return list({point.series: point for point in self.points()}.values())

    def appended(self, point: Point) -> Appended | None:
        """Tokens appended to the prompt at a point, for tests that score a single pass."""
        return None

    @classmethod
    def tick(cls, x: float, point: str) -> str:
        """The label of a place on the axis; `point` is the place in words."""
        return point

    def apply(self, example: Example, point: Point, pool: Pool) -> Example:
        """`transform` after a check; `meta["stress"]` says what was done."""
        reason = self.lacks(example)
        if reason is not None:
            raise FloatlensError(f'question "{example.id}" {reason}; leave it out of test "{self.name}"')
        made = self.transform(example, point, pool)
        told: dict[str, Any] = {"test": point.test, "series": point.series, "x": point.x}
        meta = made.meta | {"stress": told | made.meta.get("stress", {})}
        return made.model_copy(update={"documents": list(made.documents), "meta": meta})

    @classmethod
    def series_label(cls, series: str) -> str:
        """A series in words; "" for the only series of a test."""
        return "" if series == cls.name else cls.series.get(series, series)


_HINT = (
    "; if its documents are not marked, `gold: answer` (in a study) or --gold answer marks those that hold an "
    "accepted answer"
)


class FixedCount(StressTest):
    """A test that shows the same `documents` documents at every point: the gold ones and random distractors.

    Gold documents beyond that number are left out from the end of the evidence.
    """

    shared = frozenset({"seed", "documents"})
    moves_gold: ClassVar[bool] = True  # there must be places without gold to move it to

    documents: int = Field(10, ge=2, description="documents shown at every point")

    def gold_and_others(self, example: Example, pool: Pool) -> tuple[list[Slot], list[Document]]:
        """The same documents for every test of this kind."""
        gold = gold_slots(example)[: self.documents]
        return gold, random_distractors(example, pool, self.documents - len(gold), self.seed)

    def lacks(self, example: Example) -> str | None:
        reason = super().lacks(example)
        gold = sum(document.is_gold for document in example.documents)
        if reason is None and self.moves_gold and gold >= self.documents:
            return f"has {gold} gold documents, which fill all {self.documents} places"
        return reason
