"""Numpy kernels: plain arrays in, plain arrays out, keys on the last axis. They know nothing of traces or figures.

What is not defined (the mean over no queries) is NaN. How attention moves over steps: `motion`.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Ints = NDArray[np.integer]


def nanmean(x: Floats, axis: int | tuple[int, ...] = 0) -> Floats:
    """The mean of the defined values; NaN, without a warning, where there are none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        mean: Floats = np.nanmean(x, axis=axis)
    return mean


# -- uniform attention (methods §1), under a full mask, a causal one, or blocks: a query sees its own block and those
# -- before it. In a causal mask positions in `together` see each other, as the text being written does ----------------


def null_share(
    queries: Bools,
    present: Bools,
    *,
    causal: bool,
    together: Bools | None = None,
    blocks: Ints | None = None,
    window: tuple[int, int] | None = None,
) -> Floats:
    """(…, key): mean over `queries` of uniform attention over the keys each of them sees; NaN without any query.
    `queries` and `present` are (…, key): which positions are queries, and where there is a token. `blocks` (…, key) are
    block numbers; positions of a block are next to each other and blocks in order. With a `window` a query sees so many
    positions (before, after) it, and itself."""
    asking = queries.sum(axis=-1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        if window is not None:
            count = _windowed(present.astype(np.float64), window)
            shared = _windowed(np.where(queries, 1.0 / count, 0.0) / asking, window[::-1])
            return np.where(present, shared, np.where(asking > 0, 0.0, np.nan))
        if not causal and blocks is None:
            even = present / present.sum(axis=-1, keepdims=True)
            return np.where(asking > 0, even, np.nan)
        weight = np.where(queries, 1.0 / _keys_seen(present, together, blocks), 0.0) / asking
    return np.where(present, _gathered(weight, together, blocks), np.where(asking > 0, 0.0, np.nan))


def seen_by(
    queries: Bools,
    present: Bools,
    *,
    causal: bool,
    together: Bools | None = None,
    blocks: Ints | None = None,
    window: tuple[int, int] | None = None,
) -> Floats:
    """(…, key): how many of the queries can see a key."""
    if window is not None:
        return np.where(present, _windowed(queries.astype(np.float64), window[::-1]), 0.0)
    if causal or blocks is not None:
        return np.where(present, _gathered(queries.astype(np.float64), together, blocks), 0.0)
    return np.asarray(present * queries.sum(axis=-1, keepdims=True), dtype=np.float64)


def uniform_flow(
    region_of: NDArray[np.integer],
    present: Bools,
    regions: int,
    *,
    causal: bool,
    together: Bools | None = None,
    blocks: Ints | None = None,
    window: tuple[int, int] | None = None,
) -> Floats:
    """(region, region): mean mass from the queries of one region to the keys of another; NaN without queries."""
    member = np.eye(regions)[region_of] * present[:, None]  # (position, region)
    with np.errstate(divide="ignore", invalid="ignore"):
        rows = uniform_mix(member, present, causal=causal, together=together, blocks=blocks, window=window)
        return np.asarray(member.T @ rows / member.sum(axis=0)[:, None])


def uniform_mix(
    x: Floats,
    present: Bools,
    *,
    causal: bool,
    together: Bools | None = None,
    blocks: Ints | None = None,
    window: tuple[int, int] | None = None,
) -> Floats:
    """(query, column): the mean of `x` (key, column) over the keys that a query sees; 0 where there is no token."""
    held = x * present[:, None]
    if window is not None:
        seen, count = _windowed(held.T, window).T, _windowed(present.astype(np.float64), window)
    elif not causal and blocks is None:
        seen = np.broadcast_to(held.sum(axis=0), held.shape)
        count = np.full(len(present), present.sum(), dtype=np.float64)
    else:
        seen, count = np.cumsum(held, axis=0), _keys_seen(present, together, blocks)
        if blocks is not None:
            seen = seen[_block_edges(blocks)[1]]
        if together is not None:
            inside = held * together[:, None]
            seen = seen + together[:, None] * (inside.sum(axis=0) - np.cumsum(inside, axis=0))
    return np.where(present[:, None], seen / np.maximum(count, 1)[:, None], 0.0)


def _windowed(x: Floats, window: tuple[int, int]) -> Floats:
    """(…, position): Σ of `x` from so many positions before to so many after each."""
    size = x.shape[-1]
    whole = np.concatenate([np.zeros((*x.shape[:-1], 1)), np.cumsum(x, axis=-1)], axis=-1)
    place = np.arange(size)
    return np.asarray(
        whole[..., np.minimum(place + window[1] + 1, size)] - whole[..., np.maximum(place - window[0], 0)]
    )


def _keys_seen(present: Bools, together: Bools | None, blocks: Ints | None) -> Floats:
    """(…, query): how many keys a query sees: itself and those before it, the rest of its block, and later ones it is
    written with."""
    before = np.cumsum(present, axis=-1).astype(np.float64)
    if blocks is not None:
        before = np.take_along_axis(before, np.broadcast_to(_block_edges(blocks)[1], before.shape), axis=-1)
    if together is None:
        return before
    inside = (present & together).astype(np.float64)
    return np.asarray(before + together * (inside.sum(axis=-1, keepdims=True) - np.cumsum(inside, axis=-1)))


def _gathered(x: Floats, together: Bools | None, blocks: Ints | None) -> Floats:
    """(…, key): Σ of `x` over the queries that see a key."""
    later = np.flip(np.cumsum(np.flip(x, -1), axis=-1), -1)
    if blocks is not None:
        later = np.take_along_axis(later, np.broadcast_to(_block_edges(blocks)[0], later.shape), axis=-1)
    if together is None:
        return later
    inside = x * together
    return np.asarray(later + together * (np.cumsum(inside, axis=-1) - inside))


def _block_edges(blocks: Ints) -> tuple[Ints, Ints]:
    """(…, position) twice: the first and the last position of each position's block."""
    place = np.broadcast_to(np.arange(blocks.shape[-1]), blocks.shape)
    new = np.ones(blocks.shape, dtype=bool)
    new[..., 1:] = blocks[..., 1:] != blocks[..., :-1]
    first = np.maximum.accumulate(np.where(new, place, 0), axis=-1)
    ending = np.where(np.roll(new, -1, axis=-1), place, blocks.shape[-1])  # the first position is always new
    last = np.flip(np.minimum.accumulate(np.flip(ending, -1), axis=-1), -1)
    return first, last


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
