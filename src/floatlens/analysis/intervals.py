"""Means with seeded bootstrap intervals over samples. Values that are undefined in a sample (NaN) are left out.

A sample is a question: `by_question` averages its traces first, so whole questions are drawn and counted.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from floatlens.analysis.kernels import Floats, nanmean

__all__ = ["Estimate", "by_question", "difference", "estimate", "estimate_of", "estimate_of_sets", "mean_of_means"]


_CONFIDENCE = 0.95
_RESAMPLES = 1000
_BATCH_BYTES = 64 << 20


@dataclass(frozen=True)
class Estimate:
    """A mean over samples (arrays of one shape, or numbers) with its spread and a 95 % percentile interval."""

    mean: Floats
    std: Floats
    low: Floats
    high: Floats
    n: NDArray[np.int64]

    def __format__(self, spec: str) -> str:
        """`0.31 [0.2, 0.42] (n=8)`, and without an interval `0.31 (n=1, no interval)`."""
        if np.ndim(self.mean):
            return repr(self)
        one, n = spec or ".3g", int(self.n)
        if np.isnan(self.mean):
            return f"undefined (n={n})"
        if np.isnan(self.low):
            return f"{float(self.mean):{one}} (n={n}, no interval)"
        return f"{float(self.mean):{one}} [{float(self.low):{one}}, {float(self.high):{one}}] (n={n})"

    def __str__(self) -> str:
        return format(self, "")

    @property
    def numbers(self) -> dict[str, float]:
        """Mean, low, high and n of a single number, as the columns of a table."""
        return {"mean": float(self.mean), "low": float(self.low), "high": float(self.high), "n": int(self.n)}

    @property
    def range(self) -> str:
        """The smallest and the largest mean of an array: `0.1 to 0.9`."""
        known = np.asarray(self.mean)[np.isfinite(self.mean)]
        return f"{known.min():.3g} to {known.max():.3g}" if known.size else "undefined"

    def __repr__(self) -> str:
        """A number with its interval; for arrays the shape and the range of the means."""
        if not np.ndim(self.mean):
            return f"Estimate({self})"
        return f"Estimate(shape {np.shape(self.mean)}, means {self.range}, n={int(np.max(self.n, initial=0))})"


def by_question(values: Floats, questions: Sequence[str]) -> Floats:
    """(trace, …) → (question, …): the mean of what is defined over the traces of each question, in order of appearance.
    Each question counts alike, however many traces it has."""
    values = np.asarray(values, dtype=np.float64)
    if len(values) != len(questions):
        raise ValueError(f"{len(values)} traces and {len(questions)} questions")
    places: dict[str, list[int]] = {}
    for place, question in enumerate(questions):
        places.setdefault(question, []).append(place)
    if len(places) == len(values):
        return values
    return np.stack([nanmean(values[rows]) for rows in places.values()])


def estimate(values: Floats, seed: int = 0) -> Estimate:
    """Over the first axis, samples. With fewer than two there is no interval: low and high are NaN."""
    values = np.asarray(values, dtype=np.float64)
    defined = ~np.isnan(values)
    mean = nanmean(values)
    n = defined.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        spread = np.where(defined, values - mean, 0.0) ** 2
        std = np.sqrt(np.where(n > 1, spread.sum(axis=0) / np.maximum(n - 1, 1), np.nan))
    low, high = _interval((values,), np.mean, seed)
    return Estimate(mean, std, low, high, n)


def difference(a: Floats, b: Floats, seed: int = 0) -> Estimate:
    """Mean of `a` minus mean of `b` over their first axes, for unpaired samples; n is that of the smaller."""
    a, b = (np.asarray(x, dtype=np.float64) for x in (a, b))
    low, high = _interval((a, b), lambda x, y, axis: x.mean(axis) - y.mean(axis), seed)
    n = np.minimum((~np.isnan(a)).sum(axis=0), (~np.isnan(b)).sum(axis=0))
    with np.errstate(invalid="ignore"):
        both = estimate(a, seed).std ** 2 + estimate(b, seed).std ** 2
    return Estimate(nanmean(a) - nanmean(b), np.sqrt(both / 2), low, high, n)


def _interval(data: tuple[Floats, ...], statistic: Callable[..., Floats], seed: int) -> tuple[Floats, Floats]:
    """A percentile bootstrap interval of `statistic(*data, axis)`; samples are drawn along the first axis of each. Only
    defined samples are drawn, so columns with different undefined samples are computed separately."""
    shape = data[0].shape[1:]
    flat = [x.reshape(len(x), -1) for x in data]
    defined = ~np.isnan(np.concatenate(flat))
    low, high = np.full((2, flat[0].shape[1]), np.nan)
    patterns, belongs = np.unique(defined, axis=1, return_inverse=True)
    for number, pattern in enumerate(patterns.T):
        columns = np.flatnonzero(belongs.ravel() == number)
        kept = np.split(pattern, np.cumsum([len(x) for x in flat])[:-1])
        drawn = tuple(x[np.ix_(rows, columns)] for x, rows in zip(flat, kept, strict=True))
        if min(len(x) for x in drawn) > 1:
            low[columns], high[columns] = _bootstrap(drawn, statistic, seed)
    return low.reshape(shape), high.reshape(shape)


def _bootstrap(data: tuple[Floats, ...], statistic: Callable[..., Floats], seed: int) -> tuple[Floats, Floats]:
    largest = max(x.size for x in data)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", stats.DegenerateDataWarning)  # equal samples have an interval of width 0
        found = stats.bootstrap(
            data,
            statistic,
            axis=0,
            vectorized=True,
            n_resamples=_RESAMPLES,
            batch=max(1, _BATCH_BYTES // (8 * largest)),
            confidence_level=_CONFIDENCE,
            method="percentile",
            rng=np.random.default_rng(seed),
        ).confidence_interval
    return np.asarray(found.low), np.asarray(found.high)


def estimate_of(values: Floats, statistic: Callable[[Floats], float], seed: int = 0) -> Estimate:
    """A number computed from all samples at once (a rank correlation, a share above a threshold), with its interval.
    `std` is that of the bootstrap: the standard error. Samples in which nothing is defined are neither drawn nor
    counted."""
    return estimate_of_sets([values], statistic, seed)


def estimate_of_sets(sets: Sequence[Floats], statistic: Callable[..., float], seed: int = 0) -> Estimate:
    """The same for several sets of samples, `statistic(*sets)`: samples are drawn within their set. n is that of the
    smallest set."""
    held = [np.asarray(values, dtype=np.float64) for values in sets]
    whole = np.asarray(statistic(*held), dtype=np.float64)
    held = [values[~np.isnan(values).all(axis=tuple(range(1, values.ndim)))] for values in held]
    fewest = min(len(values) for values in held)
    random = np.random.default_rng(seed)
    drawn = [
        statistic(*(values[random.integers(len(values), size=len(values))] for values in held))
        for _ in range(_RESAMPLES if fewest > 1 else 0)
    ]
    return _from_draws(whole, np.array(drawn), fewest)


def mean_of_means(groups: Sequence[Floats], seed: int = 0) -> Estimate:
    """The mean of the groups' means, each group counting alike; samples are drawn within their group. `std` is that of
    the bootstrap, n the number of samples in all groups."""
    held = [np.asarray(group, dtype=np.float64) for group in groups]
    whole = np.asarray(np.mean([group.mean() for group in held]))
    drawn = np.zeros(_RESAMPLES if held and min(len(group) for group in held) > 1 else 0)
    random = np.random.default_rng(seed)
    for group in held:
        for i in range(len(drawn)):
            drawn[i] += group[random.integers(len(group), size=len(group))].mean() / len(held)
    return _from_draws(whole, drawn, sum(len(group) for group in held))


def _from_draws(whole: Floats, drawn: Floats, n: int) -> Estimate:
    """A number with the spread and the percentiles of its bootstrap draws, of those that are defined."""
    drawn = drawn[np.isfinite(drawn)]
    tail = 50 * (1 - _CONFIDENCE)
    low, high = np.percentile(drawn, [tail, 100 - tail]) if len(drawn) else np.full(2, np.nan)
    return Estimate(whole, drawn.std() if len(drawn) else np.asarray(np.nan), low, high, np.asarray(n))
