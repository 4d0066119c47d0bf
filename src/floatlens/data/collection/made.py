"""A changing collection made from questions with gold documents: from a seed, one change for each question or none.

In the order of the data questions are, in turn, untouched, corrected (their answer is replaced in their gold documents
by one of the same kind, as for counterfactual distractors), withdrawn and added late. The date of a change is drawn.
Snapshots are a year apart; the years mean nothing. All other documents are there from the beginning.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from floatlens.core.errors import FloatlensError
from floatlens.data.collection.versions import DatedCollection, Version
from floatlens.data.examples import Example
from floatlens.data.matching import holds_answer, normalise, replace_mentions
from floatlens.data.stress.arrangement import generator
from floatlens.data.stress.distractors import counterfactuals
from floatlens.data.stress.pool import Pool, same_text
from floatlens.prompts import Document

__all__ = ["FATES", "make_collection", "snapshot_dates", "versions_of"]

FATES = ("untouched", "corrected", "withdrawn", "added")
_FIRST_YEAR = 2021


def snapshot_dates(count: int) -> list[str]:
    """The dates of made snapshots. Example: `snapshot_dates(2)  # ["2021-01-01", "2022-01-01"]`"""
    return [f"{_FIRST_YEAR + i}-01-01" for i in range(count)]


def versions_of(first: Version, fate: str, when: str, corrected: Version | None = None) -> list[Version]:
    """A document, there from the beginning, after its fate at a date: one version or two."""
    if fate == "added":
        return [first.model_copy(update={"start": when})]
    if fate == "withdrawn":
        return [first.model_copy(update={"end": when, "withdrawn": True})]
    if fate == "corrected" and corrected is not None:
        later = corrected.model_copy(update={"start": when, "corrects": True})
        return [first.model_copy(update={"end": when}), later]
    return [first]


@dataclass(frozen=True)
class _Change:
    question: str
    fate: str
    when: str
    answers: tuple[str, ...]
    wrong: str = ""

    def versions(self, first: Version) -> list[Version]:
        corrected = None
        if self.wrong:
            title, text = (replace_mentions(part, self.answers, self.wrong) for part in (first.title, first.text))
            corrected = first.model_copy(
                update={"title": title, "text": text, "answers": {self.question: (self.wrong,)}}
            )
        return versions_of(first, self.fate, self.when, corrected)


def make_collection(examples: Iterable[Example], snapshots: int, seed: int) -> DatedCollection:
    """All documents of the questions, each once, with the changes of `snapshots` snapshots.

    A question stays untouched if one of its documents is gold for another question too, or if its answer cannot be
    replaced. Example: `make_collection(data.everything(), 4, seed=0).sentence()`
    """
    asked, dates = list(examples), snapshot_dates(snapshots)
    pool = Pool.of(asked)
    documents: dict[str, Document] = {}
    answers: dict[str, dict[str, tuple[str, ...]]] = {}
    for one in asked:
        for document in one.documents:
            documents.setdefault(same_text(document), document)
        for document in _stating(one):
            answers.setdefault(same_text(document), {})[one.id] = tuple(one.answers)
    changes: dict[str, _Change] = {}
    for number, one in enumerate(asked):
        keys = [same_text(document) for document in _stating(one)]
        if keys and all(len(answers[key]) == 1 for key in keys):
            change = _change(one, FATES[number % len(FATES)], dates, pool, seed)
            changes |= dict.fromkeys(keys, change)
    made: list[Version] = []
    for number, (key, document) in enumerate(documents.items()):
        first = Version(
            id=f"d{number}",
            title=document.title,
            text=document.text,
            start=dates[0],
            answers=answers.get(key, {}),
        )
        made += changes[key].versions(first) if key in changes else [first]
    return DatedCollection(made)


def _stating(example: Example) -> list[Document]:
    """The gold documents that state the answer; where none does in these words, all gold documents."""
    if not any(normalise(answer) for answer in example.answers):
        return []
    gold = [document for document in example.documents if document.is_gold]
    return [one for one in gold if holds_answer(f"{one.title} {one.text}", example.answers)] or gold


def _change(example: Example, fate: str, dates: Sequence[str], pool: Pool, seed: int) -> _Change:
    when = dates[int(generator(seed, example.id, "collection").integers(1, len(dates)))]
    if fate != "corrected":
        return _Change(example.id, fate, when, tuple(example.answers))
    try:
        if example.answer_kind != "text":
            raise FloatlensError("only a text can be replaced by another one")
        _, (wrong,) = counterfactuals(example, pool, 1, seed)
    except FloatlensError:  # the answer is not in the documents, or too short to be replaced
        return _Change(example.id, "untouched", when, tuple(example.answers))
    return _Change(example.id, fate, when, tuple(example.answers), wrong)
