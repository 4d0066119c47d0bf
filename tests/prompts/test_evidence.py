"""Evidence: the answer inside the gold document where it is found as whole words, else the whole document."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from floatlens import prompts
from floatlens.prompts import Document, Prompt
from floatlens.prompts.builder import as_answers, evidence_mask, find_answers


def marked(prompt: Prompt) -> list[str]:
    """What the evidence spells, one string per run of tokens."""
    tokens = prompt.evidence.nonzero()[0]
    runs = np.split(tokens, np.flatnonzero(np.diff(tokens) > 1) + 1)
    return [prompt.text[prompt.offsets[run[0], 0] : prompt.offsets[run[-1], 1]].strip() for run in runs]


@pytest.mark.parametrize(
    ("text", "answers", "expected"),
    [
        ("Paris, PARIS and paris.", ["Paris"], ["Paris", "PARIS", "paris"]),
        ("Parisian comparison paris_", ["Paris", "paris"], []),
        ("in New York City or New York", ["New York", "New York City"], ["New York City", "New York"]),
        ("a b c d", ["a b", "b c d"], ["b c d"]),
        ("New\n  York", ["new york"], ["New\n  York"]),
        ("the U.S. and U.S.A", ["U.S."], ["U.S."]),
        ("cost (a+b)* here", ["(a+b)*"], ["(a+b)*"]),
        ("7, 17 and 7th", ["7"], ["7"]),
        ("ÉLAN vital", ["élan"], ["ÉLAN"]),
        ("nothing", ["", "  "], []),
    ],
)
def test_find_answers(text: str, answers: list[str], expected: list[str]) -> None:
    assert [text[a:b] for a, b in find_answers(text, as_answers(answers))] == expected


def test_as_answers() -> None:
    assert as_answers(["a", " a ", "", "long one"]) == ("long one", "a")
    assert as_answers("Paris") == ("Paris",)


DOCUMENTS = [
    Document(title="Paris", text="Paris again: the capital is Paris."),
    Document(title="Paris", text="The city of light, Paris, lies far from New York City."),
]


def test_only_the_gold_document_counts_and_every_place_in_it(tokenizer: Any) -> None:
    expected = [["Paris", "Paris"], ["New York City"]]
    for answers, found in zip((["paris"], ["New York", "New York City"]), expected, strict=True):
        prompt = prompts.build(tokenizer, question="Paris?", documents=DOCUMENTS, gold=1, answers=answers)
        assert prompt.evidence_kind == "answer"
        assert [run.strip(",.") for run in marked(prompt)] == found  # some tokens hold the punctuation too
        assert (prompt.region_of[prompt.evidence] == prompt.index("doc2")).all()


def test_the_whole_passage_where_no_answer_is_found(make_bpe: Any) -> None:
    for answers in ([], ["London"]):
        prompt = prompts.build(make_bpe(), question="Paris?", documents=DOCUMENTS, gold=0, answers=answers)
        assert prompt.evidence_kind == "passage"
        assert (prompt.evidence == prompt.mask("doc1")).all()


def test_no_gold_no_evidence(make_bpe: Any) -> None:
    prompt = prompts.build(make_bpe(), question="Paris?", documents=DOCUMENTS, answers=["Paris"])
    assert prompt.evidence_kind == "none"
    assert not prompt.evidence.any()


def test_answers_in_many_scripts(make_bpe: Any) -> None:
    text = "😀 The name: Łódź 🇵🇱, שלום עולם!"
    for answer in ("łódź", "שלום עולם"):
        prompt = prompts.build(make_bpe(), question="q", documents=["x", text], gold=1, answers=[answer])
        assert prompt.evidence_kind == "answer"
        places = {i for a, b in prompt.offsets[prompt.evidence].tolist() for i in range(a, b)}
        assert "".join(prompt.text[i] for i in sorted(places)).strip().lower() == answer


def test_a_token_shared_with_the_next_document_is_evidence_only_where_it_belongs() -> None:
    text = "Ann B Bxy"
    offsets = np.array([(0, 3), (4, 5), (6, 9)])  # the last token holds one letter of the passage and two of the next
    inside = np.array([True, True, False])
    mask, kind = evidence_mask(text, offsets, [(0, 7)], inside, ["B"])
    assert (mask.tolist(), kind) == ([False, True, False], "answer")
    mask, kind = evidence_mask(text, offsets, [(5, 7)], inside & False, ["B"])
    assert (mask.tolist(), kind) == ([False, False, False], "none")
