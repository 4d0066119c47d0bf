"""Copies of gold documents that state a wrong answer: every mention of every accepted answer is replaced.

A wrong answer is an accepted answer of another question of the data. For a question of the scale world it answers the
same attribute; for others the most similar one is taken, first by how it is written (date, number, name or words), then
by what is asked for (who, when, where, how many), then by its number of words. It neither contains an accepted answer
nor is contained in one, and it does not occur in the question or the document.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from floatlens.core.errors import FloatlensError
from floatlens.data.examples import Example
from floatlens.data.matching import holds_answer, normalise
from floatlens.data.stress.evidence import evidence_order
from floatlens.data.stress.mentions import find_mentions, replace_mentions
from floatlens.data.stress.pool import Answer, Pool, asked_for, sort_of
from floatlens.data.stress.seeds import generator
from floatlens.prompts import Document

__all__ = ["counterfactuals", "no_counterfactual"]

_LEADING_ARTICLE = re.compile(r"\A(?:a|an|the)\s+(?=\S)", re.IGNORECASE)
_BLOT = "\N{BLACK SQUARE}"


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
    sources = _sources(example)
    if not sources:
        return "names no accepted answer in its gold documents, so none can be replaced there"
    if any(_tells(_copy(source, example.answers, _BLOT), example.answers) for source in sources):
        return "has an accepted answer so short that it is part of other words of the gold document"
    return None


# -- documents ----------------------------------------------------------------------------------------------------


def _sources(example: Example) -> list[Document]:
    """The gold documents that state the answer, in evidence order."""
    gold = [example.documents[i] for i in evidence_order(example)]
    return [d for d in gold if find_mentions(d.title, example.answers) or find_mentions(d.text, example.answers)]


def _copy(source: Document, answers: list[str], wrong: str) -> Document:
    title, text = (replace_mentions(part, answers, wrong) for part in (source.title, source.text))
    return Document(title=title, text=text, is_gold=False)


def _tells(document: Document, answers: list[str]) -> bool:
    return holds_answer(f"{document.title} {document.text}", answers)


# -- wrong answers ------------------------------------------------------------------------------------------------


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
