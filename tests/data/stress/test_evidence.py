"""Evidence order, and documents split into sentences."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from floatlens.data import Example
from floatlens.data.stress.arrangement import cut, evidence_order, sentences
from floatlens.prompts import Document


@pytest.mark.parametrize(
    ("meta", "order"),
    [
        ({"gold": [3, 1]}, [3, 1]),
        ({}, [1, 3]),
        ({"gold": [1]}, [1, 3]),  # not all of them
        ({"gold": [3, 1, 1]}, [1, 3]),
        ({"gold": ["3", "1"]}, [1, 3]),
        ({"gold": [3, True]}, [1, 3]),
        ({"gold": True}, [1, 3]),
    ],
)
def test_evidence_order(meta: dict[str, object], order: list[int]) -> None:
    documents = [Document(text=f"t{i}", is_gold=i in (1, 3)) for i in range(4)]
    assert evidence_order(Example(id="q", question="?", documents=documents, meta=meta)) == order


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("One. Two! Three?", ["One.", "Two!", "Three?"]),
        ("Dr. Ott lives in Kell. He sings.", ["Dr. Ott lives in Kell.", "He sings."]),
        ("J. R. R. Tolkien wrote it. So did he.", ["J. R. R. Tolkien wrote it.", "So did he."]),
        ("He left the U.S. He came back.", ["He left the U.S. He came back."]),  # not sure, so not cut
        ('He said "No." Then he left.', ['He said "No."', "Then he left."]),
        ("He was No. 10 of them. No. Really.", ["He was No. 10 of them.", "No.", "Really."]),
        ("It was 3.5 km. long and old.", ["It was 3.5 km. long and old."]),
        ("Born in 1901. 1902 was worse.", ["Born in 1901.", "1902 was worse."]),
        ("First line\nSecond line", ["First line", "Second line"]),
        ("北京是首都。它很大！", ["北京是首都。", "它很大！"]),
        ("no end", ["no end"]),
        ("  One.  ", ["One."]),
    ],
)
def test_sentences(text: str, found: list[str]) -> None:
    assert sentences(text) == found


@settings(deadline=None)
@given(st.text(alphabet="aB1 .!?\n\"'(。", max_size=40))
def test_sentences_lose_nothing_but_spaces(text: str) -> None:
    assert "".join("".join(sentences(text)).split()) == "".join(text.split())
    assert all(sentence.strip() == sentence != "" for sentence in sentences(text))


def test_pieces_keep_title_and_gold() -> None:
    pieces = cut(Document(title="Ott", text="He sings. He dances.", is_gold=True))
    assert pieces == [Document(title="Ott", text=t, is_gold=True) for t in ("He sings.", "He dances.")]
