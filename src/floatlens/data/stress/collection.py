"""collection: the same question against successive snapshots of documents that are added, corrected and withdrawn.

The collection is that of the data, if it has one; otherwise it is made from the documents of all questions. What is
shown at a snapshot is what BM25 finds in the collection as of its date; what is right is what its documents say then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Self

from pydantic import Field, PrivateAttr, field_validator

from floatlens.core.errors import FloatlensError
from floatlens.data.collection import DatedCollection, DatedIndex, Version, View, view_at
from floatlens.data.collection.made import make_collection
from floatlens.data.collection.versions import as_date, short_date
from floatlens.data.examples import Example
from floatlens.data.stress.base import Distinct, Point, StressTest
from floatlens.data.stress.pool import Pool
from floatlens.prompts import Document

if TYPE_CHECKING:
    from floatlens.data.sources import Data

__all__ = ["ChangingCollection"]


@dataclass(frozen=True)
class _Prepared:
    """The snapshots of a collection, and by snapshot what was found for each question, in full."""

    dates: tuple[str, ...]
    made: bool
    views: dict[str, tuple[View, ...]]
    found: dict[str, tuple[list[tuple[Version, float]], ...]]


class ChangingCollection(StressTest):
    name = "collection"
    title = "Changing collection"
    about = "Documents are added, corrected and withdrawn from one snapshot to the next."
    axis = "snapshot"
    note = "Accuracy is on the answer that is right at the snapshot; a question without one is left out there."
    summary = "mean"
    reference = None
    by_default = False

    snapshots: int = Field(4, ge=2, description="number of snapshots")
    dates: Distinct[str] | None = Field(None, description="dates of the snapshots; None: chosen by where changes are")
    top: int = Field(5, ge=1, description="documents retrieved at every snapshot")

    _prepared: _Prepared | None = PrivateAttr(None)

    @field_validator("dates", mode="before")
    @classmethod
    def _texts(cls, given: Any) -> Any:
        return [str(one) for one in given] if isinstance(given, list | tuple) else given

    @field_validator("dates")
    @classmethod
    def _days(cls, given: tuple[str, ...] | None) -> tuple[str, ...] | None:
        try:
            return None if given is None else tuple(sorted(as_date(one, "dates") for one in given))
        except FloatlensError as error:
            raise ValueError(str(error).removeprefix("dates: ")) from None

    def prepare(self, data: Data, pool: Pool) -> Self:
        """With the snapshots of a data set, and everything that is found in them."""
        own = data.collection
        collection = own or make_collection(data.everything(), self.snapshots, self.seed)
        dates = self.dates or tuple(collection.choose_dates(self.snapshots))
        made = self.model_copy()
        made._prepared = self._look(collection, dates, [*data.examples()], made=own is None)
        return made

    def _look(
        self, collection: DatedCollection, dates: Sequence[str], examples: Sequence[Example], made: bool
    ) -> _Prepared:
        """Snapshot by snapshot, so the index only moves forward."""
        index = DatedIndex(collection)
        found: dict[str, list[Any]] = {example.id: [] for example in examples}
        for date in dates:
            index.move_to(date)
            for example in examples:
                found[example.id].append(index.search(example.question, self.top))
        before = [None, *dates]
        views = {
            example.id: tuple(view_at(collection, example.id, date, before[i]) for i, date in enumerate(dates))
            for example in examples
        }
        return _Prepared(tuple(dates), made, views, {id: tuple(each) for id, each in found.items()})

    def points(self) -> Sequence[Point]:
        """Named by date once the data is known, else by number."""
        known = self._prepared
        words = [f"snapshot {i + 1}" for i in range(self.snapshots)] if known is None else map(short_date, known.dates)
        return tuple(Point(self.name, self.name, float(i), word) for i, word in enumerate(words))

    def lacks(self, example: Example) -> str | None:
        known = self._prepared
        if known is None:
            return "belongs to no collection yet; prepare the test with the data first"
        if example.id not in known.views:
            return "was not among the questions that the test was prepared with"
        if any(view.current for view in known.views[example.id]):
            return None
        gold_missing = super().lacks(example) if known.made else None
        return gold_missing or "has an answer at none of the snapshots: no document of the collection states one"

    def transform(self, example: Example, point: Point, pool: Pool) -> Example:
        known = self._prepared
        assert known is not None  # `lacks` was asked first
        place = int(point.x)
        view, found = known.views[example.id][place], known.found[example.id][place]
        golds = [version in view.gold for version, _ in found]
        documents = [
            Document(title=version.title, text=version.text, is_gold=gold)
            for (version, _), gold in zip(found, golds, strict=True)
        ]
        stress = {
            "documents": len(found),
            "gold": sum(golds),
            "gold_places": [i for i, gold in enumerate(golds) if gold],
            "distractors": len(found) - sum(golds),
        }
        told = {key: value for key, value in asdict(view).items() if key != "gold"}
        snapshot = told | {"gold": len(view.gold), "gold_found": sum(golds)}
        retrieval = {"k": self.top, "found": [{"id": v.id, "score": round(score, 6)} for v, score in found]}
        meta = example.meta | {"stress": stress, "snapshot": snapshot, "retrieval": retrieval}
        changed: dict[str, Any] = {"answers": list(view.current), "documents": documents, "meta": meta}
        if example.answer_kind == "parts":  # documents state whole answers
            changed |= {"answer_kind": "text", "answer_parts": []}
        return example.model_copy(update=changed)
