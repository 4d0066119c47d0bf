"""Uniform attention: how many queries see a key, and the share it would get by default (methods §1).

Three masks: full (`causal=False`), causal, and block, which is causal except that the positions marked in `together`
see each other, as the text being written does under block attention.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from floatlens.analysis.kernels import Bools, Floats

__all__ = ["null_share", "seen_by", "uniform_flow"]


def null_share(queries: Bools, present: Bools, *, causal: bool, together: Bools | None = None) -> Floats:
    """(…, key): mean over `queries` of uniform attention over the keys each of them sees; NaN without any query.

    `queries` and `present` are (…, key): which positions are queries, and where there is a token.
    """
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
    seen = np.cumsum(member, axis=0) if causal else np.broadcast_to(member.sum(axis=0), member.shape)
    if causal and together is not None:
        inside = member * together[:, None]
        seen = seen + together[:, None] * (inside.sum(axis=0) - np.cumsum(inside, axis=0))
    with np.errstate(divide="ignore", invalid="ignore"):
        rows = np.where(present[:, None], seen / seen.sum(axis=1, keepdims=True), 0.0)
        return np.asarray(member.T @ rows / member.sum(axis=0)[:, None])


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
