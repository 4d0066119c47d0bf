"""Documents that do not answer a question: random ones, those on its topic, and counterfactual copies of the gold.

A distractor states no accepted answer and no wrong one that the data names, is not a gold document and does not have
the title of one: another document about the same subject would contradict it. None is used twice. The question's own
documents that are not gold come first, as they fit it best, then those of the pool, both in a seeded order; one of the
pool never has the title of a distractor before it. The order does not depend on the number, so the distractors of a
small dose are the first of a larger one.

A counterfactual states a wrong answer: every mention of every accepted answer is replaced by an accepted answer of
another question. For a question of the scale world it answers the same attribute; for others the most similar one is
taken, first by how it is written (date, number, name or words), then by what is asked for (who, when, where, how many),
then by its number of words. It neither contains an accepted answer nor is contained in one, and it does not occur in
the question or the document.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import numpy as np

from floatlens.core.errors import FloatlensError
from floatlens.data.examples import Example
from floatlens.data.matching import find_mentions, holds_answer, normalise, replace_mentions
from floatlens.data.stress.arrangement import evidence_order, generator
from floatlens.data.stress.pool import Answer, Pool, asked_for, same_text, sort_of
from floatlens.prompts import Document

__all__ = [
    "counterfactuals",
    "no_counterfactual",
    "no_wrong_documents",
    "random_distractors",
    "topic_distractors",
    "wrong_documents",
]

_LEADING_ARTICLE = re.compile(r"\A(?:a|an|the)\s+(?=\S)", re.IGNORECASE)


def random_distractors(example: Example, pool: Pool, count: int, seed: int) -> list[Document]:
    """The first `count` of the question's own and then of the pool's, each in a seeded order."""
    own = [document for document in example.documents if not document.is_gold]
    first, then = _shuffled(example, own, "own", seed), _shuffled(example, pool.documents, "pool", seed)
    return _take(example, _fitting(example, first, then), count)


def topic_distractors(example: Example, pool: Pool, count: int) -> list[Document]:
    """The `count` allowed documents of the pool that are nearest to the question by BM25, best first."""
    return _take(example, _fitting(example, (), pool.nearest(example.question)), count, "sharing a word with it ")


def _shuffled(example: Example, documents: Sequence[Document], which: str, seed: int) -> Iterator[Document]:
    for number in generator(seed, example.id, "distractors", which).permutation(len(documents)).tolist():
        yield documents[number]


def _fitting(example: Example, own: Iterable[Document], pooled: Iterable[Document]) -> Iterator[Document]:
    """Those that may be distractors, in their order. An empty title does not count as one."""
    gold = [document for document in example.documents if document.is_gold]
    barred = [*example.answers, *example.wrong_answers]
    if sort_of(example) is not None:  # a second document of the scale world may say the same in other words
        barred.append(str(example.meta.get("subject", "")))
    seen = {same_text(document) for document in gold}
    gold_titles = {_title(document) for document in gold} - {""}
    titles: set[str] = set()
    for source, is_own in ((own, True), (pooled, False)):
        for document in source:
            key, title = same_text(document), _title(document)
            if key in seen or title in gold_titles or (not is_own and title in titles):
                continue
            if not holds_answer(f"{document.title} {document.text}", barred):
                seen.add(key)
                titles |= {title} - {""}
                yield document


def _title(document: Document) -> str:
    """A title for comparison, without case and extra spaces."""
    return " ".join(document.title.casefold().split())


def _take(example: Example, fitting: Iterator[Document], count: int, which: str = "") -> list[Document]:
    taken = list(islice(fitting, count))
    if len(taken) < count:
        raise FloatlensError(
            f'question "{example.id}" needs {count} distractors, and only {len(taken)} documents {which}qualify '
            "(no accepted answer, no gold title); use data with more questions, or fewer distractors"
        )
    return taken


def wrong_documents(example: Example) -> list[Document]:
    """The documents that state a wrong answer, as the data has them; without those that state an accepted one too."""
    found = [one for one in example.wrong_documents if not holds_answer(f"{one.title} {one.text}", example.answers)]
    return [one.model_copy(update={"is_gold": False}) for one in found]


def no_wrong_documents(example: Example, count: int, test: str) -> str | None:
    """Why the data of a question has too few of them for a test, to be read after "question"; None if it has enough."""
    found = len(wrong_documents(example))
    if found >= count:
        return None
    return f"has {found} document{'s' * (found != 1)} with a wrong answer, and {test} needs {count}"


def counterfactuals(example: Example, pool: Pool, count: int, seed: int) -> tuple[list[Document], list[str]]:
    """`count` copies, each with a wrong answer of its own, and these answers; several gold documents take turns."""
    reason = no_counterfactual(example)
    if reason is not None:
        raise FloatlensError(f'question "{example.id}" {reason}')
    sources = _sources(example)
    copies: list[Document] = []
    replaced: list[str] = []
    for wrong in _wrong_answers(example, pool, sources, seed):
        if len(copies) == count:
            break
        copy = _copy(sources[len(copies) % len(sources)], example.answers, wrong)
        if not _tells(copy, example.answers):  # the wrong answer and the words around it may form an accepted one
            copies.append(copy)
            replaced.append(wrong)
    if len(copies) < count:
        raise FloatlensError(
            f'question "{example.id}" needs {count} counterfactuals, and the data has only {len(copies)} wrong answers '
            "of the same sort; use data with more questions, or fewer distractors"
        )
    return copies, replaced


def no_counterfactual(example: Example) -> str | None:
    """Why no copy of this question's gold documents can state a wrong answer; None if one can."""
    if not any(normalise(answer) for answer in example.answers):
        return "has no accepted answer that could be replaced"
    if not _sources(example):
        return "names no accepted answer in its gold documents, so none can be replaced there"
    return None


def _sources(example: Example) -> list[Document]:
    """The gold documents that state the answer, in evidence order."""
    gold = [example.documents[i] for i in evidence_order(example)]
    return [d for d in gold if find_mentions(d.title, example.answers) or find_mentions(d.text, example.answers)]


def _copy(source: Document, answers: list[str], wrong: str) -> Document:
    title, text = (replace_mentions(part, answers, wrong) for part in (source.title, source.text))
    return Document(title=title, text=text, is_gold=False)


def _tells(document: Document, answers: list[str]) -> bool:
    return holds_answer(f"{document.title} {document.text}", answers)


def _wrong_answers(example: Example, pool: Pool, sources: list[Document], seed: int) -> Iterator[str]:
    """The most similar first, ties in a seeded order; without an article, as the text has one already."""
    accepted = [wanted for answer in example.answers if (wanted := normalise(answer))]
    around = [normalise(text) for text in (example.question, *(f"{d.title} {d.text}" for d in sources))]
    for number in _by_likeness(example, pool, seed):
        wrong = _LEADING_ARTICLE.sub("", pool.answers[number].text)
        said = normalise(wrong)
        kin = any(said in wanted or wanted in said for wanted in accepted)
        if said and not kin and not any(said in text for text in around):
            yield wrong


def _by_likeness(example: Example, pool: Pool, seed: int) -> list[int]:
    rank = generator(seed, example.id, "wrong answers").permutation(len(pool.answers))
    sort = sort_of(example)
    if sort is not None:
        of_sort = [i for i, answer in enumerate(pool.answers) if answer.sort == sort]
        return sorted(of_sort, key=lambda i: int(rank[i]))
    model = next(Answer(answer, None, asked_for(example)) for answer in example.answers if normalise(answer))
    shapes, asked, words = pool.answer_looks
    unlike = (np.abs(words - model.words), asked != model.asked, shapes != model.shape)  # the last weighs most
    order: list[int] = np.lexsort((rank, *unlike)).tolist()
    return order
