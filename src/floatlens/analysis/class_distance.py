"""Distance between the anchors of data sets, by token class, beyond that of random halves of one set (methods §12).

Two sets of a few questions never have exactly the same anchors. Random halves of one set show the distance that chance
alone makes, and it is subtracted. Halves are smaller than sets, so the correction is conservative.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

import numpy as np

from floatlens.analysis.intervals import Estimate, estimate_of_sets
from floatlens.analysis.kernels import Bools, Floats, nanmean
from floatlens.analysis.result import Group

__all__ = ["anchor_shares", "between", "beyond_halves", "halves", "within"]


SPLITS = 50
"""Number of random halves of each set; their mean distance hardly changes with more."""


def anchor_shares(group: Group) -> dict[str, Floats]:
    """(question, class, layer) by data set: shares of `token_classes`; questions without anchors are left out."""
    found = group.by_data_set(group.values("anchors"))
    return {name: values[~np.isnan(values).all(axis=(1, 2))] for name, values in found.items()}


def beyond_halves(sets: Mapping[str, Floats], seed: int = 0) -> Estimate:
    """Distance between sets minus that of random halves of one, with an interval over the questions of each set.

    Both are computed again for each draw of questions. Drawing adds noise, so where sets hardly differ the interval can
    begin above the number itself.

    Example: `beyond_halves(anchor_shares(token_classes("runs/a").group()))`
    """
    random = np.random.default_rng(seed)
    splits = [halves(len(values), random) for values in sets.values()]

    def statistic(*drawn: Floats) -> float:
        chance = [within(values, first) for values, first in zip(drawn, splits, strict=True)]
        return between(*drawn) - float(np.mean(chance))

    return estimate_of_sets(list(sets.values()), statistic, seed)


def between(*sets: Floats) -> float:
    """Total variation distance of the sets' mean shares (question, class, layer): mean over layers, then over pairs."""
    means = [nanmean(values) for values in sets]
    return float(nanmean(np.array([nanmean(_distance(a, b)) for a, b in combinations(means, 2)])))


def halves(count: int, random: np.random.Generator) -> Bools:
    """(split, question): which questions are in the first half, the smaller one of an odd number."""
    order = random.permuted(np.tile(np.arange(count), (SPLITS, 1)), axis=1)
    return np.asarray(order < count // 2)


def within(values: Floats, first: Bools) -> float:
    """The same distance between two halves of one set, mean over the splits `first` (split, question)."""
    known = ~np.isnan(values)
    filled = np.where(known, values, 0.0)

    def means(half: Bools) -> Floats:  # (split, class, layer), of what is defined
        chosen = half.astype(np.float64)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(np.tensordot(chosen, filled, 1) / np.tensordot(chosen, known, 1))

    return float(nanmean(nanmean(_distance(means(first), means(~first)), axis=1)))


def _distance(a: Floats, b: Floats) -> Floats:
    """(…, layer): total variation distance of shares (…, class, layer); NaN where one of them has no anchors."""
    return np.asarray(np.abs(a - b).sum(axis=-2) / 2)
