"""What a pool keeps, and what BM25 finds in it."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest

from floatlens.core.errors import FloatlensError
from floatlens.data import Example, open_index
from floatlens.data.stress import Pool
from floatlens.data.stress.pool import Answer, asked_for
from floatlens.prompts import Document


def example(number: int, *texts: str, answers: tuple[str, ...] = (), **meta: object) -> Example:
    documents = [Document(title=f"T{text}", text=text, is_gold=i == 0) for i, text in enumerate(texts)]
    return Example(id=f"q{number}", question="Who?", answers=list(answers), documents=documents, meta=meta)


def test_documents_once_and_as_distractors() -> None:
    pool = Pool.of([example(0, "one", "two"), example(1, "two", "three"), example(2, "The ONE!", "one")])
    assert [document.text for document in pool.documents] == ["one", "two", "three", "The ONE!"]  # titles differ
    assert not any(document.is_gold for document in pool.documents)
    assert len(pool) == 4


def test_a_limit_and_a_stream() -> None:
    read = 0

    def stream() -> Iterator[Example]:
        nonlocal read
        for i in range(1000):
            read += 1
            yield example(i, f"text {i}", f"more {i}", answers=(f"answer {i}",))

    pool = Pool.of(stream(), limit=7)
    assert [document.text for document in pool.documents] == [f"{w} {i}" for i in range(4) for w in ("text", "more")][
        :7
    ]
    assert len(pool.answers) == 7
    assert read == 7
    with pytest.raises(FloatlensError, match="limit=0"):
        Pool.of([], limit=0)


def test_the_first_answer_of_every_question_once() -> None:
    pool = Pool.of(
        [
            example(0, answers=("Paris", "City of Light")),
            example(1, answers=("paris.",)),
            example(2, answers=()),
            example(3, answers=("the",)),
            example(4, answers=("Paris",), world=[0, 1], path=["spouse", "city"]),
        ]
    )
    assert [(answer.text, answer.sort) for answer in pool.answers] == [("Paris", None), ("Paris", "city")]


@pytest.mark.parametrize(
    ("text", "shape", "words"),
    [
        ("1901", "date", 1),
        ("May 4", "date", 2),
        ("12 March 1990", "date", 3),
        ("May", "name", 1),
        ("7,731,004", "number", 1),
        ("three hundred", "number", 2),
        ("Someone Else", "name", 2),
        ("the spleen", "words", 1),
    ],
)
def test_shapes(text: str, shape: str, words: int) -> None:
    assert (Answer(text).shape, Answer(text).words) == (shape, words)


@pytest.mark.parametrize(
    ("question", "asked"),
    [
        ("Who was it?", "who"),
        ("by whom was it", "who"),
        ("whose house", "who"),
        ("When and where?", "when"),
        ("in HOW MANY ways", "how many"),
        ("name the whole", ""),
    ],
)
def test_what_is_asked_for(question: str, asked: str) -> None:
    assert asked_for(Example(id="q", question=question)) == asked


def test_nearest_is_what_an_index_of_the_same_texts_finds(tmp_path: Path) -> None:
    texts = ["green flag", "red flag flag", "a river", "green river flag", "green flag", "nothing here"]
    corpus = tmp_path / "c.jsonl"
    corpus.write_text("".join(json.dumps({"title": f"no{i}", "text": text}) + "\n" for i, text in enumerate(texts)))
    pool = Pool([Document(title=f"no{i}", text=text) for i, text in enumerate(texts)])
    found = open_index(corpus, cache=tmp_path / "x").search("the green flag?", 6)
    assert [d.title for d in pool.nearest("the green flag?")] == [one.passage.title for one in found]
    first = [d.title for d in pool.nearest("the green flag?")]
    assert first.index("no0") < first.index("no4")  # equal ones, the earlier first
    assert "no2" not in first
    assert "no5" not in first


@pytest.mark.parametrize("texts", [[], ["?!", "a"], ["x"]])
def test_a_pool_without_words_finds_nothing(texts: list[str]) -> None:
    assert list(Pool([Document(text=text) for text in texts]).nearest("green flag")) == []
    assert list(Pool([Document(text="green flag")]).nearest("?")) == []


def test_a_pool_can_be_sent_to_another_process() -> None:
    pool = Pool.of([example(0, "green flag", "red flag", answers=("x",))])
    wanted = list(pool.nearest("red"))  # the index is made by now
    copy = pickle.loads(pickle.dumps(pool))  # noqa: S301 (our own, made a line above)
    assert (copy.documents, copy.answers, list(copy.nearest("red"))) == (pool.documents, pool.answers, wanted)
