"""Stress curves from scored answers: a mean with its interval at every point, and robustness as one number.

Robustness is the curve's area over the width of its axis (the plain mean where the axis has no scale), divided by the
score with the gold documents alone; for masks, which are one pass, by the score at the fewest masks. It is worked out
over the questions that have a score at every point of the curve and in the reference, and its interval comes from
drawing those questions, all their points together. It is not defined where the reference is 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from floatlens.analysis.intervals import Estimate, estimate, estimate_of
from floatlens.data.stress import STRESS_TESTS, Point
from floatlens.evaluation.metrics import normalise

__all__ = ["Curve", "agreement", "curves", "curves_frame", "relative_area", "robustness_frame"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Curve:
    """One line of one test for one model and data set. `scores` are over questions, at each of `points`."""

    model: str
    kind: str
    data: str
    test: str
    series: str
    metric: str
    points: tuple[Point, ...]
    scores: Estimate
    reference: Estimate
    robustness: Estimate

    @property
    def x(self) -> list[float]:
        return [point.x for point in self.points]


def curves(answers: pd.DataFrame, points: Sequence[Point], *, metric: str = "accuracy") -> list[Curve]:
    """Every curve that the answers hold; points without an answer are left out of theirs.

    `answers` has one row per answer: model, kind ("arm" or "mdm"), data, condition (a point's name), id, the scores.
    """
    found = []
    for (model, kind, data), own in answers.groupby(["model", "kind", "data"], sort=False):
        wide = own.pivot(index="id", columns="condition", values=metric)
        drawn = [point for point in points if STRESS_TESTS[point.test].reference != point.test]
        for test, series in dict.fromkeys((point.test, point.series) for point in drawn):
            line = [p for p in points if (p.test, p.series) == (test, series) and p.name in wide.columns]
            if line:
                found.append(_curve((str(model), str(kind), str(data)), test, series, metric, line, wide))
    return found


def _curve(
    who: tuple[str, str, str], test: str, series: str, metric: str, line: list[Point], wide: pd.DataFrame
) -> Curve:
    reference = STRESS_TESTS[test].reference or line[0].name
    names = [point.name for point in line]
    given = wide.reindex(columns=list(dict.fromkeys([*names, reference])))
    paired = given.dropna().to_numpy(dtype=np.float64)
    at = {name: i for i, name in enumerate(given.columns)}
    width = np.array([point.x for point in line]) if STRESS_TESTS[test].summary == "area" and len(line) > 1 else None

    def summary(values: Floats) -> float:
        mean = values.mean(axis=0)
        return relative_area(mean[[at[name] for name in names]], mean[at[reference]], width)

    blank = np.asarray(np.nan)
    nothing = Estimate(blank, blank, blank, blank, np.asarray(0))
    return Curve(
        *who,
        test,
        series,
        metric,
        tuple(line),
        estimate(given[names].to_numpy(dtype=np.float64)),
        estimate(given[reference].to_numpy(dtype=np.float64)),
        estimate_of(paired, summary) if len(paired) else nothing,
    )


def relative_area(curve: Floats, clean: float, width: Floats | None) -> float:
    """Area of a curve over the width of its axis (its plain mean where there is none) ÷ the clean score; NaN at 0."""
    area = curve.mean() if width is None else np.trapezoid(curve, width) / (width[-1] - width[0])
    return float(area / clean) if clean > 0 else float("nan")


def agreement(answers: pd.DataFrame, points: Sequence[Point]) -> pd.DataFrame:
    """How often two orders of the same documents get the same answer (normalised): mean over pairs, then questions."""
    names = [point.name for point in points if STRESS_TESTS[point.test].repeats]
    rows = []
    for (model, data), own in answers.groupby(["model", "data"], sort=False):
        said = own[own["condition"].isin(names)].dropna(subset=["prediction"])
        wide = said.pivot(index="id", columns="condition", values="prediction").dropna()
        if wide.shape[1] < 2 or wide.empty:
            continue
        texts = wide.map(normalise).to_numpy()
        pairs = list(combinations(range(texts.shape[1]), 2))
        same = np.array([[row[i] == row[j] for i, j in pairs] for row in texts], dtype=np.float64).mean(axis=1)
        found = estimate(same)
        rows.append({"model": model, "data": data, "orders": wide.shape[1], **_numbers(found)})
    return pd.DataFrame(rows, columns=["model", "data", "orders", "mean", "low", "high", "n"])


def curves_frame(found: Sequence[Curve]) -> pd.DataFrame:
    """One row per point of every curve."""
    rows = [
        {**_who(curve), "x": point.x, "label": point.point, **_numbers(curve.scores, i)}
        for curve in found
        for i, point in enumerate(curve.points)
    ]
    return pd.DataFrame(rows)


def robustness_frame(found: Sequence[Curve]) -> pd.DataFrame:
    """One row per curve: what it is compared with, and its robustness."""
    rows = [
        {**_who(curve), "reference": float(curve.reference.mean), "robustness": values.pop("mean"), **values}
        for curve in found
        for values in [_numbers(curve.robustness)]
    ]
    return pd.DataFrame(rows)


def _who(curve: Curve) -> dict[str, str]:
    names = ("model", "kind", "data", "test", "series", "metric")
    return {name: getattr(curve, name) for name in names}


def _numbers(found: Estimate, at: int | None = None) -> dict[str, float]:
    parts = {"mean": found.mean, "low": found.low, "high": found.high, "n": found.n}
    return {name: float(np.asarray(part).ravel()[at or 0]) for name, part in parts.items()}
