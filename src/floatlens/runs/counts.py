"""How much a plan comes to and how much of it is done: items by data set, kind of work, and model."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from floatlens.records.condition import Condition, Edited, Stressed
from floatlens.runs.items import all_items

if TYPE_CHECKING:
    from floatlens.records.record import Record, What
    from floatlens.runs.folder import RunFolder
    from floatlens.runs.plan import Plan

__all__ = ["Count", "Counts", "Row", "count", "group_of", "seconds_of"]


@dataclass
class Count:
    """Items, and those of them that are done."""

    total: int = 0
    done: int = 0


@dataclass
class Row:
    """One line of the plan: a data set, what is done with it, how often for each model, and under which conditions."""

    data: str
    what: str
    traced: bool
    by_model: dict[str, Count] = field(default_factory=dict)
    conditions: dict[Condition, None] = field(default_factory=dict)

    @property
    def total(self) -> int:
        return sum(one.total for one in self.by_model.values())

    @property
    def left(self) -> int:
        return sum(one.total - one.done for one in self.by_model.values())

    @property
    def edited(self) -> bool:
        return any(isinstance(one, Edited) for one in self.conditions)


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


def group_of(what: What, condition: Condition) -> str:
    """The line of the plan that an item belongs to: "trace", a stress test, or an edit with its control."""
    if what == "trace":
        return "trace"
    if isinstance(condition, Stressed):
        return condition.test
    return condition.edited.label if isinstance(condition, Edited) else condition.label


def count(plan: Plan, run: RunFolder | None = None) -> Counts:
    """Every item of the plan, counted; without a folder nothing is done."""
    rows: dict[tuple[str, str], Row] = {}
    for model in plan.models:
        for part in plan.data:
            for item in all_items(model, part):
                what = group_of(item.what, item.condition)
                row = rows.setdefault((item.data, what), Row(item.data, what, item.what == "trace"))
                row.conditions[item.condition] = None
                one = row.by_model.setdefault(model.ref, Count())
                one.total += 1
                one.done += run is not None and run.done(item.id)
    order = [part.data.name for part in plan.data]
    return Counts(tuple(sorted(rows.values(), key=lambda row: order.index(row.data))))


def seconds_of(records: Iterable[Record]) -> dict[tuple[str, str], list[float]]:
    """Seconds of each item on record, by model and line of the plan."""
    found: dict[tuple[str, str], list[float]] = {}
    for record in records:
        if record.status == "done" and record.seconds is not None:
            found.setdefault((record.model, group_of(record.what, record.condition)), []).append(record.seconds)
    return found
