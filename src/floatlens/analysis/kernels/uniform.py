"""Uniform attention: how many queries see a key, and the share it would get for nothing (methods §1)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["null_share", "seen_by", "uniform_flow"]

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]


def null_share(queries: Bools, present: Bools, *, causal: bool) -> Floats:
    """(…, key): mean over `queries` of uniform attention over the keys each of them sees; NaN without any query.

    `queries` and `present` are (…, key): which positions ask, and which hold anything at all.
    """
    asking = queries.sum(axis=-1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        if not causal:
            even = present / present.sum(axis=-1, keepdims=True)
            return np.where(asking > 0, even, np.nan)
        weight = np.where(queries, 1.0 / np.cumsum(present, axis=-1), 0.0) / asking
    return np.where(present, _tail(weight), np.where(asking > 0, 0.0, np.nan))


def seen_by(queries: Bools, present: Bools, *, causal: bool) -> Floats:
    """(…, key): how many of the queries can see a key."""
    if causal:
        return np.where(present, _tail(queries.astype(np.float64)), 0.0)
    return np.asarray(present * queries.sum(axis=-1, keepdims=True), dtype=np.float64)


def uniform_flow(region_of: NDArray[np.integer], present: Bools, regions: int, *, causal: bool) -> Floats:
    """(region, region): mean mass from the queries of one region to the keys of another; NaN without queries."""
    member = np.eye(regions)[region_of] * present[:, None]  # (position, region)
    seen = np.cumsum(member, axis=0) if causal else np.broadcast_to(member.sum(axis=0), member.shape)
    with np.errstate(divide="ignore", invalid="ignore"):
        rows = np.where(present[:, None], seen / seen.sum(axis=1, keepdims=True), 0.0)
        return np.asarray(member.T @ rows / member.sum(axis=0)[:, None])


def _tail(x: Floats) -> Floats:
    """Σ over positions from this one on."""
    return np.flip(np.cumsum(np.flip(x, -1), axis=-1), -1)
