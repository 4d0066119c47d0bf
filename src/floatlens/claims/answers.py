"""Verdicts on the claims about answers: the gain from retrieved documents, and robustness to noise and position.

They compare diffusion models with autoregressive ones on questions that all of them answered, and draw questions, not
models: an interval says what other questions of this sort would give, with these models.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from floatlens.analysis.intervals import estimate, estimate_of
from floatlens.claims.claim import Claim, Part

if TYPE_CHECKING:
    import pandas as pd

    from floatlens.data.stress import Point

__all__ = ["TIMES", "answer_claims"]

TIMES = 2.0
"""How many times the gain of autoregressive models that of diffusion models is claimed to be, at least."""
Floats = NDArray[np.float64]


def answer_claims(answers: pd.DataFrame, points: Sequence[Point] = ()) -> list[Claim]:
    """Every claim that these answers speak of. `answers` as from `study.answers`, `points` of the stress tests asked.

    Example: `answer_claims(open_answers(Path("runs/qa"))[0])[0].verdict`
    """
    found = []
    for data, own in answers.groupby("data", sort=False):
        kinds = dict(zip(own["model"], own["kind"], strict=True))
        mdms, arms = ([model for model, kind in kinds.items() if kind == side] for side in ("mdm", "arm"))
        if mdms and arms:
            found += [*_gain(str(data), own, mdms, arms), *_robust(str(data), own, mdms, arms, points)]
    return found


def _wide(own: pd.DataFrame, models: Sequence[str], conditions: Sequence[str]) -> Floats | None:
    """(question, model, condition): accuracy on the questions that every model answered in every condition."""
    kept = own[own["model"].isin(models) & own["condition"].isin(conditions)].dropna(subset=["accuracy"])
    wide = kept.pivot(index="id", columns=["model", "condition"], values="accuracy")
    wanted = [(model, condition) for model in models for condition in conditions]
    if not all(column in wide.columns for column in wanted):
        return None
    paired = wide[wanted].dropna().to_numpy(dtype=np.float64)
    return paired.reshape(len(paired), len(models), len(conditions)) if len(paired) else None


def _gain(data: str, own: pd.DataFrame, mdms: list[str], arms: list[str]) -> Iterator[Claim]:
    values = _wide(own, [*mdms, *arms], ["closed", "rag"])
    if values is None:
        return
    gains = values[:, :, 1] - values[:, :, 0]
    diffusion, autoregressive = gains[:, : len(mdms)].mean(1), gains[:, len(mdms) :].mean(1)
    compared = estimate(diffusion - TIMES * autoregressive)
    parts = (
        Part(f"gain of diffusion less {TIMES:g} × that of autoregressive models, accuracy", compared, 0.0),
        Part("gain of diffusion models, accuracy", estimate(diffusion), 0.0),  # else less harm would pass for help
    )
    statement = "retrieved documents help diffusion models at least twice as much as autoregressive ones"
    yield Claim("rag-gain", statement, f"{' + '.join(mdms)} against {' + '.join(arms)}, {data}", parts, "gains")


def _robust(data: str, own: pd.DataFrame, mdms: list[str], arms: list[str], points: Sequence[Point]) -> Iterator[Claim]:
    from floatlens.analysis.curves import relative_area

    for test in ("noise", "position"):
        line = [point for point in points if point.test == test and point.name in set(own["condition"])]
        values = _wide(own, [*mdms, *arms], [*(point.name for point in line), "clean"]) if len(line) > 1 else None
        if values is None:
            continue

        def difference(some: Floats, xs: Sequence[float] = [point.x for point in line]) -> float:
            mean = some.mean(axis=0)
            each = [relative_area(model[:-1], model[-1], np.asarray(xs)) for model in mean]
            return float(np.mean(each[: len(mdms)]) - np.mean(each[len(mdms) :]))

        part = Part("robustness of diffusion less that of autoregressive models", estimate_of(values, difference), 0.0)
        statement = f"diffusion models bear {'noise' if test == 'noise' else 'any place of the gold document'} better"
        subject = f"{' + '.join(mdms)} against {' + '.join(arms)}, {data}"
        yield Claim(f"robust-{test}", statement, subject, (part,), f"stress-{test}")
