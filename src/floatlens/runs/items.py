"""The items of a plan: every model × data × condition × question that is asked, traced or patched."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby, islice
from typing import TYPE_CHECKING, TypeVar

from floatlens.core.text import file_name
from floatlens.evaluation.answers import Asked
from floatlens.records.record import What, item_of
from floatlens.runs.conditions import PlannedCondition
from floatlens.traces.store import SUFFIX

if TYPE_CHECKING:
    from floatlens.data import Data, Example
    from floatlens.records.condition import Condition
    from floatlens.runs.models import PlannedModel

__all__ = ["Item", "PlannedData", "all_items", "answer_items", "batches", "patch_items", "trace_file", "trace_items"]

T = TypeVar("T")
_CHUNK = 512
"""Items that are sorted by length together before they are cut into batches."""


@dataclass(frozen=True)
class PlannedData:
    """A data set with its conditions, and what is traced of it."""

    data: Data
    conditions: tuple[PlannedCondition, ...]
    traced: int
    """The first N questions are traced, under each of `trace_conditions`."""
    trace_conditions: tuple[PlannedCondition, ...]
    passages: bool = False
    """Passages with holes instead of questions: they are traced, with what was cut out as their target."""
    pooled: bool = False
    """Whether prompts depend on the other questions of the data, from which distractors are drawn."""
    patch: PlannedCondition | None = None
    patched: int = 0
    """The first N questions are patched, under `patch`."""
    counterfactuals: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """By model and question that is patched: the answer that takes the place of its own."""

    def asked_of(self, model: PlannedModel, *, waiting: bool) -> list[PlannedCondition]:
        """The conditions for a model, those that wait for traces or the others; controls are traced only."""
        if model.shuffled is not None:
            return []
        fitting = (one for one in self.conditions if one.model_kind in ("any", model.facts.kind))
        return [one for one in fitting if one.waits == waiting]


@dataclass(frozen=True)
class Item:
    """One question put to one model under one condition, to be answered, traced or patched."""

    what: What
    model: str
    data: str
    condition: Condition
    index: int
    planned: PlannedCondition
    example: Example
    """As in the data; `asked` has the documents that are shown."""

    @cached_property
    def id(self) -> str:
        return item_of(self.what, self.model, self.data, self.condition, self.example.id)

    @property
    def measured(self) -> bool:
        return self.index < self.planned.measured

    def asked(self) -> Asked:
        """The question as it is put. Retrieval or a stress test may make this costly."""
        return Asked(self.planned.make(self.example), self.planned.appended, self.planned.edit)


def answer_items(model: PlannedModel, data: PlannedData, conditions: Sequence[PlannedCondition]) -> Iterator[Item]:
    """The items of a model and a data set that are answered, streamed in the order of the questions."""
    for index, example in enumerate(data.data.examples() if conditions else ()):
        for one in conditions:
            if one.fits(example):
                yield Item("answer", model.ref, data.data.name, one.condition, index, one, example)


def trace_items(model: PlannedModel, data: PlannedData) -> Iterator[Item]:
    """The items of a model and a data set that are traced."""
    for one in data.trace_conditions if data.traced else ():
        fitting = (pair for pair in enumerate(data.data.examples()) if one.fits(pair[1]))
        for index, example in islice(fitting, data.traced):
            yield Item("trace", model.ref, data.data.name, one.condition, index, one, example)


def patch_items(model: PlannedModel, data: PlannedData) -> Iterator[Item]:
    """The items of a model and a data set that are patched; none for a control."""
    chosen = data.counterfactuals.get(model.ref)
    if chosen and data.patch is not None:
        one = data.patch
        for index, example in enumerate(islice(data.data.examples(), data.patched)):
            if example.id in chosen:
                yield Item("patch", model.ref, data.data.name, one.condition, index, one, example)


def all_items(model: PlannedModel, data: PlannedData) -> Iterator[Item]:
    """Everything that a model does with a data set; what waits for traces comes last."""
    yield from trace_items(model, data)
    yield from answer_items(model, data, data.asked_of(model, waiting=False))
    yield from patch_items(model, data)
    yield from answer_items(model, data, data.asked_of(model, waiting=True))


def trace_file(item: Item, number: int) -> str:
    """Where a trace goes, relative to the run folder; `number` is the place of its model, for the order of files."""
    name = f"{_slug(item.data)}-{_slug(item.condition.label)}-{item.index:05d}-{item.id[:10]}{SUFFIX}"
    return f"traces/{number + 1}-{_slug(item.model)}/{name}"


def _slug(text: str) -> str:
    return file_name(text.rstrip("/").rpartition("/")[2])


def batches(items: Iterable[Item], size: int, done: Callable[[str], bool]) -> Iterator[list[tuple[Item, Asked]]]:
    """Items that can share a forward pass, cut into batches of prompts of similar length; only those not wholly done.

    They are cut before it is looked up what is done, so the companions of an item do not depend on where a run was
    stopped: an answer does not depend on them, but the last bits of a divergence do.
    """
    for chunk in _cut(items, _CHUNK):
        if all(done(item.id) for item in chunk):
            continue
        made = sorted(((item, item.asked()) for item in chunk), key=lambda pair: (_kind(*pair), _length(pair[1])))
        for _, same in groupby(made, key=lambda pair: _kind(*pair)):
            for part in _cut(same, size):
                if not all(done(item.id) for item, _ in part):
                    yield list(part)


def _cut(given: Iterable[T], size: int) -> Iterator[tuple[T, ...]]:
    source = iter(given)
    while part := tuple(islice(source, size)):
        yield part


def _kind(item: Item, asked: Asked) -> tuple[int, str, str]:
    """What sets apart the items that cannot share a pass."""
    edit = item.condition.label if asked.edit is not None else ""
    return (0, "", edit) if asked.appended is None else (asked.appended.count, asked.appended.fill, edit)


def _length(asked: Asked) -> int:
    example = asked.example
    return len(example.question) + sum(len(document.title) + len(document.text) for document in example.documents)
