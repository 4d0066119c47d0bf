"""Text comparison, one definition for gold documents, distractors and scores: SQuAD's normalisation, and substrings."""

from __future__ import annotations

import re
import string
from collections.abc import Sequence

__all__ = ["contains", "holds_answer", "normalise"]

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLE = re.compile(r"\b(?:a|an|the)\b")


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
