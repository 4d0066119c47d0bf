"""Tokens as text, one by one: what tells a word from the rest of one is kept, however it is marked."""

from __future__ import annotations

from typing import Any

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from floatlens.prompts import token_pieces
from floatlens.prompts.words import classify


def _tokenizer(words: list[str], kind: str) -> Any:
    """A vocabulary that is these words; what marks a space is as in SentencePiece, or as in byte-level vocabularies."""
    from transformers import PreTrainedTokenizerFast

    made = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token=words[0]))
    made.pre_tokenizer, made.decoder = {
        "metaspace": (pre_tokenizers.Metaspace(), decoders.Metaspace()),
        "bytes": (pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()),
    }[kind]
    return PreTrainedTokenizerFast(tokenizer_object=made, clean_up_tokenization_spaces=False)


@pytest.mark.parametrize(("kind", "space"), [("metaspace", "▁"), ("bytes", "Ġ")])
def test_the_space_in_front_of_a_word_is_kept(kind: str, space: str) -> None:
    """ "the" + "sis" is a content word of two pieces, "the" alone a function word: only the space tells."""
    words = [f"{space}of", f"{space}the", "sis", f"{space}don", "'t"]
    pieces = token_pieces(_tokenizer(words, kind), [0, 1, 2, 1, 0, 3, 4])
    assert pieces == [" of", " the", "sis", " the", " of", " don", "'t"]
    expected = ["function", "content", "content", "function", "function", "function", "function"]
    assert classify(pieces, [0, 1, 2, 1, 0, 3, 4]) == expected


def test_half_a_character_is_shown_as_such() -> None:
    assert token_pieces(_tokenizer(["a", "Ã"], "bytes"), [1, 0]) == ["\ufffd", "a"]
