"""Stress curves from the answers frame: a mean with its interval at each point, and robustness as one number.

Robustness is the area under the curve divided by the width of its axis (the mean of the points where the axis has no
scale) and by the score with the gold documents alone; for masks, by the score at the fewest masks. It is computed on
the questions that have a score at every point and in the reference; its interval leaves out each question in turn, and
is no narrower than a normal interval. It is not defined where the reference is 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd

from floatlens.analysis.conditions import rank
from floatlens.analysis.intervals import Estimate, estimate_of, no_narrower_than_normal, share
from floatlens.analysis.kernels import Floats
from floatlens.data.stress import STRESS_TESTS
from floatlens.evaluation.metrics import normalise
from floatlens.records.condition import Stressed

__all__ = [
    "Curve",
    "agreement",
    "curves",
    "curves_frame",
    "misled_curves",
    "points_of",
    "relative_area",
    "robustness_frame",
]


@dataclass(frozen=True)
class Curve:
    """One series of one test for one model and data set. `scores` are over questions, at each of `points`."""

    model: str
    kind: str
    data: str
    test: str
    series: str
    metric: str
    points: tuple[Stressed, ...]
    scores: Estimate
    reference: Estimate
    robustness: Estimate

    @property
    def x(self) -> list[float]:
        return [point.x for point in self.points]


def points_of(answers: pd.DataFrame) -> list[Stressed]:
    """The points of the stress tests in the answers: by test and series in the order of the registry, then along x."""

    def place(one: Stressed) -> tuple[int, int, str, float]:
        return rank(one.test, STRESS_TESTS), rank(one.series, STRESS_TESTS[one.test].series), one.series, one.x

    return sorted((one for one in dict.fromkeys(answers["condition"]) if isinstance(one, Stressed)), key=place)


def misled_curves(answers: pd.DataFrame) -> list[Curve]:
    """The misled rate along the curves whose questions name wrong answers; robustness is not meant for it.
    Example: `curves_frame(misled_curves(answers))`"""
    named = answers[answers["misled"].notna()]
    return curves(named.assign(misled=named["misled"].astype(float)), metric="misled") if len(named) else []


def curves(answers: pd.DataFrame, *, metric: str = "accuracy") -> list[Curve]:
    """Every curve that the answers hold, in the order of models and tests.
    Example: `robustness_frame(curves(answers))`"""
    points = points_of(answers)
    lines: dict[tuple[str, str], list[Stressed]] = {}
    for point in points:
        if STRESS_TESTS[point.test].reference != point.test:
            lines.setdefault((point.test, point.series), []).append(point)
    references = {point.test: point for point in points if STRESS_TESTS[point.test].reference == point.test}
    found = []
    for (model, kind, data), own in answers.groupby(["model", "model_kind", "data"], sort=False):
        wide = own.pivot(index="id", columns="condition", values=metric)
        for line in ([point for point in one if point in wide.columns] for one in lines.values()):
            if line:
                name = STRESS_TESTS[line[0].test].reference
                missing = Stressed(test=name or "", series="", x=0.0, point="")  # not in the answers: undefined
                reference = line[0] if name is None else references.get(name, missing)
                found.append(_curve((str(model), str(kind), str(data)), metric, line, reference, wide))
    return found


def _curve(
    who: tuple[str, str, str], metric: str, line: list[Stressed], reference: Stressed, wide: pd.DataFrame
) -> Curve:
    test, series = line[0].test, line[0].series
    columns = list(dict.fromkeys([*line, reference]))
    given = wide.reindex(columns=columns)
    paired = given.dropna().to_numpy(dtype=np.float64)
    at = {point: i for i, point in enumerate(columns)}
    width = np.array([point.x for point in line]) if STRESS_TESTS[test].summary == "area" and len(line) > 1 else None

    def summary(values: Floats) -> float:
        mean = values.mean(axis=0) if len(values) else np.full(len(columns), np.nan)
        return relative_area(mean[[at[point] for point in line]], mean[at[reference]], width)

    scores, clean = (share(given[at].to_numpy(dtype=np.float64)) for at in (line, reference))
    whole = estimate_of(paired, summary)
    robustness = no_narrower_than_normal(whole, float(whole.std))
    return Curve(*who, test, series, metric, tuple(line), scores, clean, robustness)


def relative_area(curve: Floats, clean: float, width: Floats | None) -> float:
    """Area under a curve ÷ the width of its axis (without one, the mean) ÷ the clean score; NaN if that is 0."""
    area = curve.mean() if width is None else np.trapezoid(curve, width) / (width[-1] - width[0])
    return float(area / clean) if clean > 0 else float("nan")


def agreement(answers: pd.DataFrame) -> pd.DataFrame:
    """How often two orders of the same documents get the same answer (normalised): mean over pairs, then questions."""
    orders = [point for point in points_of(answers) if STRESS_TESTS[point.test].repeats]
    rows = []
    for (model, data), own in answers.groupby(["model", "data"], sort=False):
        said = own[own["condition"].isin(orders)].dropna(subset=["prediction"])
        wide = said.pivot(index="id", columns="condition", values="prediction").dropna()
        if wide.shape[1] < 2 or wide.empty:
            continue
        texts = wide.map(normalise).to_numpy()
        pairs = list(combinations(range(texts.shape[1]), 2))
        same = np.array([[row[i] == row[j] for i, j in pairs] for row in texts], dtype=np.float64).mean(axis=1)
        rows.append({"model": model, "data": data, "orders": wide.shape[1], **_numbers(share(same))})
    return pd.DataFrame(rows, columns=["model", "data", "orders", "mean", "low", "high", "n"])


def curves_frame(found: Sequence[Curve]) -> pd.DataFrame:
    """One row for each point of each curve."""
    rows = [
        {**_who(curve), "x": point.x, "label": point.point, **_numbers(curve.scores, i)}
        for curve in found
        for i, point in enumerate(curve.points)
    ]
    return pd.DataFrame(rows)


def robustness_frame(found: Sequence[Curve]) -> pd.DataFrame:
    """One row for each curve: the score it is compared with, and its robustness."""
    rows = [
        {**_who(curve), "reference": float(curve.reference.mean), "robustness": values.pop("mean"), **values}
        for curve in found
        for values in [_numbers(curve.robustness)]
    ]
    return pd.DataFrame(rows)


def _who(curve: Curve) -> dict[str, str]:
    return {name: getattr(curve, name) for name in ("model", "kind", "data", "test", "series", "metric")}


def _numbers(found: Estimate, at: int | None = None) -> dict[str, float]:
    parts = {"mean": found.mean, "low": found.low, "high": found.high, "n": found.n}
    return {name: float(np.asarray(part).ravel()[at or 0]) for name, part in parts.items()}
