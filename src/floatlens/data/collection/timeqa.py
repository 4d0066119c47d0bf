"""TimeQA by date, a question source: `timeqa:FILE` asks what is true of a page's subject, without naming a year.

TimeQA asks about periods ("… from 2001 to 2019?") on pages as they are today. Here each page is one question, the first
whose period can be cut out, and each period a document: the sentence of the page that states the period's answer, there
from the year in which the period begins. The next period corrects it; a period after which nothing is known withdraws
it. All other paragraphs are there from the beginning, without those that state one of the answers. Two things are
approximated: when a sentence was written, and that the question is the same for all periods (docs/data.md).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from floatlens.core.errors import FloatlensError
from floatlens.core.files import digest_of_file
from floatlens.data.collection.versions import DatedCollection, Version, as_date
from floatlens.data.examples import Example
from floatlens.data.fields import Record
from floatlens.data.formats.timeqa import TimeQa
from floatlens.data.matching import holds_answer, normalise
from floatlens.data.reader import Tally, read_records
from floatlens.data.sources import Questions
from floatlens.data.tables import stem_of
from floatlens.prompts import Document

__all__ = ["open_questions", "undated"]

VERSION = 1
_BEGINNING = "1000-01-01"
_SHORTEST = 80
"""Characters of a paragraph that is a document; shorter ones are headings and lines of lists."""
_YEAR = r"(?:1[0-9]{3}|20[0-9]{2})"
_BEFORE = r"(?:(?:the\s+)?(?:years?|months?\s+of)\s+)?(?:[A-Za-z]{3,9}\.?,?\s+)?"  # "the year", "Mar"
_PERIOD = re.compile(
    rf"\s*,?\s*\b(?:from|between|during|in|since)\s+{_BEFORE}(?P<first>{_YEAR})"
    rf"(?:\s*(?:to|until|till|and|through|-|–)\s*{_BEFORE}(?P<last>{_YEAR}))?\s*,?",
    re.IGNORECASE,
)
_END = re.compile(r"(?<=\s[.!?])\s+")
"""Between sentences: TimeQA writes full stops as words of their own."""


@dataclass(frozen=True)
class _Period:
    first: int
    last: int
    answers: tuple[str, ...]
    sentence: str


def open_questions(rest: str, *, limit: int | None, documents: int | None) -> Questions:
    """The pages of a file of TimeQA. Example: `open_questions("timeqa.json.gz", limit=60, documents=None)`"""
    if documents is not None:
        raise FloatlensError("documents are retrieved from the collection; leave documents out, or set collection:top")
    path = Path(rest)
    if not rest or not path.is_file():
        raise FloatlensError("no such file; give a file of TimeQA after timeqa:")
    pages = list(_pages(path))
    examples = [page.example() for page in pages if page.asked]
    if not examples:
        raise FloatlensError("no page has two periods with answers that its sentences state one at a time")
    versions = [version for page in pages for version in page.versions()]
    return Questions(
        examples[:limit],
        title="TimeQA by date",
        version=VERSION,
        identity=f"timeqa by date {VERSION} {digest_of_file(path)}",
        collection=DatedCollection(versions),
        name=f"{stem_of(path)} by date",
    )


def undated(question: str) -> tuple[str, int, int] | None:
    """A question without its period, and the period's first and last year; None if that cannot be cut out.

    Example: `undated("Who owned Condor from 2006 to Mar 2020?")  # ("Who owned Condor?", 2006, 2020)`
    """
    found = list(_PERIOD.finditer(question))
    if len(found) != 1:
        return None
    first = int(found[0]["first"])
    last = int(found[0]["last"] or first)
    left, right = question[: found[0].start()].strip(), question[found[0].end() :].strip()
    text = " ".join(filter(None, [left, right])).replace(" ?", "?")
    if re.search(_YEAR, text) or last < first or len(text.split()) < 3:
        return None
    return text[0].upper() + text[1:], first, last


class _Page:
    """The questions of a page: its periods, in order, and what it is asked."""

    def __init__(self, examples: list[Example]) -> None:
        self.id, self.title = examples[0].id.rpartition("/")[0], examples[0].documents[0].title
        self.paragraphs = [document.text for document in examples[0].documents]
        cut = [(example, undated(example.question)) for example in examples]
        dated = [(example, *when) for example, when in cut if when is not None and example.answers]
        every = [tuple(example.answers) for example, *_ in dated]
        found = [self._period(example, first, last, every) for example, _, first, last in dated]
        self.answers = [answer for answers in every for answer in answers]
        self.periods = sorted((one for one in found if one is not None), key=lambda one: (one.first, one.last))
        different = {normalise(one.answers[0]) for one in self.periods}
        apart = all(a.first < b.first for a, b in zip(self.periods, self.periods[1:], strict=False))
        self.asked = dated[0][1] if len(different) > 1 and apart else ""

    def _period(self, example: Example, first: int, last: int, every: list[tuple[str, ...]]) -> _Period | None:
        """With the first sentence that states its answer and that of no other period."""
        answers = tuple(example.answers)
        others = [one for other in every if other != answers for one in other if not _kin(one, answers)]
        for document in example.documents:
            for sentence in _END.split(document.text) if document.is_gold else ():
                if holds_answer(sentence, answers) and not holds_answer(sentence, others):
                    return _Period(first, last, answers, sentence)
        return None

    def example(self) -> Example:
        """What is asked, with the last document that there was."""
        last = self.periods[-1]
        gold = Document(title=self.title, text=last.sentence, is_gold=True)
        meta = {"years": [[one.first, one.last] for one in self.periods], "gold_by": "sentence"}
        return Example(id=self.id, question=self.asked, answers=list(last.answers), documents=[gold], meta=meta)

    def versions(self) -> Iterator[Version]:
        """Its paragraphs, and the sentences of its periods."""
        for number, text in enumerate(self.paragraphs):
            if len(text) >= _SHORTEST and not (self.asked and holds_answer(text, self.answers)):
                yield Version(id=f"{self.id}/p{number}", title=self.title, text=text, start=_BEGINNING)
        number, follows = 0, False
        for place, one in enumerate(self.periods if self.asked else ()):
            number += not follows
            after = self.periods[place + 1] if place + 1 < len(self.periods) else None
            joined = after is not None and after.first <= one.last + 1
            end = after.first if after is not None and joined else one.last + 1
            yield Version(
                id=f"{self.id}/{number}",
                title=self.title,
                text=one.sentence,
                start=as_date(one.first, "first"),
                end=as_date(end, "last"),
                withdrawn=not joined,
                corrects=follows,
                answers={self.id: one.answers},
            )
            follows = joined


def _kin(answer: str, others: tuple[str, ...]) -> bool:
    """Whether an answer says the same as another one."""
    return any(normalise(answer) == normalise(other) for other in others)


def _pages(path: Path) -> Iterator[_Page]:
    reader, tally = TimeQa(), Tally(skip_bad=False)

    def read(record: Record, number: int) -> list[Example]:
        return [reader.read(part, number) for part in reader.parts(record)]

    for examples in read_records(path, read, tally):
        if examples and examples[0].documents:
            yield _Page(examples)
    tally.finish(path, "page", stacklevel=3)
