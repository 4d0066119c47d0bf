"""Text comparison, one definition for gold documents, distractors and scores: SQuAD's normalisation, and substrings.

An answer of four or more normalised characters is found anywhere, also inside a longer word ("1970" in "1970s"). A
shorter one is found as a whole word or the whole text: "us" and "pol" are part of many English words, "4" of "14". In
scripts without spaces between words, every mention counts. Mentions are found in the normalised text and mapped back to
the text as written: "U.S." is found in "the US" and in "US-led", "old stone bridge" in "The Old, Stone Bridge".
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections import deque
from collections.abc import Sequence
from decimal import Decimal

__all__ = [
    "contains",
    "find_mentions",
    "find_spans",
    "first_word",
    "holds_answer",
    "last_number",
    "normalise",
    "replace_mentions",
]

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLE = re.compile(r"\b(?:a|an|the)\b")
_LEAST_INSIDE = 4
# a minus sign only where no word or number ends before it; commas only between groups of three digits
_NUMBER = re.compile(
    r"(?P<minus>(?<![\w).,])[-\u2212])?[$€£]?(?P<digits>(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?|\.\d+)", re.ASCII
)
# Thai to Lao, Myanmar, Khmer, kana, Han; and Hangul, whose words carry their particles
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\uac00-\ud7af]")


def normalise(text: str) -> str:
    """Lower case, no ASCII punctuation, no articles, single spaces; in this order, which is SQuAD's."""
    return " ".join(_ARTICLE.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def contains(text: str, answer: str) -> bool:
    """Whether a text states an answer, after normalisation; an answer that is empty then is not stated."""
    return holds_answer(text, [answer])


def holds_answer(text: str, answers: Sequence[str]) -> bool:
    """Whether a text states one of the answers: it would score as accurate."""
    said = normalise(text)
    wanted = [one for answer in answers if (one := normalise(answer)) and one in said]
    return any(len(one) >= _LEAST_INSIDE for one in wanted) or any(find_spans(text, one) for one in wanted)


def find_spans(text: str, answer: str) -> list[tuple[int, int]]:
    """Character spans of the mentions of one answer, in order; they may overlap."""
    wanted = normalise(answer)
    said, origin = _aligned(text) if wanted else ("", [])
    found = []
    for at in re.finditer(f"(?={re.escape(wanted)})", said) if wanted else ():  # ahead, as they may overlap
        span = origin[at.start()], origin[at.start() + len(wanted) - 1] + 1
        if len(wanted) >= _LEAST_INSIDE or wanted == said or _stands_alone(text, *span):
            found.append(span)
    return found


def first_word(text: str, words: Sequence[str]) -> str | None:
    """The first of these words that a text has after normalisation.

    Example: `first_word("Well, no: yes is wrong.", ["yes", "no"])  # "no"`
    """
    return next((word for word in normalise(text).split() if word in words), None)


def last_number(text: str) -> Decimal | None:
    """The last number of a text: "$1,250.00" is 1250, "-3 %" is -3, and the hyphen of "2-3" is not a minus sign."""
    found = deque(_NUMBER.finditer(text), maxlen=1)
    if not found:
        return None
    value = Decimal(found[0]["digits"].replace(",", ""))
    return value.copy_negate() if found[0]["minus"] else value


def find_mentions(text: str, answers: Sequence[str]) -> list[tuple[int, int]]:
    """Character spans of all mentions, in order; those that overlap are one.

    Example: `find_mentions("Made in the U.S. today", ["US"])  # [(12, 15)]`
    """
    return _merged([_as_written(text, one.strip(), *span) for one in answers for span in find_spans(text, one)])


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
    before, after = text[max(0, start - 2) : start], text[stop : stop + 2]
    return not (_one_word(before[::-1], text[start]) or _one_word(after, text[stop - 1]))


def _one_word(outside: str, inside: str) -> bool:
    """Whether the nearest two characters outside, nearest first, belong to the same word or number."""
    if not outside or _UNSPACED.match(outside) or _UNSPACED.match(inside):
        return False
    if outside[0] in ".," and outside[1:].isdigit() and inside.isdigit():  # 3.4 and 1,400
        return True
    return outside[0].isalnum() or bool(unicodedata.combining(outside[0]))


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
