"""Cutting to fit: from the end, as little as possible, with a warning, and never the question."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from floatlens import prompts
from floatlens.core.errors import FloatlensError, FloatlensWarning
from floatlens.prompts import Document, Dropped

# With the word tokenizer: the BOS, 19 words of instruction (9 without documents), "[i]" and ten words per document, and
# "Question: q Answer:".
WORDS = [" ".join(f"{name}{i}" for i in range(10)) for name in "abcde"]
CLOSED = 1 + 9 + 3
RAG = 1 + 19 + 3


def build(tokenizer: Any, room: int, **more: Any) -> prompts.Prompt:
    return prompts.build(tokenizer, question="q", documents=WORDS, max_tokens=room, **more)


def test_the_counts_this_file_works_with(make_words: Any) -> None:
    assert len(prompts.build(make_words(), question="q")) == CLOSED
    assert len(prompts.build(make_words(), question="q", documents=WORDS)) == RAG + 5 * 11


def test_what_fits_is_left_alone(make_words: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        prompt = build(make_words(), RAG + 55)
    assert prompt.dropped is None
    assert len(prompt.documents) == 5


@pytest.mark.parametrize(
    ("room", "dropped", "shortened", "last"),
    [
        (RAG + 54, 0, 4, 9),  # one word of the last document goes
        (RAG + 46, 0, 4, 1),  # one word of it stays
        (RAG + 45, 1, None, 10),  # its number alone is of no use
        (RAG + 44, 1, None, 10),
        (RAG + 43, 1, 3, 9),
        (RAG + 2, 4, 0, 1),
        (RAG + 1, 5, None, None),
        (CLOSED, 5, None, None),
    ],
)
def test_cuts_from_the_end(make_words: Any, room: int, dropped: int, shortened: int | None, last: int | None) -> None:
    with pytest.warns(FloatlensWarning) as caught:
        prompt = build(make_words(), room)
    assert len(prompt) <= room
    kept = 5 - dropped
    assert len(prompt.documents) == kept
    whole = kept if shortened is None else kept - 1
    assert [document.text for document in prompt.documents[:whole]] == WORDS[:whole]
    if last is not None:
        assert prompt.documents[-1].text == " ".join(WORDS[kept - 1].split()[:last])
    assert prompt.dropped == Dropped(dropped, 5, RAG + 55 - len(prompt), shortened, "none")
    message = str(caught[0].message)
    assert (f"{dropped} of 5 documents dropped" in message) == (dropped > 0)
    assert (f"document {kept} shortened" in message) == (shortened is not None)
    assert f"({RAG + 55 - len(prompt)} tokens cut)" in message
    assert f"to fit {room} tokens" in message
    assert caught[0].filename == __file__


def test_no_documents_left_is_closed_book(make_words: Any) -> None:
    with pytest.warns(FloatlensWarning, match="5 of 5 documents dropped"):
        prompt = build(make_words(), CLOSED)
    assert prompt.ids == prompts.build(make_words(), question="q").ids
    assert prompt.regions == ["bos", "question", "answer", "template"]


@pytest.mark.parametrize(
    ("gold", "room", "fate", "message"),
    [
        (4, RAG + 50, "shortened", r"the gold document \(document 5\) was shortened"),
        (4, RAG + 30, "dropped", r"the gold document \(document 5\) was dropped"),
        (0, RAG + 30, "kept", r"tokens cut\)$"),
    ],
)
def test_the_gold_document_is_never_lost_in_silence(
    make_words: Any, gold: int, room: int, fate: str, message: str
) -> None:
    with pytest.warns(FloatlensWarning, match=message):
        prompt = build(make_words(), room, gold=gold, answers=[f"{'abcde'[gold]}0"])
    assert prompt.dropped is not None
    assert prompt.dropped.gold == fate
    assert prompt.gold == (None if fate == "dropped" else gold)
    assert prompt.evidence_kind == ("none" if fate == "dropped" else "answer")
    assert int(prompt.evidence.sum()) == (0 if fate == "dropped" else 1)


def test_an_answer_that_was_cut_off_is_not_evidence(make_words: Any) -> None:
    with pytest.warns(FloatlensWarning, match="gold document"):
        prompt = build(make_words(), RAG + 50, gold=4, answers=["e9"])
    assert prompt.evidence_kind == "passage"
    assert (prompt.evidence == prompt.mask("doc5")).all()


def test_the_question_is_never_cut(make_words: Any) -> None:
    with pytest.raises(FloatlensError, match=f"alone take {CLOSED} tokens, .* only {CLOSED - 1}"):
        build(make_words(), CLOSED - 1)
    with pytest.raises(FloatlensError, match=f"alone take {CLOSED} tokens"):
        prompts.build(make_words(), question="q", max_tokens=3)
    with pytest.raises(FloatlensError, match=f"alone take {CLOSED} tokens, .* only 0; write less"):
        build(make_words(), 0)


LONG = [
    Document(title="Émoji", text="  👩‍👩‍👧 family 😀😀😀 grins, שלום " * 3),
    Document(title="Paris", text="Paris lies on the Seine. " * 6),
    Document(text="日本の首都は東京です。" * 4, is_gold=True),
]


def test_every_room_gives_the_most_that_fits(tokenizer: Any) -> None:
    full = prompts.build(tokenizer, question="where?", documents=LONG)
    least = len(prompts.build(tokenizer, question="where?"))
    before = -1
    for room in range(least, len(full), 5):
        with pytest.warns(FloatlensWarning, match=f"to fit {room} tokens"):
            prompt = prompts.build(tokenizer, question="where?", documents=LONG, max_tokens=room)
        assert len(prompt) <= room
        for kept, given in zip(prompt.documents, LONG, strict=False):
            assert given.text.startswith(kept.text)
            assert kept.title == given.title
        assert prompt.dropped is not None
        assert prompt.dropped.tokens == len(full) - len(prompt)
        length = sum(len(document.text) for document in prompt.documents)
        assert length >= before
        before = length
    assert before > 0


def test_a_document_at_the_very_front_of_a_trimming_chat(make_bpe: Any, tmp_path: Any) -> None:
    path = tmp_path / "front.yaml"
    path.write_text(
        'name: f\nversion: 1\nclosed_book: "{question}"\nrag: "{documents} {question}"\ndocument: "{text}"\n',
        encoding="utf-8",
    )
    text = "   Paris lies on the Seine and Berlin lies on the Spree."
    ask: dict[str, Any] = {"question": "where?", "documents": [text], "template": path}
    full = prompts.build(make_bpe("llada"), **ask)
    with pytest.warns(FloatlensWarning, match="document 1 shortened"):
        prompt = prompts.build(make_bpe("llada"), **ask, max_tokens=len(full) - 1)
    assert prompt.documents[0].text == text[:-1]  # the last token is the full stop
