"""Accuracy, F1 and exact match of a prediction (methods §8), each the best over the accepted answers.

Text is compared after SQuAD's normalisation: lower case, without ASCII punctuation, without a/an/the, single spaces.
One definition for every model and data set. A question without accepted answers has no scores.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from floatlens.data.matching import contains, normalise

__all__ = ["Scores", "accuracy", "exact_match", "f1", "normalise", "score"]


@dataclass(frozen=True)
class Scores:
    """Each from 0 to 1; accuracy and exact match are 0 or 1."""

    accuracy: float
    f1: float
    exact_match: float


def score(prediction: str, answers: Sequence[str], *, first_line: bool = False) -> Scores:
    """All three. `first_line` looks at the prediction up to its first line break, as "Lost in the Middle" does.

    Example: `score("It is the Eiffel Tower.", ["Eiffel Tower"]).accuracy  # 1.0`
    """
    if not answers:
        raise ValueError("a question without accepted answers has no scores")
    said = prediction.strip().split("\n", 1)[0] if first_line else prediction
    return Scores(*(max(float(one(said, answer)) for answer in answers) for one in (accuracy, f1, exact_match)))


def accuracy(prediction: str, answer: str) -> bool:
    """Whether the normalised answer is part of the normalised prediction."""
    return contains(prediction, answer)


def f1(prediction: str, answer: str) -> float:
    """Harmonic mean of precision and recall over bags of words; 1 if both are empty, 0 if one is."""
    said, wanted = normalise(prediction).split(), normalise(answer).split()
    if not said or not wanted:
        return float(said == wanted)
    common = sum((Counter(said) & Counter(wanted)).values())
    return 2 * common / (len(said) + len(wanted))


def exact_match(prediction: str, answer: str) -> bool:
    """Whether both are the same after normalisation."""
    return normalise(prediction) == normalise(answer)
