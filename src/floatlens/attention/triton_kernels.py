"""The statistics of a layer in two sweeps, as Triton kernels: rows (output, log-sum-exps, entropy, means), and columns.

Nothing is copied to float32: products of queries and keys in half precision are summed in float32, log-sum-exps stay in
float32, and a weight is split into two numbers of bfloat16 where it is summed, which leaves it 16 bits. Every sum has
one fixed order (no atomics). Imported only by `find_kernel` on GPUs, and by tests under Triton's interpreter.
"""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext
from typing import ClassVar

import torch
import triton
import triton.language as tl
from torch import Tensor

from floatlens.attention.sweeps import RowSweep, Sight

__all__ = ["TritonSweeps"]

_LOG2E = math.log2(math.e)
_LOWEST = tl.constexpr(-43280.0)
"""`HIDDEN` in base 2: the least that a largest score can be."""
_UNSEEN = tl.constexpr(-1e30)
"""The score of a key that a query does not see: its weight is exactly 0, and 0 times it is 0."""
_LN2 = tl.constexpr(math.log(2))
_FIRST, _LAST = tl.constexpr(-(2**31)), tl.constexpr(2**31 - 1)
"""The numbers of a query that sees no key, and of a key that nobody sees."""


@triton.jit
def _split(x):
    """x as the sum of two numbers of bfloat16; what is left out is at most 2^-18 of it."""
    high = x.to(tl.bfloat16)
    return high, (x - high.to(tl.float32)).to(tl.bfloat16)


@triton.jit
def _summed(total, a, x, exact: tl.constexpr, whole: tl.constexpr):
    """total + a @ x for weights and values in float32; `whole` values are 0 and 1."""
    if exact:
        return tl.dot(a, x, total, input_precision="ieee")
    high, low = _split(a)
    x_high, x_low = _split(x)
    total = tl.dot(low, x_high, tl.dot(high, x_high, total))
    if whole:
        return total
    return tl.dot(high, x_low, total)


@triton.jit
def _tile(base, rows, columns, stride, inside, width: tl.constexpr):
    """Numbers at rows × columns of a matrix whose rows are `stride` apart; 0 outside of it."""
    return tl.load(base + rows * stride + columns, mask=inside & (columns < width), other=0.0)


@triton.jit
def _score(products, seen, slope, ceiling, capped: tl.constexpr):
    """Scores in base 2. `slope` and `ceiling` hold the scale and the soft cap: see `_steps`."""
    score = slope * products
    if capped:
        score = ceiling * (1.0 - 2.0 / (1.0 + tl.exp2(score)))  # tanh
    return tl.where(seen, score, _UNSEEN)


@triton.jit
def _given(seen, given, i, j, stride, inside, has_given: tl.constexpr):
    """What is seen by numbers, and by the explicit mask where there is one."""
    if has_given:
        seen &= tl.load(given + i.to(tl.int64) * stride + j, mask=inside, other=0) != 0
    return seen


@triton.jit(do_not_specialize=["queries", "keys", "n"])
def _rows(
    q, k, v, out, total, entropy, weights, weighed, values, averaged, number_q, number_k, near_q, near_k, given, stop,
    q_batch, q_head, q_row, k_batch, k_head, k_row, v_batch, v_head, v_row, given_batch, given_head, given_row,
    slope, ceiling, queries, keys, n, groups,
    size: tl.constexpr, wide: tl.constexpr, v_size: tl.constexpr, v_wide: tl.constexpr, n_wide: tl.constexpr,
    has_value: tl.constexpr, has_entropy: tl.constexpr, has_weights: tl.constexpr, has_averages: tl.constexpr,
    has_near: tl.constexpr, has_given: tl.constexpr, capped: tl.constexpr, exact: tl.constexpr,
    block_q: tl.constexpr, block_k: tl.constexpr,
):  # fmt: skip
    """A block of queries of one head against all keys they see; the largest score so far is `top`."""
    head, batch = tl.program_id(1), tl.program_id(2).to(tl.int64)
    i, d = tl.program_id(0) * block_q + tl.arange(0, block_q), tl.arange(0, wide)
    e, c = tl.arange(0, v_wide), tl.arange(0, n_wide)
    inside, unit = i < queries, batch * tl.num_programs(1) + head
    k += batch * k_batch + (head // groups) * k_head
    v += batch * v_batch + (head // groups) * v_head
    given += batch * given_batch + head * given_head
    asked = _tile(q + batch * q_batch + head * q_head, i[:, None], d[None, :], q_row, inside[:, None], size)
    number = tl.load(number_q + batch * queries + i, mask=inside, other=_FIRST)
    last = tl.max(tl.load(stop + batch * queries + i, mask=inside, other=0))
    top, mass = tl.full([block_q], _LOWEST, tl.float32), tl.zeros([block_q], tl.float32)
    surprise, weight = tl.zeros([block_q], tl.float32), tl.zeros([block_q], tl.float32)
    mean, mixed = tl.zeros([block_q, n_wide], tl.float32), tl.zeros([block_q, v_wide], tl.float32)
    for start in range(0, last, block_k):
        j = start + tl.arange(0, block_k)
        within = j < keys
        seen = tl.load(number_k + batch * keys + j, mask=within, other=_LAST)[None, :] <= number[:, None]
        if has_near:
            near = tl.load(near_q + batch * queries + i, mask=inside, other=0)
            seen |= (tl.load(near_k + batch * keys + j, mask=within, other=0)[None, :] & near[:, None]) != 0
        seen = _given(seen, given, i[:, None], j[None, :], given_row, inside[:, None] & within[None, :], has_given)
        held = _tile(k, j[:, None], d[None, :], k_row, within[:, None], size)
        score = _score(tl.dot(asked, tl.trans(held), input_precision="ieee"), seen, slope, ceiling, capped)
        now = tl.maximum(top, tl.max(score, 1))
        change = top - now
        decay = tl.exp2(change)
        score -= now[:, None]
        a = tl.exp2(score)
        if has_entropy:
            surprise = decay * (surprise + change * mass) + tl.sum(a * score, 1)
        mass = decay * mass + tl.sum(a, 1)
        top = now
        if has_weights:
            w = tl.load(weights + unit * keys + j, mask=within, other=0.0)
            weight = decay * weight + tl.sum(a * w[None, :], 1)
        if has_averages:
            shown = within[:, None] & (c < n)[None, :]
            x = tl.load(values + (batch * n + c[None, :]) * keys + j[:, None], mask=shown, other=0.0)
            mean = _summed(mean * decay[:, None], a, x, exact, False)
        if has_value:
            x = _tile(v, j[:, None], e[None, :], v_row, within[:, None], v_size)
            mixed = tl.dot(a.to(x.dtype), x, mixed * decay[:, None], input_precision="ieee")
    sees, at = mass > 0, unit * queries + i
    mass = tl.where(sees, mass, 1.0)  # rows that see no key give nothing
    tl.store(total + at, tl.where(sees, top + tl.log2(mass), 0.0), mask=inside)
    if has_entropy:
        tl.store(entropy + at, tl.maximum(tl.log2(mass) - surprise / mass, 0.0) * _LN2, mask=inside)
    if has_weights:
        tl.store(weighed + at, weight / mass, mask=inside)
    if has_averages:
        _keep(averaged, at, c, mean / mass[:, None], inside, n)
    if has_value:
        _keep(out, at, e, mixed / mass[:, None], inside, v_size)


@triton.jit
def _keep(into, rows, columns, x, inside, width):
    """Store a tile in a matrix without gaps."""
    shown = inside[:, None] & (columns < width)[None, :]
    tl.store(into + rows[:, None] * width + columns[None, :], x.to(into.dtype.element_ty), mask=shown)


@triton.jit(do_not_specialize=["queries", "keys", "n"])
def _columns(
    q, k, total, members, inverse, columns, weighed, number_q, number_k, near_q, near_k, given, first,
    q_batch, q_head, q_row, k_batch, k_head, k_row, given_batch, given_head, given_row,
    slope, ceiling, queries, keys, n, groups,
    size: tl.constexpr, wide: tl.constexpr, n_wide: tl.constexpr, has_columns: tl.constexpr,
    has_weights: tl.constexpr, has_near: tl.constexpr, has_given: tl.constexpr, capped: tl.constexpr,
    exact: tl.constexpr, block_q: tl.constexpr, block_k: tl.constexpr,
):  # fmt: skip
    """A block of keys of one query head against all queries that see them: sums over the queries of each class."""
    head, batch = tl.program_id(1), tl.program_id(2).to(tl.int64)
    j, d, c = tl.program_id(0) * block_k + tl.arange(0, block_k), tl.arange(0, wide), tl.arange(0, n_wide)
    within, unit = j < keys, batch * tl.num_programs(1) + head
    q += batch * q_batch + head * q_head
    given += batch * given_batch + head * given_head
    held = _tile(k + batch * k_batch + (head // groups) * k_head, j[:, None], d[None, :], k_row, within[:, None], size)
    number = tl.load(number_k + batch * keys + j, mask=within, other=_LAST)
    begin = tl.min(tl.load(first + batch * keys + j, mask=within, other=_LAST))
    sums, shares = tl.zeros([block_k, n_wide], tl.float32), tl.zeros([block_k, n_wide], tl.float32)
    for start in range(begin // block_q * block_q, queries, block_q):
        i = start + tl.arange(0, block_q)
        inside = i < queries
        seen = number[:, None] <= tl.load(number_q + batch * queries + i, mask=inside, other=_FIRST)[None, :]
        if has_near:
            near = tl.load(near_k + batch * keys + j, mask=within, other=0)
            seen |= (tl.load(near_q + batch * queries + i, mask=inside, other=0)[None, :] & near[:, None]) != 0
        seen = _given(seen, given, i[None, :], j[:, None], given_row, inside[None, :] & within[:, None], has_given)
        asked = _tile(q, i[:, None], d[None, :], q_row, inside[:, None], size)
        score = _score(tl.dot(held, tl.trans(asked), input_precision="ieee"), seen, slope, ceiling, capped)
        a = tl.exp2(score - tl.load(total + unit * queries + i, mask=inside, other=0.0)[None, :])
        shown = inside[:, None] & (c < n)[None, :]
        x = tl.load(members + (batch * n + c[None, :]) * queries + i[:, None], mask=shown, other=0.0)
        if has_columns:
            sums = _summed(sums, a, x, exact, True)
        if has_weights:
            by = tl.load(inverse + unit * queries + i, mask=inside, other=0.0)
            shares = _summed(shares, a, x * by[:, None], exact, False)
    at = (unit * n + c[None, :]) * keys + j[:, None]
    shown = within[:, None] & (c < n)[None, :]
    if has_columns:
        tl.store(columns + at, sums, mask=shown)
    if has_weights:
        tl.store(weighed + at, shares, mask=shown)


class TritonSweeps:
    """Both sweeps. `blocks` are (own, walked, warps): how many queries a row sweep holds, and how many keys it reads at
    a time; in a column sweep the other way round. By default they go by the size of a head."""

    name: ClassVar[str] = "Triton sweeps"
    softcap: ClassVar[bool] = True
    widest: ClassVar[int] = 64
    largest: ClassVar[int] = 256

    def __init__(self, blocks: tuple[int, int, int] | None = None) -> None:
        self.blocks = blocks

    def rows(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor | None,
        sight: Sight,
        scale: float,
        softcap: float | None = None,
        *,
        entropy: bool = False,
        weights: Tensor | None = None,
        values: Tensor | None = None,
    ) -> RowSweep:
        batch, heads, queries, size = query.shape
        query, key = _dense(query), _dense(key)
        v = key if value is None else _dense(value)
        n = 0 if values is None else values.shape[1]

        def made(*more: int, dtype: torch.dtype = torch.float32) -> Tensor:
            return torch.empty(batch, heads, queries, *more, dtype=dtype, device=query.device)

        found = RowSweep(
            made(),
            None if value is None else made(v.shape[-1], dtype=query.dtype),
            made() if entropy else None,
            None if weights is None else made(),
            None if values is None else made(n),
        )
        given, near_q, near_k = _optional(sight)
        own, walked, warps = self.blocks or _blocks(max(size, v.shape[-1]), query.dtype)
        none = found.total
        with _on(query.device):
            _rows[triton.cdiv(queries, own), heads, batch](
                query, key, v, _or(found.out, none), found.total, _or(found.entropy, none), _or(weights, none),
                _or(found.weighed, none), _or(values, none), _or(found.averaged, none),
                sight.query_numbers, sight.key_numbers, near_q, near_k, given, sight.stop,
                *query.stride()[:3], *key.stride()[:3], *v.stride()[:3], *given.stride()[:3],
                *_steps(scale, softcap), queries, key.shape[2], n, heads // key.shape[1],
                size=size, wide=_padded(size), v_size=v.shape[-1], v_wide=_padded(v.shape[-1]), n_wide=_padded(n),
                has_value=value is not None, has_entropy=entropy, has_weights=weights is not None,
                has_averages=values is not None, has_near=sight.near is not None, has_given=sight.given is not None,
                capped=softcap is not None, exact=query.dtype == torch.float32,
                block_q=own, block_k=walked, num_warps=warps, num_stages=2,
            )  # fmt: skip
        return found

    def columns(
        self,
        query: Tensor,
        key: Tensor,
        total: Tensor,
        members: Tensor,
        sight: Sight,
        scale: float,
        softcap: float | None = None,
        *,
        plain: bool = True,
        inverse: Tensor | None = None,
    ) -> tuple[Tensor | None, Tensor | None]:
        batch, heads, queries, size = query.shape
        query, key, n = _dense(query), _dense(key), members.shape[1]
        shape = (batch, heads, n, key.shape[2])
        columns = torch.empty(shape, device=query.device) if plain else None
        weighed = None if inverse is None else torch.empty(shape, device=query.device)
        given, near_q, near_k = _optional(sight)
        own, walked, warps = self.blocks or _blocks(size, query.dtype)
        with _on(query.device):
            _columns[triton.cdiv(key.shape[2], own), heads, batch](
                query, key, total, members, _or(inverse, total), _or(columns, total), _or(weighed, total),
                sight.query_numbers, sight.key_numbers, near_q, near_k, given, sight.first,
                *query.stride()[:3], *key.stride()[:3], *given.stride()[:3],
                *_steps(scale, softcap), queries, key.shape[2], n, heads // key.shape[1],
                size=size, wide=_padded(size), n_wide=_padded(n), has_columns=plain, has_weights=inverse is not None,
                has_near=sight.near is not None, has_given=sight.given is not None, capped=softcap is not None,
                exact=query.dtype == torch.float32, block_q=walked, block_k=own, num_warps=warps, num_stages=2,
            )  # fmt: skip
        return columns, weighed


def _on(device: torch.device) -> AbstractContextManager[object]:
    """Triton launches on the current GPU, which need not be that of a layer where a model is spread over several."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()


def _steps(scale: float, softcap: float | None) -> tuple[float, float]:
    """What a product is multiplied by, and what a cap by tanh is: c·log2e·tanh(scale·x/c), or scale·log2e·x."""
    return (scale * _LOG2E, 0.0) if softcap is None else (2 * scale * _LOG2E / softcap, softcap * _LOG2E)


def _blocks(size: int, dtype: torch.dtype) -> tuple[int, int, int]:
    """Own, walked, and warps: what A100 and H100 hold in registers, as their compiler says (tests/attention)."""
    if dtype == torch.float32:
        return (32, 32, 8) if size <= 128 else (16, 16, 4)
    return (64, 32, 4) if size <= 128 else (32, 32, 8)


def _padded(size: int) -> int:
    """Tensor cores want powers of 2, and at least 16."""
    return max(16, 1 << (size - 1).bit_length())


def _dense(x: Tensor) -> Tensor:
    """The kernels step through heads and rows with any stride, and through a head one by one."""
    return x if x.stride(-1) == 1 else x.contiguous()


def _or(x: Tensor | None, other: Tensor) -> Tensor:
    """A kernel wants a pointer for what it is not asked for, too; it never follows it."""
    return other if x is None else x.contiguous()


def _optional(sight: Sight) -> tuple[Tensor, Tensor, Tensor]:
    none = sight.key_numbers[:1, None, None]
    near = (sight.key_numbers, sight.key_numbers) if sight.near is None else sight.near
    return none if sight.given is None else sight.given, *near
