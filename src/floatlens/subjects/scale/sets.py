"""Names of the question sets, and the seed of the evaluation in the model cards."""

from __future__ import annotations

from typing import Literal, get_args

from floatlens.core.errors import FloatlensError, did_you_mean

__all__ = ["ALL_SETS", "EVALUATION_SEED", "SETS", "QuestionSet", "known_set"]

QuestionSet = Literal["rag", "two-hop", "closed-known", "closed-unknown", "counterfactual", "known"]
ALL_SETS: tuple[QuestionSet, ...] = get_args(QuestionSet)
"""In this order for good: a set's place is part of what its questions are drawn from."""
SETS = ALL_SETS[:5]
"""Those of a model card."""
EVALUATION_SEED = 20_260_107


def known_set(given: str) -> QuestionSet:
    """The question set of this name; an error names the one that was meant."""
    for name in ALL_SETS:
        if name == given:
            return name
    raise FloatlensError(f'no question set "{given}"{did_you_mean(given, ALL_SETS)}')
