"""How a distribution over keys moves: sets that stay or change, distances, tracks (methods §2).

Sets are boolean (step, …, key) arrays, distributions float arrays of the same shape whose last axis sums to 1. What is
not defined (the overlap of two empty sets, the slope of one step) is NaN.
"""

from __future__ import annotations

import warnings

import numpy as np
from scipy import stats

from floatlens.analysis.kernels import Bools, Floats

__all__ = ["correlation", "distinct", "entropy", "jaccard", "lifetime", "slope", "track", "wasserstein"]


def jaccard(a: Bools, b: Bools) -> Floats:
    """(…): |a ∩ b| / |a ∪ b| over the last axis."""
    union = (a | b).sum(axis=-1)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(union > 0, (a & b).sum(axis=-1) / np.maximum(union, 1), np.nan))


def lifetime(anchors: Bools) -> Floats:
    """(…): mean number of consecutive steps (first axis) that a key stays in the set, over all its stays."""
    begins = anchors.copy()
    begins[1:] &= ~anchors[:-1]
    stays = begins.sum(axis=(0, -1))
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(stays > 0, anchors.sum(axis=(0, -1)) / np.maximum(stays, 1), np.nan))


def distinct(anchors: Bools) -> Floats:
    """(…): how many keys are in the set at some step."""
    return np.asarray(anchors.any(axis=0).sum(axis=-1), dtype=np.float64)


def entropy(share: Floats, present: Bools) -> Floats:
    """(…): entropy over the present keys, divided by that of uniform attention: 1 = uniform, 0 = one key."""
    p = np.where(present & (share > 0), share, 1.0)
    most = np.log(np.maximum(present.sum(axis=-1), 2))
    return np.asarray(np.where(np.isnan(share).all(axis=-1), np.nan, -(p * np.log(p)).sum(axis=-1) / most))


def wasserstein(share: Floats) -> Floats:
    """(step − 1, …): how far mass moves from one step to the next, with all positions scaled to [0, 1]."""
    gaps = np.diff(np.cumsum(np.nan_to_num(share), axis=-1), axis=0)
    defined = np.asarray(~np.isnan(share).all(axis=-1))
    moved = np.abs(gaps[..., :-1]).sum(axis=-1) / max(share.shape[-1] - 1, 1)
    return np.asarray(np.where(defined[1:] & defined[:-1], moved, np.nan))


def track(share: Floats) -> Floats:
    """(step, …): the position with the largest share, the first of equals; NaN where nothing is defined."""
    filled = np.where(np.isnan(share), -np.inf, share)
    return np.where(np.isfinite(filled).any(axis=-1), filled.argmax(axis=-1), np.nan)


def slope(track: Floats, steps: Floats) -> Floats:
    """(…): Theil–Sen slope of tracks (step, …) in positions per step: the median over all pairs of steps."""
    first, second = np.triu_indices(len(steps), k=1)
    if not len(first):
        return np.full(track.shape[1:], np.nan)
    run = (steps[second] - steps[first]).reshape(-1, *([1] * (track.ndim - 1)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return np.asarray(np.nanmedian((track[second] - track[first]) / run, axis=0))


def correlation(track: Floats, frontier: Floats) -> Floats:
    """(…): Pearson correlation of tracks (step, …) with one value per step; NaN when either never changes."""
    flat = track.reshape(len(track), -1)
    found = [_pearson(column, frontier) for column in flat.T]
    return np.array(found).reshape(track.shape[1:])


def _pearson(x: Floats, y: Floats) -> float:
    both = np.isfinite(x) & np.isfinite(y)
    x, y = x[both], y[both]
    if len(x) < 3 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return float("nan")
    return float(stats.pearsonr(x, y).statistic)
