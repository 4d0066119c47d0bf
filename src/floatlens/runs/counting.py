"""How much a plan comes to and how much of it is done: items by data set, what is asked, and model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from floatlens.data.stress import STRESS_TESTS
from floatlens.runs.asking import Subject, each_item, item_name
from floatlens.runs.choosing import ablations

if TYPE_CHECKING:
    from floatlens.runs.folder import RunFolder
    from floatlens.runs.plan import Part, Plan
    from floatlens.runs.records import StudyRecord

__all__ = ["Count", "Counts", "Row", "count", "group_of"]


@dataclass
class Count:
    """Items, and those of them that are done."""

    total: int = 0
    done: int = 0


@dataclass
class Row:
    """One line of the plan: a data set, what is done with it, how often in each model, and the names behind it."""

    data: str
    what: str
    by_model: dict[str, Count] = field(default_factory=dict)
    names: dict[str, None] = field(default_factory=dict)

    @property
    def total(self) -> int:
        return sum(one.total for one in self.by_model.values())

    @property
    def left(self) -> int:
        return sum(one.total - one.done for one in self.by_model.values())


@dataclass(frozen=True)
class Counts:
    """The whole plan."""

    rows: tuple[Row, ...]

    @property
    def total(self) -> int:
        return sum(row.total for row in self.rows)

    @property
    def left(self) -> int:
        return sum(row.left for row in self.rows)

    @property
    def done(self) -> int:
        return self.total - self.left


def group_of(condition: str) -> str:
    """The line of the plan that a condition belongs to: a test for its points, an edit for its control."""
    if condition.startswith("trace"):
        return "trace"
    test = condition.partition("-")[0]
    return test if test in STRESS_TESTS else condition.removesuffix(" (random)")


def count(plan: Plan, run: RunFolder[StudyRecord] | None = None) -> Counts:
    """Every item of the plan, counted; without a folder nothing is done."""
    rows: dict[tuple[str, str], Row] = {}
    for number, subject in enumerate(plan.subjects):
        for part in plan.parts:
            for condition, item in _all(part, subject, number):
                what = group_of(condition)
                row = rows.setdefault((part.data.name, what), Row(part.data.name, what))
                row.names[condition] = None
                one = row.by_model.setdefault(subject.ref, Count())
                one.total += 1
                one.done += run is not None and run.done(item)
    order = [part.data.name for part in plan.parts]
    return Counts(tuple(sorted(rows.values(), key=lambda row: order.index(row.data))))


def _all(part: Part, subject: Subject, number: int) -> Iterator[tuple[str, str]]:
    """(condition, item) of everything that a model does with a data set."""
    for item in part.traces(subject, number):
        yield item.condition, item.name
    for conditions in (part.asked, ablations(part.chosen, part.makers, None)):
        for name, _, condition, example in each_item(subject, [part.data], conditions):
            yield condition.name, item_name(subject.ref, name, condition.name, example.id)
