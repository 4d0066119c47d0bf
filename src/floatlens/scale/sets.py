"""Names of the question sets, and the seed of the evaluation that stands in the model cards. Nothing heavy."""

from __future__ import annotations

from typing import Literal, get_args

__all__ = ["EVALUATION_SEED", "SETS", "QuestionSet"]

QuestionSet = Literal["rag", "two-hop", "closed-known", "closed-unknown", "counterfactual"]
SETS: tuple[QuestionSet, ...] = get_args(QuestionSet)
EVALUATION_SEED = 20_260_107
