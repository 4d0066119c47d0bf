"""Text comparison, one definition for gold documents, distractors and scores: SQuAD's normalisation, and substrings.

Mentions of answers are found in the normalised text and mapped back to the text as written: "U.S." is found in "the
US", "old stone bridge" in "The Old, Stone Bridge". Whole words always count. Accuracy also finds an answer inside a
longer word ("1970" in "1970s"); such a mention counts if it has four or more characters: "us" is part of too many
English words to be replaced. In scripts without spaces between words, every mention counts.
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Sequence

__all__ = ["contains", "find_mentions", "holds_answer", "normalise", "replace_mentions"]

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLE = re.compile(r"\b(?:a|an|the)\b")
_LEAST_INSIDE = 4
# Thai to Lao, Myanmar, Khmer, kana, Han; and Hangul, whose words carry their particles
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\uac00-\ud7af]")


def normalise(text: str) -> str:
    """Lower case, no ASCII punctuation, no articles, single spaces; in this order, which is SQuAD's."""
    return " ".join(_ARTICLE.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def contains(text: str, answer: str) -> bool:
    """Whether the normalised answer is part of the normalised text; an answer that is empty then is not."""
    wanted = normalise(answer)
    return bool(wanted) and wanted in normalise(text)


def holds_answer(text: str, answers: Sequence[str]) -> bool:
    """Whether a text contains an accepted answer: it would score as accurate."""
    return any(contains(text, answer) for answer in answers)


def find_mentions(text: str, answers: Sequence[str]) -> list[tuple[int, int]]:
    """Character spans of all mentions, in order; those that overlap are one.

    Example: `find_mentions("Made in the U.S. today", ["US"])  # [(12, 15)]`
    """
    said, origin = _aligned(text)
    found: list[tuple[int, int]] = []
    for answer in answers:
        wanted = normalise(answer)
        for at in re.finditer(f"(?={re.escape(wanted)})", said) if wanted else ():  # ahead, as they may overlap
            span = origin[at.start()], origin[at.start() + len(wanted) - 1] + 1
            if len(wanted) >= _LEAST_INSIDE or _stands_alone(text, *span):
                found.append(_as_written(text, answer.strip(), *span))
    return _merged(found)


def replace_mentions(text: str, answers: Sequence[str], by: str) -> str:
    """The text with `by` for every mention, with a capital where a mention had one."""
    pieces, last = [], 0
    for start, stop in find_mentions(text, answers):
        capital = next(char for char in text[start:stop] if char not in string.punctuation).isupper()
        pieces += [text[last:start], by[:1].upper() + by[1:] if capital else by]
        last = stop
    return "".join([*pieces, text[last:]])


def _aligned(text: str) -> tuple[str, list[int]]:
    """The normalised text, and for each of its characters the index of the original one."""
    origin = [i for i, char in enumerate(text) for _ in char.lower()]  # one capital may become two characters
    kept = [(c, i) for c, i in zip(text.lower(), origin, strict=True) if c not in string.punctuation]
    chars = [c for c, _ in kept]
    for article in _ARTICLE.finditer("".join(chars)):
        chars[article.start() : article.end()] = " " * (article.end() - article.start())
    spaced = [(" " if c.isspace() else c, i) for c, (_, i) in zip(chars, kept, strict=True)]
    single = [pair for at, pair in enumerate(spaced) if pair[0] != " " or (at and spaced[at - 1][0] != " ")]
    if single and single[-1][0] == " ":
        single.pop()
    said = "".join(c for c, _ in single)
    assert said == normalise(text), "matching.normalise has changed; so must this"
    return said, [i for _, i in single]


def _stands_alone(text: str, start: int, stop: int) -> bool:
    return not _one_word(text[start - 1 : start], text[start]) and not _one_word(text[stop : stop + 1], text[stop - 1])


def _one_word(outside: str, inside: str) -> bool:
    """Whether a neighbouring character belongs to the same word."""
    if not outside or _UNSPACED.match(outside) or _UNSPACED.match(inside):
        return False
    return outside.isalnum() or bool(unicodedata.combining(outside))


def _as_written(text: str, answer: str, start: int, stop: int) -> tuple[int, int]:
    """The whole of "U.S." or "(I Can't Get No)" where it is written as in the answer; a final full stop is kept."""
    lead = next(i for i, char in enumerate(answer) if char not in string.punctuation)
    low, high = start - lead, start - lead + len(answer)
    if low < 0 or high < stop or text[low:high].lower() != answer.lower():
        return start, stop
    return low, high - (answer.endswith(".") and high == len(text.rstrip()))


def _merged(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, stop in sorted(spans):
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(stop, merged[-1][1]))
        else:
            merged.append((start, stop))
    return merged
