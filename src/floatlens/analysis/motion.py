"""Numpy kernels of motion (methods §2, §2a): sets and shares are (step, …, key), tracks (step, …); plain arrays.

What is not defined (the overlap of two empty sets, the slope of one step) is NaN.
"""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from floatlens.analysis.kernels import Bools, Floats, nanmean

LAGS = tuple(round(0.1 * tenth, 1) for tenth in range(1, 11))
"""Distances between two steps, as shares of the generation."""
FEWEST_STEPS = 4
"""Fewer steps than this have no first and last quarter."""


# -- sets -------------------------------------------------------------------------------------------------------------


def jaccard(a: Bools, b: Bools) -> Floats:
    """(…): |a ∩ b| / |a ∪ b| over the last axis."""
    union = (a | b).sum(axis=-1)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(union > 0, (a & b).sum(axis=-1) / np.maximum(union, 1), np.nan))


def pair_jaccard(sets: Bools) -> Floats:
    """(…, step, step): the overlap of the sets of each pair along the first axis, steps or whatever it is."""
    flat = np.moveaxis(sets, 0, -2).astype(np.float32)  # products of 0 and 1: exact in single precision
    both = flat @ np.swapaxes(flat, -1, -2)
    sizes = flat.sum(axis=-1)
    union = sizes[..., :, None] + sizes[..., None, :] - both
    return np.asarray(np.where(union > 0, both / np.maximum(union, 1), np.nan), dtype=np.float64)


def progress(steps: Floats) -> Floats:
    """(step): the share of the generation that lies before each step, from 0 to 1."""
    return np.asarray((steps - steps[0]) / max(steps[-1] - steps[0], 1))


def by_lag(pairs: Floats, steps: Floats) -> Floats:
    """(…, lag): mean of pairs (…, step, step) that lie `LAGS` apart, each pair at the nearest tenth."""
    first, second = np.triu_indices(len(steps), k=1)
    apart = np.floor(10 * np.diff(progress(steps)[np.stack([first, second])], axis=0)[0] + 0.5 + 1e-9)
    means = [nanmean(pairs[..., first[apart == t], second[apart == t]], axis=-1) for t in range(1, len(LAGS) + 1)]
    return np.stack(means, axis=-1)


def between_quarters(pairs: Floats, steps: Floats) -> Floats:
    """(…): mean of pairs (…, step, step) of a step of the first and a step of the last quarter of the generation."""
    if len(steps) < FEWEST_STEPS:
        return np.full(pairs.shape[:-2], np.nan)
    done = progress(steps)
    chosen = pairs[..., done <= 0.25 + 1e-9, :][..., done >= 0.75 - 1e-9]
    return nanmean(chosen, axis=(-2, -1))


def between_any(pairs: Floats) -> Floats:
    """(…): mean of pairs (…, step, step) of two different steps: what `between_quarters` gives on average when the
    order of the steps is random."""
    first, second = np.triu_indices(pairs.shape[-1], k=1)
    return nanmean(pairs[..., first, second], axis=-1)


def lifetime(anchors: Bools, weight: Floats | None = None) -> Floats:
    """(…): mean number of consecutive steps (first axis) that a key stays in the set, over all its stays; with weights
    (step), their sum over the steps of a stay."""
    begins = anchors.copy()
    begins[1:] &= ~anchors[:-1]
    stays = begins.sum(axis=(0, -1))
    each = anchors.sum(axis=-1)
    total = each.sum(axis=0) if weight is None else np.tensordot(weight, each, axes=1)
    return np.asarray(np.where(stays > 0, total / np.maximum(stays, 1), np.nan))


def distinct(anchors: Bools) -> Floats:
    """(…): how many keys are in the set at some step."""
    return np.asarray(anchors.any(axis=0).sum(axis=-1), dtype=np.float64)


def sinks(anchors: Bools, least: float) -> Bools:
    """(…, key): the keys that are in the set in at least this share of the steps."""
    return np.asarray(anchors.sum(axis=0) >= least * len(anchors) - 1e-9)


# -- shares -----------------------------------------------------------------------------------------------------------


def entropy(share: Floats, present: Bools) -> Floats:
    """(…): entropy over the present keys, divided by that of uniform attention: 1 = uniform, 0 = one key."""
    p = np.where(present & (share > 0), share, 1.0)
    most = np.log(np.maximum(present.sum(axis=-1), 2))
    return np.asarray(np.where(np.isnan(share).all(axis=-1), np.nan, -(p * np.log(p)).sum(axis=-1) / most))


def effective_number(share: Floats, anchors: Bools) -> Floats:
    """(…): exp of the entropy of the shares within the set: n for n equal keys, 0 for an empty set."""
    held = np.where(anchors, share, 0.0)
    p = held / np.maximum(held.sum(axis=-1, keepdims=True), np.finfo(np.float64).tiny)
    spread = -(p * np.log(np.where(p > 0, p, 1.0))).sum(axis=-1)
    return np.asarray(np.where(anchors.any(axis=-1), np.exp(spread), 0.0))


def wasserstein(share: Floats) -> Floats:
    """(step − 1, …): how far mass moves from one step to the next, with all positions scaled to [0, 1]."""
    gaps = np.diff(np.cumsum(np.nan_to_num(share), axis=-1), axis=0)
    defined = np.asarray(~np.isnan(share).all(axis=-1))
    moved = np.abs(gaps[..., :-1]).sum(axis=-1) / max(share.shape[-1] - 1, 1)
    return np.asarray(np.where(defined[1:] & defined[:-1], moved, np.nan))


# -- tracks -----------------------------------------------------------------------------------------------------------


def track(share: Floats) -> Floats:
    """(step, …): the position with the largest share, the first of equals; NaN where nothing is defined."""
    filled = np.where(np.isnan(share), -np.inf, share)
    return np.where(np.isfinite(filled).any(axis=-1), filled.argmax(axis=-1), np.nan)


def slope(track: Floats, steps: Floats) -> Floats:
    """(…): Theil–Sen slope of tracks (step, …) over `steps`, or whatever is counted per step: the median over all pairs
    of steps that differ in it."""
    first, second = np.triu_indices(len(steps), k=1)
    if not len(first):
        return np.full(track.shape[1:], np.nan)
    run = (steps[second] - steps[first]).reshape(-1, *([1] * (track.ndim - 1)))
    run = np.where(run == 0, np.nan, run)
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


def distances(track: Floats, frontier: Floats) -> tuple[Floats, Floats]:
    """(…), (…): mean distance of tracks (step, …) to one position per step, and the same for steps in random order (its
    expectation: the mean over all pairs of steps). Steps count where both are defined."""
    target = frontier.reshape(-1, *([1] * (track.ndim - 1)))
    both = np.isfinite(track) & np.isfinite(target)
    held, aim = np.where(both, track, np.nan), np.where(both, target, np.nan)
    return nanmean(np.abs(held - aim)), nanmean(np.abs(held[:, None] - aim[None]), axis=(0, 1))


def same_token(track: Floats, tokens: NDArray[np.integer]) -> Floats:
    """(…): share of the moves of tracks (step, …) that end on the token they left, given tokens (step, key)."""
    defined = np.isfinite(track)
    place = np.where(defined, track, 0).astype(np.int64)
    flat = place.reshape(len(place), -1)
    held = np.take_along_axis(tokens, flat, axis=1).reshape(place.shape)
    moves = defined[1:] & defined[:-1] & (place[1:] != place[:-1])
    return nanmean(np.where(moves, held[1:] == held[:-1], np.nan))


def distinct_share(track: Floats) -> Floats:
    """(step): number of different positions of tracks (step, layer) ÷ tracks; NaN with fewer than two."""
    counts = np.isfinite(track).sum(axis=1)
    found = [len(np.unique(row[np.isfinite(row)])) for row in track]
    return np.asarray(np.where(counts > 1, np.array(found) / np.maximum(counts, 1), np.nan))
