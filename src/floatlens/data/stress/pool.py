"""The pool that distractors are drawn from: the documents of all questions of the data, and their accepted answers.

A pool draws nothing; what fits a question is decided in `distractors` and `counterfactual`. The first documents of the
data are kept, up to a limit, so a pool of any file fits into memory and the same data always gives the same pool.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from floatlens.core.errors import FloatlensError
from floatlens.data.examples import Example
from floatlens.data.matching import normalise
from floatlens.data.retrieval import Bm25
from floatlens.prompts import Document

__all__ = ["Answer", "Pool", "asked_for", "same_text", "sort_of"]

_YEAR = re.compile(r"\b(?:1\d|20)\d\d\b")
_MONTH = re.compile(
    r"\b(?:january|february|march|april|may|june|july|august|september|october|november|december)\b", re.IGNORECASE
)
_NUMBER = re.compile(
    r"\d|^(?:zero|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty|thirty|forty|fifty|hundred"
    r"|thousand|million|billion)\b",
    re.IGNORECASE,
)
_ASKED = re.compile(r"\b(?:(who)(?:m|se)?|(when)|(where)|(how (?:many|much|long|old)))\b", re.IGNORECASE)


@dataclass(frozen=True)
class Answer:
    """An accepted answer; `sort` is the attribute asked for in the scale world, `asked` the question word."""

    text: str
    sort: str | None = None
    asked: str = ""

    @property
    def shape(self) -> str:
        """How it is written: date, number, name or words."""
        if _YEAR.search(self.text) or (_MONTH.search(self.text) and re.search(r"\d", self.text)):
            return "date"
        if _NUMBER.search(self.text):
            return "number"
        return "name" if self.text[:1].isupper() else "words"

    @property
    def words(self) -> int:
        """The number of words after normalisation."""
        return len(normalise(self.text).split())


class Pool:
    """Distinct documents and answers. Example: `len(Pool.of(open_data("nq.jsonl").examples()))`"""

    def __init__(self, documents: Iterable[Document], answers: Iterable[Answer] = ()) -> None:
        self.documents = tuple(documents)
        self.answers = tuple(answers)

    @classmethod
    def of(cls, examples: Iterable[Example], limit: int = 50_000) -> Pool:
        """The documents and the first accepted answer of every question, each once, at most `limit` of either."""
        if limit < 1:
            raise FloatlensError(f"limit={limit}: expected at least 1 document in the pool")
        documents: dict[str, Document] = {}
        answers: dict[tuple[str | None, str], Answer] = {}
        for example in examples:
            for document in example.documents:
                if len(documents) < limit:
                    documents.setdefault(same_text(document), document.model_copy(update={"is_gold": False}))
            for text in example.answers[:1]:
                made = Answer(text.strip(), sort_of(example), asked_for(example))
                if normalise(text) and len(answers) < limit:
                    answers.setdefault((made.sort, normalise(text)), made)
            if len(documents) == len(answers) == limit:
                break
        return cls(documents.values(), answers.values())

    def __len__(self) -> int:
        return len(self.documents)

    def nearest(self, question: str) -> Iterator[Document]:
        """The documents that share a word with the question, best first by BM25; ties in the order of the data."""
        best = self._bm25.best(question, len(self)) if self.documents else []
        return (self.documents[number] for number, _ in best)

    @cached_property
    def answer_looks(self) -> tuple[NDArray[np.str_], NDArray[np.str_], NDArray[np.int64]]:
        """(answer) shape, question word and number of words."""
        shapes = np.array([answer.shape for answer in self.answers], dtype=str)
        asked = np.array([answer.asked for answer in self.answers], dtype=str)
        return shapes, asked, np.array([answer.words for answer in self.answers], dtype=np.int64)

    @cached_property
    def _bm25(self) -> Bm25:
        return Bm25.of(f"{document.title} {document.text}" for document in self.documents)


def same_text(document: Document) -> str:
    """The key by which two documents count as the same."""
    return f"{normalise(document.title)}\n{normalise(document.text)}"


def sort_of(example: Example) -> str | None:
    """The attribute that a question of the scale world asks for; None for any other question."""
    path = example.meta.get("path")
    return str(path[-1]) if "world" in example.meta and isinstance(path, list) and path else None


def asked_for(example: Example) -> str:
    """The first question word that shows what the answer is: who, when, where, how many; empty if there is none."""
    found = _ASKED.search(example.question)
    return next(word for word in found.groups() if word).lower() if found else ""
