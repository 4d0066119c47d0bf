"""The selective scan and its gradients in numba, one thread: a state stays in cache, nothing of its size is stored.

Compiled in memory at first use. For gradients the states are kept at the edges of chunks and recomputed inside them.
"""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from floatlens.core.fast_exp import FAST, exp2

__all__ = ["scan_backward", "scan_forward"]

_Array = NDArray[np.floating[Any]]
_CHUNK = 32
"""Positions whose states are recomputed at a time: with 256 channels and a state of 16, 1 MB."""


@numba.njit(fastmath=FAST, nogil=True)
def _forward(inputs: Any, delta: Any, before: Any, after: Any, decay: Any, out: Any, edges: Any) -> None:
    """Fills `out`, and `edges` (batch, chunk, state, channel), unless it is empty, with the state before each chunk."""
    batch, length, channels = inputs.shape
    size = decay.shape[0]
    state = np.empty((size, channels), inputs.dtype)
    for b in range(batch):
        state[:] = 0
        for t in range(length):
            if edges.shape[1] and t % _CHUNK == 0:
                edges[b, t // _CHUNK] = state
            out[b, t] = 0
            for n in range(size):
                enters, leaves = before[b, t, n], after[b, t, n]
                for d in range(channels):
                    step = delta[b, t, d]
                    now = exp2(step * decay[n, d]) * state[n, d] + step * inputs[b, t, d] * enters
                    state[n, d] = now
                    out[b, t, d] += now * leaves


@numba.njit(fastmath=FAST, nogil=True)
def _backward(
    inputs: Any,
    delta: Any,
    before: Any,
    after: Any,
    decay: Any,
    edges: Any,
    gradient: Any,
    ln2: Any,
    d_inputs: Any,
    d_delta: Any,
    d_before: Any,
    d_after: Any,
    d_decay: Any,
) -> None:
    """Adds to the `d_…`, which begin at 0."""
    batch, length, channels = inputs.shape
    size = decay.shape[0]
    states = np.empty((_CHUNK + 1, size, channels), inputs.dtype)
    kept = np.empty((_CHUNK, size, channels), inputs.dtype)
    carried = np.empty((size, channels), inputs.dtype)
    zero = np.zeros(1, inputs.dtype)[0]
    for b in range(batch):
        carried[:] = 0
        for chunk in range((length - 1) // _CHUNK, -1, -1):
            first = chunk * _CHUNK
            last = min(first + _CHUNK, length)
            states[0] = edges[b, chunk]
            for t in range(first, last):
                i = t - first
                for n in range(size):
                    enters = before[b, t, n]
                    for d in range(channels):
                        step = delta[b, t, d]
                        part = exp2(step * decay[n, d])
                        kept[i, n, d] = part
                        states[i + 1, n, d] = part * states[i, n, d] + step * inputs[b, t, d] * enters
            for t in range(last - 1, first - 1, -1):
                i = t - first
                for n in range(size):
                    enters, leaves = before[b, t, n], after[b, t, n]
                    to_after, to_before = zero, zero
                    for d in range(channels):
                        up, step, x = gradient[b, t, d], delta[b, t, d], inputs[b, t, d]
                        here = carried[n, d] + up * leaves
                        to_after += up * states[i + 1, n, d]
                        to_before += here * step * x
                        d_inputs[b, t, d] += here * enters * step
                        flows = here * kept[i, n, d]
                        turned = flows * states[i, n, d] * ln2
                        d_delta[b, t, d] += here * enters * x + turned * decay[n, d]
                        d_decay[n, d] += turned * step
                        carried[n, d] = flows
                    d_after[b, t, n] += to_after
                    d_before[b, t, n] += to_before


def scan_forward(
    inputs: _Array, delta: _Array, before: _Array, after: _Array, decay: _Array, *, edges: bool
) -> tuple[_Array, _Array]:
    """Σ_n C_i[n] h_i[n] (batch, position, channel), and what `scan_backward` needs where `edges` are wanted.

    `decay` is (state, channel) in powers of 2: h_i = 2^(Δ_i decay) h_{i-1} + Δ_i x_i B_i.
    """
    out = np.empty_like(inputs)
    chunks = -(-inputs.shape[1] // _CHUNK) if edges else 0
    kept = np.empty((len(inputs), chunks, *decay.shape), inputs.dtype)
    _forward(inputs, delta, before, after, decay, out, kept)
    return out, kept


def scan_backward(
    inputs: _Array, delta: _Array, before: _Array, after: _Array, decay: _Array, edges: _Array, gradient: _Array
) -> list[_Array]:
    """Gradients of the first five."""
    given = (inputs, delta, before, after, decay)
    found = [np.zeros_like(one) for one in given]
    _backward(*given, edges, gradient, inputs.dtype.type(math.log(2)), *found)
    return found
