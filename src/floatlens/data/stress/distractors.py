"""Documents that do not answer a question: which are allowed, and in which order they are used.

A distractor holds no accepted answer, is not a gold document and does not have the title of one: another document about
the same subject would contradict it. None is used twice. The question's own documents that are not gold come first, as
they fit it best (RGB's negatives, the neighbours in the scale world), then those of the pool, both in a seeded order. A
document of the pool never has the title of a distractor before it: as a document of another question, it may contradict
it.

The order does not depend on the number, so the distractors of a small dose are the first of a larger one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from floatlens.core.errors import FloatlensError
from floatlens.data.examples import Example
from floatlens.data.matching import normalise
from floatlens.data.stress.pool import Pool, same_text, sort_of
from floatlens.data.stress.seeds import generator
from floatlens.prompts import Document

__all__ = ["Rules", "random_distractors", "topic_distractors"]


class Rules:
    """What the distractors of one question must not be. An empty title does not count as one.

    In the scale world they must not name the subject of the question either: a second document there can state the same
    marriage in other words, and BM25 would find just that one.
    """

    def __init__(self, example: Example) -> None:
        gold = [document for document in example.documents if document.is_gold]
        barred = [normalise(answer) for answer in example.answers]
        if sort_of(example) is not None:
            barred.append(normalise(str(example.meta.get("subject", ""))))
        self._barred = [text for text in barred if text]
        self._titles = {title_of(document) for document in gold} - {""}
        self._gold = {same_text(document) for document in gold}

    def allow(self, document: Document) -> bool:
        """Whether a document may be a distractor."""
        said = normalise(f"{document.title} {document.text}")
        return (
            title_of(document) not in self._titles
            and not any(barred in said for barred in self._barred)
            and same_text(document) not in self._gold
        )


def random_distractors(example: Example, pool: Pool, count: int, seed: int) -> list[Document]:
    """The first `count` of the question's own and then of the pool's, each in a seeded order."""
    own = [document for document in example.documents if not document.is_gold]
    return _take(example, _fitting(example, _shuffled(example, own, "own", seed), _pooled(example, pool, seed)), count)


def topic_distractors(example: Example, pool: Pool, count: int) -> list[Document]:
    """The `count` allowed documents of the pool that are nearest to the question by BM25, best first."""
    return _take(example, _fitting(example, (), pool.nearest(example.question)), count, "sharing a word with it ")


def title_of(document: Document) -> str:
    """A title for comparison, without case and extra spaces."""
    return " ".join(document.title.casefold().split())


# -- candidates in order ------------------------------------------------------------------------------------------


def _pooled(example: Example, pool: Pool, seed: int) -> Iterator[Document]:
    """A generator, so no order is drawn for a pool that is not needed."""
    yield from _shuffled(example, pool.documents, "pool", seed)


def _shuffled(example: Example, given: Iterable[Document], which: str, seed: int) -> Iterator[Document]:
    documents = list(given)
    for number in generator(seed, example.id, "distractors", which).permutation(len(documents)).tolist():
        yield documents[number]


def _fitting(example: Example, own: Iterable[Document], pooled: Iterable[Document]) -> Iterator[Document]:
    rules, seen, titles = Rules(example), set[str](), set[str]()
    for source, is_own in ((own, True), (pooled, False)):
        for document in source:
            key, title = same_text(document), title_of(document)
            if key in seen or (not is_own and title in titles) or not rules.allow(document):
                continue
            seen.add(key)
            titles |= {title} - {""}
            yield document


def _take(example: Example, fitting: Iterator[Document], count: int, which: str = "") -> list[Document]:
    taken = list(islice(fitting, count))
    if len(taken) < count:
        raise FloatlensError(
            f'question "{example.id}" needs {count} distractors, and only {len(taken)} documents {which}qualify '
            "(no accepted answer, no gold title); use data with more questions, or fewer distractors"
        )
    return taken
