"""The advantage of some keys over the others in q·k, split exactly into key norm and angle (methods §4).

q̄·k_j = |k_j| · (q̄·k̂_j), a norm times a direction. For one anchor and one other key, the Shapley value of a factor is
the average over the two orders in which norm and direction can be swapped. Averaged over all pairs of an anchor and
another key the parts still sum to the whole.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from floatlens.analysis.kernels import Bools, Floats

__all__ = ["Split", "advantage", "split"]


@dataclass(frozen=True)
class Split:
    """Δ(q·k) and its two parts; NaN where either set of keys is empty."""

    whole: Floats
    norm: Floats
    angle: Floats


def split(dot: Floats, norm: Floats, chosen: Bools, others: Bools) -> Split:
    """All of one shape (…, key): mean q·k of each key, its norm, and the two sets."""
    direction = dot / np.maximum(norm, np.finfo(np.float64).tiny)
    (n, other_n), (d, other_d), (nd, other_nd) = (_means(x, chosen, others) for x in (norm, direction, dot))
    cross = n * other_d - other_n * d
    whole = nd - other_nd
    return Split(whole, 0.5 * (whole + cross), 0.5 * (whole - cross))


def advantage(x: Floats, chosen: Bools, others: Bools) -> tuple[Floats, Floats]:
    """(…): mean of `x` over the chosen keys less that over the others; and the same in standard deviations of the
    others (Glass's delta: the chosen are often one key, which has no spread of its own)."""
    mean, other = _means(x, chosen, others)
    spread = np.sqrt(_mean(np.where(others, (x - other[..., None]) ** 2, 0.0), others))
    with np.errstate(divide="ignore", invalid="ignore"):
        return mean - other, np.where(spread > 0, (mean - other) / spread, np.nan)


def _means(x: Floats, chosen: Bools, others: Bools) -> tuple[Floats, Floats]:
    return _mean(x, chosen), _mean(x, others)


def _mean(x: Floats, where: Bools) -> Floats:
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.where(where, x, 0.0).sum(axis=-1) / where.sum(axis=-1))
