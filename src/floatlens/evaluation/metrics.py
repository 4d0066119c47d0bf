"""Accuracy, F1 and exact match of a prediction (methods §8), named parts, and whether it was misled.

Text is compared after SQuAD's normalisation: lower case, without ASCII punctuation, without a/an/the, single spaces.
One definition for every model. How accuracy is judged (text, parts, yes or no, final number) is a field of the
question, set by its format; F1 and exact match are the same for all, the best over the accepted answers. A question
without accepted answers has no scores.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from floatlens.data.examples import VERDICTS, AnswerKind
from floatlens.data.matching import contains, find_spans, first_word, last_number, normalise

__all__ = [
    "Scores",
    "accuracy",
    "exact_match",
    "f1",
    "gives_former",
    "is_misled",
    "is_right",
    "named_parts",
    "normalise",
    "score",
]


@dataclass(frozen=True)
class Scores:
    """Each from 0 to 1; all but F1 and the share of parts are 0 or 1.

    `parts` is the share of the parts of an answer that are named, None if it has no parts. `misled` says whether a
    wrong answer that the data names is stated, None if it names none.
    """

    accuracy: float
    f1: float
    exact_match: float
    parts: float | None = None
    misled: float | None = None

    @property
    def outcome(self) -> Literal["right", "misled", "none"]:
        """Misled if a wrong answer is stated, whatever else is; else right if an accepted one is; else none."""
        return "misled" if self.misled else "right" if self.accuracy else "none"


def score(
    prediction: str,
    answers: Sequence[str],
    *,
    kind: AnswerKind = "text",
    parts: Sequence[Sequence[str]] = (),
    wrong: Sequence[str] = (),
    first_line: bool = False,
) -> Scores:
    """All scores. `first_line` looks at the prediction up to its first line break, as "Lost in the Middle" does.

    Example: `score("It is the Eiffel Tower.", ["Eiffel Tower"]).accuracy  # 1.0`
    """
    if not answers:
        raise ValueError("a question without accepted answers has no scores")
    said = _scored_text(prediction, first_line)
    named = named_parts(said, parts) if kind == "parts" else None
    return Scores(
        accuracy=float(is_right(said, answers, kind=kind, parts=parts)),
        f1=max(f1(said, answer) for answer in answers),
        exact_match=float(any(exact_match(said, answer) for answer in answers)),
        parts=named,
        misled=float(is_misled(said, wrong, [*answers, *(one for part in parts for one in part)])) if wrong else None,
    )


def is_right(
    prediction: str, answers: Sequence[str], *, kind: AnswerKind = "text", parts: Sequence[Sequence[str]] = ()
) -> bool:
    """Accuracy by the kind of answer: an accepted answer is stated, every part is named, the first verdict word is an
    accepted one, or the last number equals an accepted one."""
    if kind == "parts":
        return named_parts(prediction, parts) == 1
    if kind in VERDICTS:
        return first_word(prediction, VERDICTS[kind]) in {normalise(answer) for answer in answers}
    if kind == "number":
        found = last_number(prediction)
        return found is not None and any(found == last_number(answer) for answer in answers)
    return any(accuracy(prediction, answer) for answer in answers)


def gives_former(
    prediction: str,
    former: Sequence[str],
    current: Sequence[str],
    *,
    kind: AnswerKind = "text",
    first_line: bool = False,
) -> bool | None:
    """Whether a prediction is right by a former answer and by no current one; None if there is no former answer.

    Example: `gives_former("It is Kell.", ["Kell"], ["Orrin"])  # True`
    """
    if not former:
        return None
    said = _scored_text(prediction, first_line)
    return is_right(said, former, kind=kind) and not is_right(said, current, kind=kind)


def _scored_text(prediction: str, first_line: bool) -> str:
    return prediction.strip().split("\n", 1)[0] if first_line else prediction


def accuracy(prediction: str, answer: str) -> bool:
    """Whether the normalised answer is part of the normalised prediction: a whole word of it if the answer has fewer
    than four characters."""
    return contains(prediction, answer)


def named_parts(prediction: str, parts: Sequence[Sequence[str]]) -> float:
    """The share of parts of which one alternative is stated, in any order."""
    return sum(any(accuracy(prediction, one) for one in part) for part in parts) / len(parts)


def is_misled(prediction: str, wrong: Sequence[str], accepted: Sequence[str]) -> bool:
    """Whether a wrong answer is stated other than as part of an accepted one."""
    right = [span for answer in accepted for span in find_spans(prediction, answer)]
    stated = [span for answer in wrong for span in find_spans(prediction, answer)]
    return any(not any(first <= start and stop <= last for first, last in right) for start, stop in stated)


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
