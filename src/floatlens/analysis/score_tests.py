"""Intervals of differences of shares from score tests: all differences that the test does not reject.

A score test takes the variance that the counts would have if the difference were the one being tested. So intervals
keep a width where no answer differs, and cover closer to 95 % there than those put together from two shares.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import special

from floatlens.analysis.kernels import Floats

__all__ = ["paired_ends", "unpaired_ends"]

_Z = float(special.ndtri(0.975))
_HALVINGS = 50  # of [-1, 1]: ends to 2e-15
_LEAST = 1e-300  # variance where it is 0: only the observed difference is not rejected


def paired_ends(first: Floats, second: Floats, n: Floats, z: float = _Z) -> tuple[Floats, Floats]:
    """Tango's (1998) interval of the difference of two shares on the same n questions; `first` and `second` count the
    questions right in the one only and in the other only. The differences in it are those within `z` standard errors.
    Example: `paired_ends(np.array(9.0), np.array(2.0), np.array(44.0))`"""

    def statistic(difference: Floats) -> Floats:
        linear = (2 * n - first + second) * difference - first - second
        constant = second * difference * (1 - difference)
        rare = (np.sqrt(np.maximum(linear**2 + 8 * n * constant, 0)) - linear) / (4 * n)  # likeliest share, second only
        variance = n * (2 * rare + difference * (1 - difference))
        return (first - second - n * difference) / np.sqrt(np.maximum(variance, _LEAST))

    return _not_rejected(statistic, (first - second) / n, z)


def unpaired_ends(right: Floats, n: Floats, others_right: Floats, others: Floats) -> tuple[Floats, Floats]:
    """Miettinen and Nurminen's (1985) interval of the difference of two shares: `right` of n questions, and
    `others_right` of `others`.
    Example: `unpaired_ends(*map(np.array, (56.0, 70.0, 48.0, 80.0)))`"""
    both = n + others

    def statistic(difference: Floats) -> Floats:
        share = _likeliest(right, n, others_right, others, difference)
        one = np.clip(share + difference, 0, 1)
        variance = (one * (1 - one) / n + share * (1 - share) / others) * both / (both - 1)
        return (right / n - others_right / others - difference) / np.sqrt(np.maximum(variance, _LEAST))

    return _not_rejected(statistic, right / n - others_right / others, _Z)


def _likeliest(right: Floats, n: Floats, others_right: Floats, others: Floats, difference: Floats) -> Floats:
    """The most likely share of the second sample, given the difference: the root of a cubic, by cosines."""
    both, total = n + others, right + others_right
    square = ((n + 2 * others) * difference - both - total) / both
    linear = ((others * difference - both - 2 * others_right) * difference + total) / both
    constant = others_right * difference * (1 - difference) / both
    turn = square**3 / 27 - square * linear / 6 + constant / 2
    radius = np.copysign(np.sqrt(np.maximum(square**2 / 9 - linear / 3, 0)), turn)
    with np.errstate(invalid="ignore", divide="ignore"):
        cosine = np.where(radius == 0, 0.0, turn / radius**3)
    angle = (np.pi + np.arccos(np.clip(cosine, -1, 1))) / 3
    found = 2 * radius * np.cos(angle) - square / 3
    return np.asarray(np.clip(found, np.maximum(0, -difference), np.minimum(1, 1 - difference)))


def _not_rejected(statistic: Callable[[Floats], Floats], found: Floats, z: float) -> tuple[Floats, Floats]:
    """The smallest and the largest difference at which the statistic is within ± z. It falls as the difference grows;
    the observed one, `found`, is never rejected."""
    found = np.asarray(found, dtype=np.float64)
    rejected = np.stack([np.full_like(found, -1.0), np.full_like(found, 1.0)])
    kept = np.stack([found, found])
    side = np.array([1.0, -1.0]).reshape(2, *[1] * found.ndim)
    for _ in range(_HALVINGS):
        middle = (rejected + kept) / 2
        outside = side * statistic(middle) > z
        rejected, kept = np.where(outside, middle, rejected), np.where(outside, kept, middle)
    return kept[0], kept[1]
