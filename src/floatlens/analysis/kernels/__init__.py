"""Numpy kernels: plain arrays in, plain arrays out, keys on the last axis. They know nothing of traces or figures."""

import warnings

import numpy as np
from numpy.typing import NDArray

__all__ = ["Bools", "Floats", "nanmean"]

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]


def nanmean(x: Floats, axis: int | tuple[int, ...] = 0) -> Floats:
    """The mean of the defined values; NaN, without a warning, where there are none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        mean: Floats = np.nanmean(x, axis=axis)
    return mean
