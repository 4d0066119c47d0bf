"""Evidence: the tokens of accepted answers inside the gold documents, or the whole gold documents.

Answers are matched as whole words, ignoring case. Texts are not normalised further: if no answer is found, the whole
passage is the evidence.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from floatlens.core.errors import FloatlensError
from floatlens.prompts.types import EvidenceKind

__all__ = ["as_answers", "evidence_mask", "find_answers"]


def as_answers(answers: str | Iterable[str]) -> tuple[str, ...]:
    """The accepted answers without empty ones and duplicates, longest first."""
    given = [answers] if isinstance(answers, str) else list(answers)
    for answer in given:
        if not isinstance(answer, str):
            raise FloatlensError(f"answers: expected texts, got {type(answer).__name__}")
    unique = dict.fromkeys(answer.strip() for answer in given)
    return tuple(sorted((answer for answer in unique if answer), key=len, reverse=True))


def find_answers(text: str, answers: Sequence[str]) -> list[tuple[int, int]]:
    """The character spans of the answers in a text, in order; spans that overlap a longer answer are left out."""
    found: list[tuple[int, int]] = []
    for answer in sorted(answers, key=len, reverse=True):
        words = r"\s+".join(re.escape(word) for word in answer.split())
        for match in re.finditer(rf"(?<!\w)(?:{words})(?!\w)", text, re.IGNORECASE):
            if all(match.end() <= start or stop <= match.start() for start, stop in found):
                found.append(match.span())
    return sorted(found)


def evidence_mask(
    text: str,
    offsets: NDArray[np.int64],
    passages: Sequence[tuple[int, int]],
    inside: NDArray[np.bool_],
    answers: Sequence[str],
) -> tuple[NDArray[np.bool_], EvidenceKind]:
    """(token) True on the evidence, and how it was found.

    `passages` are the character spans of the gold documents and `inside` (token) says which tokens are theirs. A token
    that carries any character of an answer counts.
    """
    if not inside.any():
        return np.zeros(len(offsets), dtype=bool), "none"
    mask = np.zeros(len(offsets), dtype=bool)
    for low, high in passages:
        for start, stop in find_answers(text[low:high], answers):
            mask |= (offsets[:, 0] < low + stop) & (offsets[:, 1] > low + start)
    mask &= inside
    return (mask, "answer") if mask.any() else (inside.copy(), "passage")
