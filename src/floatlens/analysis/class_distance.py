"""Distance between the anchors of data sets by token class (methods §12), with an interval that covers the true one.

Two samples of questions never have exactly the same shares: noise adds to a distance. The interval therefore has its
two ends from two numbers. The cross-fitted distance decides on one half of the questions which set has more of a class,
and measures by how much on the other half: on average it is not above the true distance, and 0 where sets do not
differ. The plain distance is on average not below it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np
from scipy import special

from floatlens.analysis.intervals import Estimate
from floatlens.analysis.kernels import Bools, Floats, nanmean
from floatlens.analysis.result import Group

__all__ = ["anchor_shares", "between", "class_distance", "crossed", "halves"]

SPLITS = 50
"""Number of random halves of each set; the mean over them hardly changes with more."""


def anchor_shares(group: Group) -> dict[str, Floats]:
    """(question, class, layer) by data set: shares of `token_classes`; questions without anchors are left out."""
    found = group.by_data_set(group.values("anchors"))
    return {name: values[~np.isnan(values).all(axis=(1, 2))] for name, values in found.items()}


def class_distance(sets: Mapping[str, Floats]) -> Estimate:
    """The cross-fitted distance between sets of (question, class, layer). Its interval begins below that number and
    ends above the plain distance, each by the error of the plain one; it covers the true distance at least as often as
    it says. `std` is that error, n that of the smallest set.

    Example: `class_distance(anchor_shares(token_classes("runs/a").group()))`
    """
    held = list(sets.values())
    fewest = min(len(values) for values in held)
    nothing = np.asarray(np.nan)
    if fewest < 2:
        return Estimate(nothing, nothing, nothing, nothing, np.asarray(fewest))
    random = np.random.default_rng(0)
    fitted = crossed(held, [halves(len(values), random) for values in held])
    error = np.sqrt(sum(_variance(values, weights) for values, weights in zip(held, _weights(held), strict=True)))
    reach = special.stdtrit(fewest - 1, 0.975) * error
    low, high = np.asarray(fitted - reach), np.asarray(max(between(*held), fitted) + reach)
    return Estimate(np.asarray(fitted), np.asarray(error), low, high, np.asarray(fewest))


def between(*sets: Floats) -> float:
    """Total variation distance of the sets' mean shares (question, class, layer): mean over layers, then over pairs."""
    means = [nanmean(values) for values in sets]
    return float(nanmean(np.array([nanmean(_signed(a - b, a - b)) for a, b in combinations(means, 2)])))


def halves(count: int, random: np.random.Generator) -> Bools:
    """(split, question): which questions are in the first half, the smaller one of an odd number."""
    order = random.permuted(np.tile(np.arange(count), (SPLITS, 1)), axis=1)
    return np.asarray(order < count // 2)


def crossed(sets: Sequence[Floats], first: Sequence[Bools]) -> float:
    """The same distance with signs from one half of the questions and differences from the other, and the reverse: mean
    over both and over the splits `first` (split, question) of each set."""
    one, two = (
        [_means(values, half) for values, half in zip(sets, side, strict=True)] for side in (first, [~f for f in first])
    )
    found = []
    for a, b in combinations(range(len(sets)), 2):
        apart, other = one[a] - one[b], two[a] - two[b]  # (split, class, layer)
        found += [nanmean(_signed(apart, other), axis=1), nanmean(_signed(other, apart), axis=1)]
    return float(nanmean(np.array(found).ravel()))


def _means(values: Floats, chosen: Bools) -> Floats:
    """(split, class, layer): mean over the chosen questions of each split, of what is defined."""
    known = ~np.isnan(values)
    weight = chosen.astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.tensordot(weight, np.where(known, values, 0.0), 1) / np.tensordot(weight, known, 1))


def _signed(signs: Floats, apart: Floats) -> Floats:
    """(…, layer): half the sum over classes of differences (…, class, layer), with the signs of others; NaN where a set
    has no anchors in the layer."""
    return np.asarray((np.sign(signs) * apart).sum(axis=-2) / 2)


def _weights(sets: Sequence[Floats]) -> list[Floats]:
    """(class, layer) for each set: by how much the plain distance grows with its mean share."""
    means = [nanmean(values) for values in sets]
    grown = [np.zeros(means[0].shape) for _ in sets]
    pairs = list(combinations(range(len(sets)), 2))
    for a, b in pairs:
        sign = np.sign(means[a] - means[b])
        layers = max(int((~np.isnan(sign).any(axis=0)).sum()), 1)
        part = np.where(np.isnan(sign).any(axis=0), 0.0, sign) / (2 * layers * len(pairs))
        grown[a] += part
        grown[b] -= part
    return grown


def _variance(values: Floats, weights: Floats) -> float:
    """Of a weighted sum of mean shares over the questions of one set."""
    known = ~np.isnan(values)
    with np.errstate(invalid="ignore", divide="ignore"):
        apart = np.where(known, (values - nanmean(values)) * len(values) / known.sum(axis=0), 0.0)
    each = (apart * weights).sum(axis=(1, 2))
    return float((each**2).sum() / (len(values) * (len(values) - 1)))
