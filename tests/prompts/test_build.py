"""Building: which token is in which region, by hand for words and by what it must spell for every other tokenizer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from floatlens import prompts
from floatlens.core.errors import FloatlensError, FloatlensWarning
from floatlens.prompts import Document, Prompt
from floatlens.prompts.encode import Encoded, locate
from floatlens.prompts.template import Span

SHORT = """
name: short
version: 1
closed_book: "Q: {question} A:"
rag: "{documents} Q: {question} A:"
document: "[{i}] {title} - {text}"
document_untitled: "[{i}] {text}"
between_documents: " / "
"""
TEXTS = [
    "Paris is the capital of France.",
    "Ünïcödé naïve café — Zürich, Łódź.",
    "emoji 👩‍👩‍👧 and 🇫🇷 flags 😀😀",
    "שלום עולם, العربية من اليمين إلى اليسار",
    "日本の首都は東京です。",
    "braces {title} {{x}} {0} %s ${y} {% if %}",
    "[2] Title: a trap\nQuestion: what is the capital of France?\nAnswer:",
    "what is the capital of France?",
]


@pytest.fixture
def short(tmp_path: Path) -> Path:
    path = tmp_path / "short.yaml"
    path.write_text(SHORT, encoding="utf-8")
    return path


def squeeze(text: str) -> str:
    return "".join(text.split())


def covered(prompt: Prompt, region: str) -> str:
    """The characters under the tokens of a region, without spaces; characters of several tokens once."""
    places: set[int] = set()
    for start, stop in prompt.offsets[prompt.mask(region)].tolist():
        places.update(range(start, stop))
    return squeeze("".join(prompt.text[i] for i in sorted(places)))


def names(prompt: Prompt) -> list[str]:
    return [prompt.regions[i] for i in prompt.region_of]


def test_regions_of_words_by_hand(make_words: Any, short: Path) -> None:
    documents = [Document(title="Big Town", text="it is big"), Document(text="so small")]
    prompt = prompts.build(make_words(), question="how big", documents=documents, gold=0, template=short)
    assert prompt.text == "[1] Big Town - it is big / [2] so small Q: how big A:"
    expected = [
        *[("<s>", "bos"), ("[1]", "template"), ("Big", "doc1"), ("Town", "doc1"), ("-", "doc1"), ("it", "doc1")],
        *[("is", "doc1"), ("big", "doc1"), ("/", "template"), ("[2]", "template"), ("so", "doc2"), ("small", "doc2")],
        *[("Q:", "template"), ("how", "question"), ("big", "question"), ("A:", "template")],
    ]
    assert prompt.regions == ["bos", "question", "doc1", "doc2", "answer", "template"]
    assert names(prompt) == [region for _, region in expected]
    assert [prompt.text[a:b] for a, b in prompt.offsets[1:]] == [word for word, _ in expected[1:]]
    assert prompt.region_of.dtype == np.int16
    assert prompt.template is not None
    assert prompt.template.startswith("short@1#")
    assert (prompt.gold, prompt.gold_region, prompt.golds) == (0, "doc1", (0,))
    assert prompt.dropped is None


def test_closed_book(make_words: Any, short: Path) -> None:
    prompt = prompts.build(make_words(), question="how big", template=short)
    assert names(prompt) == ["bos", "template", "question", "question", "template"]
    assert prompt.regions == ["bos", "question", "answer", "template"]
    assert (prompt.gold, prompt.gold_region, prompt.evidence_kind) == (None, None, "none")
    assert not prompt.evidence.any()


@pytest.mark.parametrize("text", TEXTS)
def test_every_document_is_found_whole(tokenizer: Any, text: str) -> None:
    question = "what is the capital of France?"
    documents = [Document(title="Titre", text=text), Document(text=text), Document(title="{i}", text="Last one.")]
    prompt = prompts.build(tokenizer, question=question, documents=documents)
    assert covered(prompt, "doc1") == squeeze("Titre" + text)
    assert covered(prompt, "doc2") == squeeze(text)
    assert covered(prompt, "doc3") == squeeze("{i}Last one.")
    assert covered(prompt, "question") == squeeze(question)
    for i in (1, 2):
        assert np.flatnonzero(prompt.mask(f"doc{i}")).max() < np.flatnonzero(prompt.mask(f"doc{i + 1}")).min()
    assert not prompt.mask("answer").any()


def test_offsets_with_and_without_the_leading_space_agree(make_bpe: Any) -> None:
    documents = [Document(title="Paris", text="Paris lies on the Seine."), "Berlin lies on the Spree."]
    loose, tight = (
        prompts.build(make_bpe(trim_offsets=trim), question="where?", documents=documents) for trim in (False, True)
    )
    assert loose.ids == tight.ids
    assert (loose.offsets != tight.offsets).any()
    np.testing.assert_array_equal(loose.region_of, tight.region_of)


def test_special_tokens_of_bert(make_wordpiece: Any) -> None:
    prompt = prompts.build(make_wordpiece(), question="Où est Paris?", documents=["Élan vital."])
    assert names(prompt)[0] == "bos"
    assert names(prompt)[-1] == "template"
    assert names(prompt).count("bos") == 1
    assert covered(prompt, "doc1") == "Élanvital."


def test_a_closing_eos_is_taken_off(make_words: Any, short: Path) -> None:
    with_eos = prompts.build(make_words(eos=True), question="how big", template=short)
    without = prompts.build(make_words(), question="how big", template=short)
    assert with_eos.ids == without.ids
    assert prompts.from_text(make_words(eos=True), "how big").ids == prompts.from_text(make_words(), "how big").ids


def test_a_token_goes_where_most_of_its_characters_are() -> None:
    #       0123456789
    text = "aab  bb cd"
    spans = [Span("doc1", 0, 2), Span("doc2", 2, 7), Span("question", 9, 10)]
    regions = ["bos", "question", "doc1", "doc2", "answer", "template"]
    cases = [
        ((0, 3), "doc1"),  # aa | b: two to one
        ((1, 3), "doc1"),  # a | b: a tie goes to the earlier
        ((1, 6), "doc2"),  # a | b..b: spaces do not count
        ((3, 5), "doc2"),  # all space, all in doc2
        ((6, 8), "doc2"),  # b | space
        ((7, 10), "template"),  # space and c of the template | d: a tie
        ((9, 10), "question"),
        ((10, 10), "question"),  # no character of its own: with what it follows
    ]
    offsets = np.array([place for place, _ in cases])
    encoded = Encoded([0] * len(cases), offsets, np.zeros(len(cases), dtype=bool), bos=False)
    assert [regions[i] for i in locate(text, encoded, spans, regions)] == [region for _, region in cases]


def test_tokens_the_tokenizer_added_belong_to_no_document() -> None:
    regions = ["bos", "question", "answer", "template"]
    offsets = np.array([(0, 0), (0, 0), (0, 2), (0, 0)])
    added = np.array([True, True, False, True])
    spans = [Span("question", 0, 2)]
    found = [regions[i] for i in locate("ab", Encoded([7, 8, 1, 9], offsets, added, bos=True), spans, regions)]
    assert found == ["bos", "template", "question", "template"]
    found = [regions[i] for i in locate("ab", Encoded([7, 8, 1, 9], offsets, added, bos=False), spans, regions)]
    assert found == ["template", "template", "question", "template"]


def test_documents_as_texts_mappings_and_objects(make_bpe: Any) -> None:
    mixed = ["one", {"title": "T", "text": "two"}, Document(text="three", is_gold=True)]
    prompt = prompts.build(make_bpe(), question="q", documents=mixed)
    assert [document.text for document in prompt.documents] == ["one", "two", "three"]
    assert prompt.gold == 2


def test_several_gold_documents(make_bpe: Any) -> None:
    documents = [Document(text="no"), Document(text="Ann", is_gold=True), Document(text="Bob", is_gold=True)]
    prompt = prompts.build(make_bpe(), question="q", documents=documents, answers=["Bob"])
    assert (prompt.gold, prompt.golds) == (1, (1, 2))
    assert set(prompt.region_of[prompt.evidence].tolist()) == {prompt.index("doc3")}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"question": "  "}, "question: expected a text"),
        ({"question": "q", "documents": "one text"}, "put it in a list"),
        ({"question": "q", "documents": ["a", " "]}, r"documents\[1\]: the text is empty"),
        ({"question": "q", "documents": [{"text": "a", "body": "b"}]}, r'documents\[0\]: no key "body"'),
        ({"question": "q", "documents": [{"title": "a"}]}, r"documents\[0\]: text is missing"),
        ({"question": "q", "documents": [3]}, r"documents\[0\]: expected a Document.*int"),
        ({"question": "q", "gold": 0}, "gold=0: expected a 0-based index of one of the 0 documents"),
        ({"question": "q", "documents": ["a", "b"], "gold": 2}, "gold=2: .* of the 2 documents"),
        ({"question": "q", "documents": ["a", "b"], "gold": -1}, "gold=-1"),
        ({"question": "q", "documents": ["a", Document(text="b", is_gold=True)], "gold": 0}, r"documents\[1\]"),
        ({"question": "q", "answers": [1]}, "answers: expected texts, got int"),
        ({"question": "q", "chat": True}, "no chat template"),
    ],
)
def test_mistakes(make_bpe: Any, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(FloatlensError, match=message):
        prompts.build(make_bpe(), **arguments)


def test_no_tokenizer_and_a_slow_one() -> None:
    class Slow:
        is_fast = False

    with pytest.raises(FloatlensError, match="has no tokenizer"):
        prompts.build(None, question="q")
    with pytest.raises(FloatlensError, match="Slow gives no character offsets"):
        prompts.from_text(Slow(), "q")  # type: ignore[arg-type]


def test_a_control_token_in_a_document_is_said(make_bpe: Any) -> None:
    with pytest.warns(FloatlensWarning, match=r'doc2 holds the control token "<\|im_end\|>"'):
        prompt = prompts.build(make_bpe("chatml", bos=False), question="q", documents=["fine", "a <|im_end|> b"])
    assert covered(prompt, "doc2") == "a<|im_end|>b"


def test_unknown_words_are_no_control_tokens(make_words: Any, recwarn: pytest.WarningsRecorder) -> None:
    prompt = prompts.build(make_words(), question="all unknown", documents=["words here"])
    assert prompt.ids.count(make_words().unk_token_id) > 3
    assert not [w for w in recwarn if issubclass(w.category, FloatlensWarning)]


def test_from_text(make_bpe: Any, make_words: Any) -> None:
    prompt = prompts.from_text(make_bpe("llada"), "Paris is {big}.")
    assert names(prompt) == ["bos"] + ["question"] * (len(prompt) - 1)
    assert make_bpe().decode(prompt.ids[1:]) == "Paris is {big}."
    assert (prompt.question, prompt.template, prompt.chat) == (None, None, False)
    again = prompts.from_text(make_words(), "<s> how big")  # the BOS is there already
    assert again.ids.count(0) == 1
    assert names(again) == ["bos", "question", "question"]
    with pytest.raises(FloatlensError, match="prompt: expected a text"):
        prompts.from_text(make_bpe(), "")


@pytest.mark.parametrize("ids", [[5, 6, 7], np.array([5, 6, 7]), torch.tensor([5, 6, 7])])
def test_from_ids(ids: Any) -> None:
    prompt = prompts.from_ids(ids, bos_id=5)
    assert prompt.ids == [5, 6, 7]
    assert all(type(token) is int for token in prompt.ids)
    assert names(prompt) == ["bos", "question", "question"]
    assert names(prompts.from_ids(ids)) == ["question"] * 3
    assert names(prompts.from_ids(ids, bos_id=6)) == ["question"] * 3
    assert prompt.offsets.shape == (3, 2)


@pytest.mark.parametrize("ids", [[], [[1, 2]], [1.5], ["a"], [3, -1]])
def test_from_ids_mistakes(ids: Any) -> None:
    with pytest.raises(FloatlensError, match="prompt_ids: expected a list of token ids"):
        prompts.from_ids(ids)


def test_a_prompt_cannot_be_changed(make_bpe: Any) -> None:
    prompt = prompts.build(make_bpe(), question="q")
    with pytest.raises(ValueError, match="read-only"):
        prompt.region_of[0] = 1
    with pytest.raises(AttributeError):
        prompt.gold = 1  # type: ignore[misc]
    with pytest.raises(FloatlensError, match="no region 'doc1'"):
        prompt.mask("doc1")
