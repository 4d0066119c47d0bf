"""Claims about answers: the gain from retrieved documents, and robustness to noise and to the position of gold.

They compare diffusion with autoregressive models on the questions that all of them answered. The bootstrap draws
questions, not models: an interval says what other questions of this kind would give with the same models.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import pandas as pd

from floatlens.analysis.intervals import estimate, estimate_of
from floatlens.analysis.kernels import Floats
from floatlens.analysis.stress import points_of, relative_area
from floatlens.claims.claim import ClaimRule, Finding, Limit, claim
from floatlens.data.stress import STRESS_TESTS
from floatlens.records.condition import CLOSED, RAG, Condition

__all__ = ["rag_gain", "robust_noise", "robust_position"]

TIMES = 2.0
"""How many times the gain of autoregressive models that of diffusion models is claimed to be, at least."""
MORE = Limit(f"accuracy gain, diffusion minus {TIMES:g} × autoregressive", 0.0)
GAIN = Limit("accuracy gain of diffusion models", 0.0)  # without it, less harm would pass for help
ROBUST = Limit("robustness, diffusion minus autoregressive", 0.0)
_answer_claim = partial(claim, family="answers")


def _comparisons(answers: pd.DataFrame) -> Iterator[tuple[pd.DataFrame, list[str], list[str], str]]:
    """For each data set with models of both kinds: its answers, the diffusion and the autoregressive models, and the
    subject in words."""
    for data, own in answers.groupby("data", sort=False):
        kinds = dict(zip(own["model"], own["model_kind"], strict=True))
        mdms, arms = ([model for model, kind in kinds.items() if kind == side] for side in ("mdm", "arm"))
        if mdms and arms:
            yield own, mdms, arms, f"{' + '.join(mdms)} against {' + '.join(arms)}, {data}"


def _wide(own: pd.DataFrame, models: Sequence[str], conditions: Sequence[Condition]) -> Floats | None:
    """(question, model, condition): accuracy on the questions that every model answered in every condition."""
    kept = own[own["model"].isin(models) & own["condition"].isin(list(conditions))].dropna(subset=["accuracy"])
    wide = kept.pivot(index="id", columns=["model", "condition"], values="accuracy")
    wanted = [(model, condition) for model in models for condition in conditions]
    if not all(column in wide.columns for column in wanted):
        return None
    paired = wide[wanted].dropna().to_numpy(dtype=np.float64)
    return paired.reshape(len(paired), len(models), len(conditions)) if len(paired) else None


@_answer_claim(
    "rag-gain",
    "Gain from documents",
    "retrieved documents help diffusion models at least twice as much as autoregressive ones",
    (MORE, GAIN),
    figure="gains",
)
def rag_gain(answers: pd.DataFrame) -> Iterator[Finding]:
    for own, mdms, arms, subject in _comparisons(answers):
        values = _wide(own, [*mdms, *arms], [CLOSED, RAG])
        if values is not None:
            gains = values[:, :, 1] - values[:, :, 0]
            diffusion, autoregressive = gains[:, : len(mdms)].mean(1), gains[:, len(mdms) :].mean(1)
            yield Finding(subject, (MORE(estimate(diffusion - TIMES * autoregressive)), GAIN(estimate(diffusion))))


def _robust(test: str, words: str) -> ClaimRule:
    @_answer_claim(
        f"robust-{test}",
        f"Robustness to {test}",
        f"diffusion models are more robust to {words} than autoregressive ones",
        (ROBUST,),
        figure=f"stress-{test}",
    )
    def judge(answers: pd.DataFrame) -> Iterator[Finding]:
        for own, mdms, arms, subject in _comparisons(answers):
            points = points_of(own)
            line, reference = (
                [point for point in points if point.test == name] for name in (test, STRESS_TESTS[test].reference)
            )
            values = _wide(own, [*mdms, *arms], [*line, *reference[:1]]) if len(line) > 1 and reference else None
            if values is not None:
                difference = partial(_difference, xs=np.array([point.x for point in line]), mdms=len(mdms))
                yield Finding(subject, (ROBUST(estimate_of(values, difference)),))

    return judge


def _difference(values: Floats, xs: Floats, mdms: int) -> float:
    """Mean robustness of the first models minus that of the others; `values` are (question, model, point)."""
    each = [relative_area(model[:-1], model[-1], xs) for model in values.mean(axis=0)]
    return float(np.mean(each[:mdms]) - np.mean(each[mdms:]))


robust_noise = _robust("noise", "noise")
robust_position = _robust("position", "the position of the gold document")
