"""Classes of tokens (methods §5), from the text of each token: structural, lexical, or mask.

    special        BOS, EOS, chat template
    punctuation    punctuation, whitespace, list markers such as "[1]"
    function       words of a closed list
    number         digits, also with signs and separators
    content        every other word

A piece of a word takes the class of the whole word; a contraction (don't, it's) that of the word before the apostrophe.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from floatlens.prompts.encode import token_pieces

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

__all__ = ["CLASSES", "LEXICAL", "STRUCTURAL", "classify", "structural_tokens"]

CLASSES = ("special", "punctuation", "function", "content", "number", "mask")
STRUCTURAL = ("special", "punctuation", "function")
LEXICAL = ("content", "number")

_FUNCTION_WORDS = """
    a an the this that these those some any each every no other another such both either neither all most more few
    and or but nor so yet if then than because while although though unless until since when where whether as
    of in on at by for with from to into onto upon over under about above below between among through during before
    after against along around behind beside besides beyond near off out up down without within across toward towards
    per via i you he she it we they me him her us them my your his its our their mine yours hers ours theirs myself
    yourself himself herself itself ourselves themselves who whom whose which what there here how why am is are was were
    be been being do does did doing done have has had having will would shall should can could may might must not n't 's
    's 're 've 'll 'd 'm also only just very too again ever never however therefore thus hence won't shan't ain't
"""
_FUNCTION = frozenset(_FUNCTION_WORDS.split())
_CLITICS = ("", "n't", "'t", "'s", "'re", "'ve", "'ll", "'d", "'m")
_SPECIAL = re.compile(r"<[^\s<>]+>|\[(?:CLS|SEP|PAD|UNK|MASK)\]|<\|[^|]*\|>")
_NUMBER = re.compile(r"[+-]?\d+(?:[.,:/-]\d+)*%?")
_MARKER = re.compile(r"[\[(]\d{1,3}[\])][.:]?")
_SPACES = "Ġ▁ \t\n\r\u010a\u2423"


def classify(pieces: Sequence[str], ids: Sequence[int], special: Collection[int] = ()) -> list[str]:
    """The class of every token of a finished sequence, from its text; ids in `special` are always "special"."""
    classes = [""] * len(pieces)
    spaced = any(piece[:1] in _SPACES and _bare(piece) for piece in pieces)  # not from a blank line alone
    word: list[int] = []

    def close() -> None:
        if word:
            kind = _kind("".join(_bare(pieces[i]) for i in word))
            for i in word:
                classes[i] = kind
            word.clear()

    for i, (piece, token) in enumerate(zip(pieces, ids, strict=True)):
        if token in special or _SPECIAL.fullmatch(piece.strip()):
            close()
            classes[i] = "special"
            continue
        if not (word and _continues(piece, _bare(pieces[word[-1]]), spaced)):
            close()
        word.append(i)
    close()
    _mark_lists(pieces, classes, spaced)
    return classes


def structural_tokens(tokenizer: PreTrainedTokenizerBase) -> Callable[[Sequence[int]], list[bool]]:
    """A function from token ids to one bool per token: True for special tokens, punctuation and function words.

    Example: `structural_tokens(model.tokenizer)(model.tokenizer("The capital of").input_ids)`
    """
    special = frozenset(tokenizer.all_special_ids)
    return lambda ids: [kind in STRUCTURAL for kind in classify(token_pieces(tokenizer, ids), ids, special)]


def _continues(piece: str, before: str, spaced: bool) -> bool:
    """Whether a piece continues the previous word: by "##", or by a missing space where words begin with one."""
    if piece.startswith("##"):
        return _is_word(_bare(piece)) and _is_word(before)
    return spaced and piece[:1] not in _SPACES and _is_word(piece) and _is_word(before)


def _is_word(text: str) -> bool:
    return bool(text) and all(c.isalnum() or c in "'’" for c in text)


def _bare(piece: str) -> str:
    return piece.removeprefix("##").strip(_SPACES)


def _kind(text: str) -> str:
    if not any(c.isalnum() for c in text) or _MARKER.fullmatch(text):
        return "punctuation"
    if _NUMBER.fullmatch(text):
        return "number"
    word = text.lower().replace("’", "'")
    return "function" if any(word.removesuffix(clitic) in _FUNCTION for clitic in _CLITICS) else "content"


def _mark_lists(pieces: Sequence[str], classes: list[str], spaced: bool) -> None:
    """A number in brackets that are separate tokens is a list marker too."""
    bare = [_bare(piece) for piece in pieces]
    for i in range(1, len(bare) - 1):
        if classes[i] == "number" and bare[i - 1][-1:] in ("[", "("):
            end = i + 1
            while end < len(bare) and classes[end] == "number" and _continues(pieces[end], bare[end - 1], spaced):
                end += 1
            if end < len(bare) and bare[end][:1] in ("]", ")"):
                classes[i:end] = ["punctuation"] * (end - i)
