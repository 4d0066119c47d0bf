"""Names of the question sets, and the seed of the evaluation in the model cards."""

from __future__ import annotations

from typing import Literal, get_args

__all__ = ["ALL_SETS", "EVALUATION_SEED", "SETS", "QuestionSet"]

QuestionSet = Literal["rag", "two-hop", "closed-known", "closed-unknown", "counterfactual", "known"]
ALL_SETS: tuple[QuestionSet, ...] = get_args(QuestionSet)
"""In this order for good: a set's place is part of what its questions are drawn from."""
SETS = ALL_SETS[:5]
"""Those of a model card."""
EVALUATION_SEED = 20_260_107
