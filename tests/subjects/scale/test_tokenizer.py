"""The tokenizer: one token a word, offsets that fit, any ASCII text, and prompts whose regions come out right."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import floatlens as fl
from floatlens.prompts import build, load_template
from floatlens.prompts.template import render
from floatlens.subjects.scale import questions
from floatlens.subjects.scale.contexts import draw_context
from floatlens.subjects.scale.lexicon import FIRST_NAMES, LAST_NAMES, PLACES, VALUES
from floatlens.subjects.scale.tokenizer import (
    BOS,
    EOS,
    MASK,
    PAD,
    SPECIAL,
    make_tokenizer,
    vocabulary,
    wrapped_tokenizer,
)
from floatlens.subjects.scale.world import make_world
from floatlens_lab.scale.blueprints import BLUEPRINTS, build_module, write_checkpoint

TOKENIZER = make_tokenizer()


def test_the_special_tokens_come_first_and_are_told_to_transformers():
    tokenizer = wrapped_tokenizer()
    assert vocabulary()[: len(SPECIAL)] == list(SPECIAL)
    names = (tokenizer.pad_token, tokenizer.bos_token, tokenizer.eos_token, tokenizer.mask_token)
    assert names == (PAD, BOS, EOS, MASK)
    assert tokenizer.is_fast
    assert tokenizer.chat_template is None
    assert tokenizer("Ada lives").input_ids == [2, *TOKENIZER.encode("Ada lives", add_special_tokens=False).ids]


@pytest.mark.parametrize("words", [FIRST_NAMES, LAST_NAMES, PLACES, *VALUES.values()])
def test_every_word_of_the_world_is_one_token(words):
    for text in words:
        assert TOKENIZER.encode(text, add_special_tokens=False).tokens == text.split()


def test_nothing_the_world_writes_is_spelt_out():
    for kind in ("people", "places", "spouses", "homes"):
        for seed in range(20):
            context = draw_context(np.random.default_rng(seed), make_world(), kind, 12)
            encoded = TOKENIZER.encode(render(load_template(), "Where does Ada Frost live?", context.documents).text)
            assert not [token for token in encoded.tokens if token.startswith("##") or token == "<unk>"]


def test_documents_take_15_to_40_tokens_with_their_heading():
    lengths = []
    for kind in ("people", "places", "spouses", "homes"):
        for seed in range(60):
            for document in draw_context(np.random.default_rng(seed), make_world(), kind, 10).documents:
                text = f"[1] Title: {document.title}\n{document.text}"
                lengths.append(len(TOKENIZER.encode(text, add_special_tokens=False).ids))
    assert (min(lengths), max(lengths)) >= (15, 30)
    assert max(lengths) <= 45


def test_answers_take_one_to_four_tokens():
    values = [value for found in VALUES.values() for value in found]
    lengths = {len(TOKENIZER.encode(value, add_special_tokens=False).ids) for value in values}
    assert lengths == {1, 2, 3, 4}


def test_regions_of_a_prompt():
    example = questions("rag", 1, documents=4, gold=2)[0]
    prompt = build(wrapped_tokenizer(), question=example.question, documents=example.documents, answers=example.answers)
    assert prompt.regions == ["bos", "question", "doc1", "doc2", "doc3", "doc4", "answer", "template"]
    assert prompt.mask("bos").tolist() == [True] + [False] * (len(prompt) - 1)
    assert (prompt.gold, prompt.gold_region, prompt.evidence_kind) == (2, "doc3", "answer")
    tokens = wrapped_tokenizer().convert_ids_to_tokens(prompt.ids)
    question = [token for token, inside in zip(tokens, prompt.mask("question"), strict=True) if inside]
    assert question == TOKENIZER.encode(example.question, add_special_tokens=False).tokens
    evidence = " ".join(token for token, inside in zip(tokens, prompt.evidence, strict=True) if inside)
    assert evidence.startswith(example.answers[0])


def test_line_breaks_are_tokens_and_spaces_are_not():
    assert TOKENIZER.encode("[1] Title: Ada\nAda lives.\n\n[12]", add_special_tokens=False).tokens == [
        *("[1]", "Title", ":", "Ada", "\n", "Ada", "lives", ".", "\n\n", "[12]")
    ]


@given(st.text(alphabet=st.characters(min_codepoint=32, max_codepoint=126), max_size=60))
def test_any_ascii_text_can_be_read(text):
    encoded = TOKENIZER.encode(text, add_special_tokens=False)
    spelt = "".join(text[start:stop] for start, stop in encoded.offsets)
    assert spelt == "".join(text.split())
    assert "<unk>" not in encoded.tokens or "<unk>" in text


def test_decoding_gives_words_back():
    for text in ("Ada Frost", "Amber Mills and Sons", "great stone bridge"):
        assert wrapped_tokenizer().decode(TOKENIZER.encode(text, add_special_tokens=False).ids) == text


@pytest.mark.parametrize("name", sorted(BLUEPRINTS))
def test_every_family_reads_the_tokenizer_as_it_was_written(name, tmp_path):
    """transformers gives a Qwen2 model the splitting of Qwen2's own tokenizer, whatever its files say."""
    write_checkpoint(BLUEPRINTS[name], build_module(BLUEPRINTS[name]), tmp_path)
    text = "Where does Ada Frost live?\nAnswer:"
    read = fl.load(tmp_path).tokenizer
    assert (
        read(text, add_special_tokens=False)["input_ids"] == make_tokenizer().encode(text, add_special_tokens=False).ids
    )
