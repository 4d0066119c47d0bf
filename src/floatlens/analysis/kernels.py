"""Numpy kernels: plain arrays in, plain arrays out, keys on the last axis. They know nothing of traces or figures.

What is not defined (the overlap of two empty sets, the slope of one step) is NaN.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]


def nanmean(x: Floats, axis: int | tuple[int, ...] = 0) -> Floats:
    """The mean of the defined values; NaN, without a warning, where there are none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        mean: Floats = np.nanmean(x, axis=axis)
    return mean


# -- how attention moves (methods §2): sets are (step, …, key), distributions too, and sum to 1 over keys -------------


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


# -- uniform attention (methods §1), under a full mask, a causal one, or block attention: causal, except that positions
# -- in `together` see each other, as the text being written does -----------------------------------------------------


def null_share(queries: Bools, present: Bools, *, causal: bool, together: Bools | None = None) -> Floats:
    """(…, key): mean over `queries` of uniform attention over the keys each of them sees; NaN without any query.
    `queries` and `present` are (…, key): which positions are queries, and where there is a token."""
    asking = queries.sum(axis=-1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        if not causal:
            even = present / present.sum(axis=-1, keepdims=True)
            return np.where(asking > 0, even, np.nan)
        weight = np.where(queries, 1.0 / _keys_seen(present, together), 0.0) / asking
    return np.where(present, _gathered(weight, together), np.where(asking > 0, 0.0, np.nan))


def seen_by(queries: Bools, present: Bools, *, causal: bool, together: Bools | None = None) -> Floats:
    """(…, key): how many of the queries can see a key."""
    if causal:
        return np.where(present, _gathered(queries.astype(np.float64), together), 0.0)
    return np.asarray(present * queries.sum(axis=-1, keepdims=True), dtype=np.float64)


def uniform_flow(
    region_of: NDArray[np.integer], present: Bools, regions: int, *, causal: bool, together: Bools | None = None
) -> Floats:
    """(region, region): mean mass from the queries of one region to the keys of another; NaN without queries."""
    member = np.eye(regions)[region_of] * present[:, None]  # (position, region)
    with np.errstate(divide="ignore", invalid="ignore"):
        rows = uniform_mix(member, present, causal=causal, together=together)
        return np.asarray(member.T @ rows / member.sum(axis=0)[:, None])


def uniform_mix(x: Floats, present: Bools, *, causal: bool, together: Bools | None = None) -> Floats:
    """(query, column): the mean of `x` (key, column) over the keys that a query sees; 0 where there is no token."""
    held = x * present[:, None]
    seen = np.cumsum(held, axis=0) if causal else np.broadcast_to(held.sum(axis=0), held.shape)
    if causal and together is not None:
        inside = held * together[:, None]
        seen = seen + together[:, None] * (inside.sum(axis=0) - np.cumsum(inside, axis=0))
    count = _keys_seen(present, together) if causal else np.full(len(present), present.sum(), dtype=np.float64)
    return np.where(present[:, None], seen / np.maximum(count, 1)[:, None], 0.0)


def _keys_seen(present: Bools, together: Bools | None) -> Floats:
    """(…, query): how many keys a query sees: itself and those before it, and later ones it is written with."""
    before = np.cumsum(present, axis=-1).astype(np.float64)
    if together is None:
        return before
    inside = (present & together).astype(np.float64)
    return np.asarray(before + together * (inside.sum(axis=-1, keepdims=True) - np.cumsum(inside, axis=-1)))


def _gathered(x: Floats, together: Bools | None) -> Floats:
    """(…, key): Σ of `x` over the queries that see a key."""
    later = np.flip(np.cumsum(np.flip(x, -1), axis=-1), -1)
    if together is None:
        return later
    inside = x * together
    return np.asarray(later + together * (np.cumsum(inside, axis=-1) - inside))


# -- the advantage of some keys in q·k, split exactly into norm and angle (methods §4) --------------------------------
# q̄·k_j = |k_j| · (q̄·k̂_j), a norm times a direction. For one anchor and one other key, the Shapley value of a factor
# is the average over the two orders in which norm and direction can be swapped. Averaged over all pairs of an anchor
# and another key the parts still sum to the whole.


@dataclass(frozen=True)
class Split:
    """Δ(q·k) and its two parts; NaN where either set of keys is empty."""

    whole: Floats
    norm: Floats
    angle: Floats


def split(dot: Floats, norm: Floats, chosen: Bools, others: Bools) -> Split:
    """All of one shape (…, key): mean q·k of each key, its norm, and the two sets."""
    direction = dot / np.maximum(norm, np.finfo(np.float64).tiny)
    (n, other_n), (d, other_d), (nd, other_nd) = ((_mean(x, chosen), _mean(x, others)) for x in (norm, direction, dot))
    cross = n * other_d - other_n * d
    whole = nd - other_nd
    return Split(whole, 0.5 * (whole + cross), 0.5 * (whole - cross))


def advantage(x: Floats, chosen: Bools, others: Bools) -> tuple[Floats, Floats]:
    """(…): mean of `x` over the chosen keys less that over the others; and the same in standard deviations of the
    others (Glass's delta: the chosen are often one key, which has no spread of its own)."""
    mean, other = _mean(x, chosen), _mean(x, others)
    spread = np.sqrt(_mean(np.where(others, (x - other[..., None]) ** 2, 0.0), others))
    with np.errstate(divide="ignore", invalid="ignore"):
        return mean - other, np.where(spread > 0, (mean - other) / spread, np.nan)


def _mean(x: Floats, where: Bools) -> Floats:
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.where(where, x, 0.0).sum(axis=-1) / where.sum(axis=-1))


# -- rollout (methods §7) ---------------------------------------------------------------------------------------------


def rollout(attention: Floats) -> Floats:
    """(layer, from, to) → (layer, from, to): the rollout through each layer and all before it. Adds the identity,
    normalises rows and multiplies over layers, so rows stay stochastic. An undefined row (a region without queries)
    becomes the identity."""
    size = attention.shape[-1]
    identity = np.eye(size)
    undefined = np.isnan(attention).any(axis=-1, keepdims=True)
    mixed = np.where(undefined, identity, attention) + identity
    mixed /= mixed.sum(axis=-1, keepdims=True)
    through = np.empty_like(mixed)
    held = identity
    for layer, step in enumerate(mixed):
        held = step @ held
        through[layer] = held
    return through
