"""What a set of questions holds, counted while it is read, and the sentences that say so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from floatlens.data.examples import Example
from floatlens.data.fields import in_short

__all__ = ["Counts"]

_TEXTS = {"text", "contents", "segment", "paragraph_text", "passage_text", "body"}


@dataclass
class Counts:
    """Numbers of questions, answers, documents and gold documents.

    `documents` and `gold` map a number per question to how many questions have it; `unread` are fields with objects
    that hold a text and are not documents, so a misnamed field of documents is not lost silently. `kinds` says how many
    questions are judged in which way, `wrong_answers` how many name wrong answers.

    Example: `Counts.of([]).questions`
    """

    questions: int = 0
    passages: int = 0
    answers: int = 0
    unanswered: int = 0
    unanswerable: int = 0
    targets: int = 0
    wrong_answers: int = 0
    wrong_documents: int = 0
    missing_gold: int = 0
    without_gold: int = 0
    documents: Counter[int] = field(default_factory=Counter)
    gold: Counter[int] = field(default_factory=Counter)
    types: Counter[str] = field(default_factory=Counter)
    unread: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of(cls, examples: Sequence[Example]) -> Counts:
        """The counts of examples."""
        counts = cls()
        for example in examples:
            counts.add(example)
        return counts

    def add(self, example: Example) -> None:
        """Count one more example."""
        if example.passage is not None:
            self.passages += 1
            return
        gold = sum(document.is_gold for document in example.documents)
        self.questions += 1
        self.answers += len(example.answers)
        self.unanswered += not example.answers
        self.unanswerable += example.meta.get("unanswerable") is True
        self.targets += example.target is not None
        self.wrong_answers += bool(example.wrong_answers)
        self.wrong_documents += len(example.wrong_documents)
        self.kinds[example.answer_kind] += 1
        self.missing_gold += bool(example.meta.get("missing_gold"))
        self.without_gold += bool(example.documents) and not gold and example.meta.get("unanswerable") is not True
        self.documents[len(example.documents)] += 1
        self.gold[gold] += 1
        self.unread.update(name for name, value in example.meta.items() if _holds_texts(value))
        types = example.meta.get("document_types")
        if isinstance(types, list):
            self.types.update(one for one in types if isinstance(one, str))

    @property
    def total_documents(self) -> int:
        """Documents of all questions."""
        return sum(number * questions for number, questions in self.documents.items())

    @property
    def total_gold(self) -> int:
        """Gold documents of all questions."""
        return sum(number * questions for number, questions in self.gold.items())

    def sentence(self) -> str:
        """Questions, documents and gold. Example: "200 questions, 199 with 10 documents, 2 gold each"."""
        if not self.questions:
            return f"{self.passages:,} passage{'s' * (self.passages != 1)} with a hole"
        said = [f"{self.questions:,} question{'s' * (self.questions != 1)}"]
        if not self.total_documents:
            return f"{said[0]}, no documents"
        said.append(_per_question(self.documents, "document"))
        said.append(_per_question(self.gold, "gold", plural="gold") if self.total_gold else "none marked as gold")
        return ", ".join(said)

    def notes(self, *, documents: bool = True) -> list[str]:
        """What is missing, one line each; `documents` says whether those of the data matter."""
        if not self.questions:
            return []
        return [*self._answer_notes(), *(self._document_notes() if documents else ())]

    def _answer_notes(self) -> list[str]:
        if not self.unanswered:
            return []
        marked = f" ({self.unanswerable:,} marked as unanswerable)" if self.unanswerable else ""
        if self.unanswered == self.questions:
            return [f"no accepted answers{marked}, so answers cannot be scored"]
        return [f"{self._some(self.unanswered)} no accepted answer{marked}"]

    def _document_notes(self) -> list[str]:
        notes = []
        if self.total_documents and self.documents[0]:
            notes.append(f"{self._some(self.documents[0])} no documents")
        if self.total_documents and not self.total_gold:
            notes.append('no document is marked as gold; gold "answer" marks those that contain an accepted answer')
        elif self.without_gold:
            notes.append(f"{self._some(self.without_gold)} documents, none of them gold")
        if self.missing_gold:
            notes.append(f"{self._some(self.missing_gold)} a gold document that is not among the documents")
        for name, questions in self.unread.items():
            notes.append(in_short(f'{self._some(questions)} texts in "{name}", which were not read as documents'))
        return notes

    def _some(self, number: int) -> str:
        return f"{number:,} of {self.questions:,} questions {'has' if number == 1 else 'have'}"


def _holds_texts(value: Any) -> bool:
    return isinstance(value, list) and any(isinstance(one, dict) and not _TEXTS.isdisjoint(one) for one in value)


def _per_question(counted: Counter[int], noun: str, plural: str | None = None) -> str:
    """A number that all questions share, that most share, or the range."""
    plural = plural or f"{noun}s"
    (most, questions), total = counted.most_common(1)[0], counted.total()
    named = f"{most:,} {noun if most == 1 else plural}"
    if questions == total:
        return f"{named} each"
    if questions >= 0.9 * total:
        return f"{questions:,} with {named}"
    return f"{min(counted):,} to {max(counted):,} {plural}"
