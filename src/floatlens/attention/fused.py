"""The fused row kernel (numba): all reductions of a row while it is in cache. Compiled in memory at first use."""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from floatlens.attention.mask import HIDDEN
from floatlens.core.fast_exp import FAST, LOG2E, exp2

__all__ = ["softmax_rows"]

_MOST_THREADS: int = numba.get_num_threads()
_F = np.float32
_LN2, _UNSEEN = _F(math.log(2)), _F(HIDDEN / 2)
_LANES = 64


@numba.njit(fastmath=FAST, nogil=True, inline="always")
def _largest(row: Any, lanes: Any) -> Any:
    """The largest number of a row. LLVM does not turn one running maximum into vector instructions, so there are
    `_LANES` of them: eight times as fast."""
    whole = len(row) // _LANES * _LANES
    lanes[:] = row[0]
    for first in range(0, whole, _LANES):
        for i in range(_LANES):
            lanes[i] = max(lanes[i], row[first + i])
    top = row[0]
    if whole:
        for i in range(_LANES // 2):
            lanes[i] = max(lanes[i], lanes[i + _LANES // 2])
        for i in range(_LANES // 4):
            lanes[i] = max(lanes[i], lanes[i + _LANES // 4])
        for i in range(_LANES // 4):
            top = max(top, lanes[i])
    for j in range(whole, len(row)):
        top = max(top, row[j])
    return top


@numba.njit(parallel=True, fastmath=FAST, nogil=True)
def _walk(logits: Any, index: Any, inverse: Any, entropy: Any, largest: Any, columns: Any) -> None:
    """Shapes: (unit, row, key), (sample, row), (unit, row) 3 ×, (unit, part, class, key); units are sample × head."""
    units, rows, keys = logits.shape
    parts = columns.shape[1]
    heads = units // index.shape[0]
    share = (rows + parts - 1) // parts
    for task in numba.prange(units * parts):
        unit, part = task // parts, task % parts
        lanes = np.empty(_LANES, np.float32)
        for r in range(part * share, min(rows, (part + 1) * share)):
            row = logits[unit, r]
            top = _largest(row, lanes)
            largest[unit, r] = top
            if top <= _UNSEEN:
                row[:] = _F(0)
                inverse[unit, r] = _F(0)
                entropy[unit, r] = _F(0)
                continue
            shift = top * LOG2E
            total, weighted = _F(0), _F(0)
            for j in range(keys):
                x = row[j] * LOG2E - shift
                e = exp2(x)
                row[j] = e
                total += e
                weighted += e * x
            scale = _F(1) / total
            inverse[unit, r] = scale
            entropy[unit, r] = max(_F(0), (np.log2(total) - weighted * scale) * _LN2)
            k = index[unit // heads, r]
            if k >= 0:
                column = columns[unit, part, k]
                for j in range(keys):
                    column[j] += scale * row[j]


def softmax_rows(
    logits: Tensor,
    index: NDArray[np.int32] | None,
    inverse: Tensor,
    entropy: Tensor,
    largest: Tensor,
    columns: Tensor,
    threads: int,
) -> None:
    """Fill all outputs in place; logits (batch, head, query, key) become the unnormalised weights."""
    samples, _, rows, keys = logits.shape
    if index is None:
        index = np.full((samples, rows), -1, dtype=np.int32)
    numba.set_num_threads(max(1, min(threads, _MOST_THREADS)))
    _walk(
        logits.view(-1, rows, keys).numpy(),
        index,
        inverse.view(-1, rows).numpy(),
        entropy.view(-1, rows).numpy(),
        largest.view(-1, rows).numpy(),
        columns.flatten(0, 1).numpy(),
    )
