"""The statistics of a layer in two sweeps, as Triton kernels: rows (output, log-sum-exps, entropy, means), and columns.

Nothing is copied to float32: products of queries and keys in half precision are summed in float32, log-sum-exps stay in
float32, and a weight is split into two numbers of bfloat16 where it is summed, which leaves it 16 bits. Every sum has
one fixed order (no atomics). Imported only by `find_kernel` on GPUs, and by tests under Triton's interpreter.
"""

from __future__ import annotations

import math
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
def _scores(products, slope, ceiling, capped: tl.constexpr):
    """Scores in base 2. `slope` and `ceiling` hold the scale and the soft cap: see `_steps`."""
    if capped:
        return ceiling * (1.0 - 2.0 / (1.0 + tl.exp2(slope * products)))  # tanh
    return slope * products


@triton.jit
def _rows(
    q, k, v, out, total, entropy, weights, weighed, values, averaged,
    number_q, number_k, near_q, near_k, given, stop,
    q_batch, q_head, q_row, k_batch, k_head, k_row, v_batch, v_head, v_row,
    given_batch, given_head, given_row, slope, ceiling, queries, keys, groups,
    size: tl.constexpr, wide: tl.constexpr, v_size: tl.constexpr, v_wide: tl.constexpr,
    n: tl.constexpr, n_wide: tl.constexpr, has_value: tl.constexpr, has_entropy: tl.constexpr,
    has_weights: tl.constexpr, has_averages: tl.constexpr, has_near: tl.constexpr, has_given: tl.constexpr,
    capped: tl.constexpr, exact: tl.constexpr, block_q: tl.constexpr, block_k: tl.constexpr,
):  # fmt: skip
    """A block of queries of one head against all keys they see; the largest score so far is `top`."""
    head, batch = tl.program_id(1), tl.program_id(2).to(tl.int64)
    i, d = tl.program_id(0) * block_q + tl.arange(0, block_q), tl.arange(0, wide)
    e, c = tl.arange(0, v_wide), tl.arange(0, n_wide)
    inside = i < queries
    unit = batch * tl.num_programs(1) + head
    q += batch * q_batch + head * q_head
    k += batch * k_batch + (head // groups) * k_head
    v += batch * v_batch + (head // groups) * v_head
    given += batch * given_batch + head * given_head
    asked = tl.load(q + i[:, None] * q_row + d[None, :], mask=inside[:, None] & (d < size)[None, :], other=0.0)
    number = tl.load(number_q + batch * queries + i, mask=inside, other=_FIRST)
    near = tl.load(near_q + batch * queries + i, mask=inside & has_near, other=0)
    top = tl.full([block_q], _LOWEST, tl.float32)
    mass = tl.zeros([block_q], tl.float32)
    surprise = tl.zeros([block_q], tl.float32)
    weight = tl.zeros([block_q], tl.float32)
    mean = tl.zeros([block_q, n_wide], tl.float32)
    mixed = tl.zeros([block_q, v_wide], tl.float32)
    last = tl.max(tl.load(stop + batch * queries + i, mask=inside, other=0))
    for start in range(0, last, block_k):
        j = start + tl.arange(0, block_k)
        within = j < keys
        held = tl.load(k + j[None, :] * k_row + d[:, None], mask=within[None, :] & (d < size)[:, None], other=0.0)
        score = _scores(tl.dot(asked, held, input_precision="ieee"), slope, ceiling, capped)
        seen = tl.load(number_k + batch * keys + j, mask=within, other=_LAST)[None, :] <= number[:, None]
        if has_near:
            seen |= (tl.load(near_k + batch * keys + j, mask=within, other=0)[None, :] & near[:, None]) != 0
        if has_given:
            shown = inside[:, None] & within[None, :]
            seen &= tl.load(given + i[:, None] * given_row + j[None, :], mask=shown, other=0) != 0
        score = tl.where(seen, score, _UNSEEN)
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
            mean *= decay[:, None]
            if exact:
                mean = tl.dot(a, x, mean, input_precision="ieee")
            else:
                high, low = _split(a)
                x_high, x_low = _split(x)
                mean = tl.dot(high, x_low, tl.dot(low, x_high, tl.dot(high, x_high, mean)))
        if has_value:
            x = tl.load(v + j[:, None] * v_row + e[None, :], mask=within[:, None] & (e < v_size)[None, :], other=0.0)
            mixed = tl.dot(a.to(x.dtype), x, mixed * decay[:, None], input_precision="ieee")
    sees = mass > 0
    mass = tl.where(sees, mass, 1.0)  # rows that see no key give nothing
    at = unit * queries + i
    tl.store(total + at, tl.where(sees, top + tl.log2(mass), 0.0), mask=inside)
    if has_entropy:
        tl.store(entropy + at, tl.maximum(tl.log2(mass) - surprise / mass, 0.0) * _LN2, mask=inside)
    if has_weights:
        tl.store(weighed + at, weight / mass, mask=inside)
    if has_averages:
        tl.store(averaged + at[:, None] * n + c[None, :], mean / mass[:, None], mask=inside[:, None] & (c < n)[None, :])
    if has_value:
        mixed = (mixed / mass[:, None]).to(out.dtype.element_ty)
        tl.store(out + at[:, None] * v_size + e[None, :], mixed, mask=inside[:, None] & (e < v_size)[None, :])


@triton.jit
def _columns(
    q, k, total, members, inverse, columns, weighed,
    number_q, number_k, near_q, near_k, given, first,
    q_batch, q_head, q_row, k_batch, k_head, k_row,
    given_batch, given_head, given_row, slope, ceiling, queries, keys, groups,
    size: tl.constexpr, wide: tl.constexpr, n: tl.constexpr, n_wide: tl.constexpr, has_columns: tl.constexpr,
    has_weights: tl.constexpr, has_near: tl.constexpr, has_given: tl.constexpr, capped: tl.constexpr,
    exact: tl.constexpr, block_q: tl.constexpr, block_k: tl.constexpr,
):  # fmt: skip
    """A block of keys of one query head against all queries that see them: sums over the queries of each class."""
    head, batch = tl.program_id(1), tl.program_id(2).to(tl.int64)
    j, d, c = tl.program_id(0) * block_k + tl.arange(0, block_k), tl.arange(0, wide), tl.arange(0, n_wide)
    within = j < keys
    unit = batch * tl.num_programs(1) + head
    q += batch * q_batch + head * q_head
    k += batch * k_batch + (head // groups) * k_head
    given += batch * given_batch + head * given_head
    held = tl.load(k + j[:, None] * k_row + d[None, :], mask=within[:, None] & (d < size)[None, :], other=0.0)
    number = tl.load(number_k + batch * keys + j, mask=within, other=_LAST)
    near = tl.load(near_k + batch * keys + j, mask=within & has_near, other=0)
    sums = tl.zeros([block_k, n_wide], tl.float32)
    shares = tl.zeros([block_k, n_wide], tl.float32)
    begin = tl.min(tl.load(first + batch * keys + j, mask=within, other=_LAST))
    for start in range(begin // block_q * block_q, queries, block_q):
        i = start + tl.arange(0, block_q)
        inside = i < queries
        asked = tl.load(q + i[None, :] * q_row + d[:, None], mask=inside[None, :] & (d < size)[:, None], other=0.0)
        score = _scores(tl.dot(held, asked, input_precision="ieee"), slope, ceiling, capped)
        seen = number[:, None] <= tl.load(number_q + batch * queries + i, mask=inside, other=_FIRST)[None, :]
        if has_near:
            seen |= (tl.load(near_q + batch * queries + i, mask=inside, other=0)[None, :] & near[:, None]) != 0
        if has_given:
            shown = inside[None, :] & within[:, None]
            seen &= tl.load(given + i[None, :] * given_row + j[:, None], mask=shown, other=0) != 0
        a = tl.where(seen, score, _UNSEEN) - tl.load(total + unit * queries + i, mask=inside, other=0.0)[None, :]
        a = tl.exp2(a)
        shown = inside[:, None] & (c < n)[None, :]
        x = tl.load(members + (batch * n + c[None, :]) * queries + i[:, None], mask=shown, other=0.0)
        y = x
        if has_weights:
            y = x * tl.load(inverse + unit * queries + i, mask=inside, other=0.0)[:, None]
        if exact:
            if has_columns:
                sums = tl.dot(a, x, sums, input_precision="ieee")
            if has_weights:
                shares = tl.dot(a, y, shares, input_precision="ieee")
        else:
            high, low = _split(a)
            if has_columns:  # 0 and 1 need no second part
                one = x.to(tl.bfloat16)
                sums = tl.dot(low, one, tl.dot(high, one, sums))
            if has_weights:
                y_high, y_low = _split(y)
                shares = tl.dot(high, y_low, tl.dot(low, y_high, tl.dot(high, y_high, shares)))
    at = (unit * n + c[None, :]) * keys + j[:, None]
    shown = within[:, None] & (c < n)[None, :]
    if has_columns:
        tl.store(columns + at, sums, mask=shown)
    if has_weights:
        tl.store(weighed + at, shares, mask=shown)


class TritonSweeps:
    """Both sweeps. `blocks` are (queries, keys) per block, and by default what fits into the shared memory of a GPU."""

    name: ClassVar[str] = "Triton sweeps"
    softcap: ClassVar[bool] = True
    widest: ClassVar[int] = 64
    """How many classes or averaged values go into one sweep."""

    def __init__(self, blocks: tuple[int, int] | None = None) -> None:
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
        options = _options(query, self.blocks)
        none = found.total
        _rows[triton.cdiv(queries, options["block_q"]), heads, batch](
            query, key, v, _or(found.out, none), found.total, _or(found.entropy, none), _or(weights, none),
            _or(found.weighed, none), _or(values, none), _or(found.averaged, none),
            sight.query_numbers, sight.key_numbers, near_q, near_k, given, sight.stop,
            *query.stride()[:3], *key.stride()[:3], *v.stride()[:3], *given.stride()[:3],
            *_steps(scale, softcap), queries, key.shape[2], heads // key.shape[1],
            size=size, wide=_padded(size), v_size=v.shape[-1], v_wide=_padded(v.shape[-1]), n=n, n_wide=_padded(n),
            has_value=value is not None, has_entropy=entropy, has_weights=weights is not None,
            has_averages=values is not None, has_near=sight.near is not None, has_given=sight.given is not None,
            capped=softcap is not None, exact=query.dtype == torch.float32, **options,
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
        options = _options(query, self.blocks)
        _columns[triton.cdiv(key.shape[2], options["block_k"]), heads, batch](
            query, key, total, members, _or(inverse, total), _or(columns, total), _or(weighed, total),
            sight.query_numbers, sight.key_numbers, near_q, near_k, given, sight.first,
            *query.stride()[:3], *key.stride()[:3], *given.stride()[:3],
            *_steps(scale, softcap), queries, key.shape[2], heads // key.shape[1],
            size=size, wide=_padded(size), n=n, n_wide=_padded(n), has_columns=plain, has_weights=inverse is not None,
            has_near=sight.near is not None, has_given=sight.given is not None, capped=softcap is not None,
            exact=query.dtype == torch.float32, **options,
        )  # fmt: skip
        return columns, weighed


def _steps(scale: float, softcap: float | None) -> tuple[float, float]:
    """What a product is multiplied by, and what a cap by tanh is: c·log2e·tanh(scale·x/c), or scale·log2e·x."""
    return (scale * _LOG2E, 0.0) if softcap is None else (2 * scale * _LOG2E / softcap, softcap * _LOG2E)


def _options(query: Tensor, blocks: tuple[int, int] | None) -> dict[str, int]:
    """Sizes of blocks, warps and stages; docs/cluster.md says how they were chosen."""
    wide, half = _padded(query.shape[-1]), query.dtype != torch.float32
    sizes = ((64, 64) if wide <= 128 else (32, 32)) if half else ((32, 32) if wide <= 64 else (16, 16))
    block_q, block_k = blocks or sizes
    return {"block_q": block_q, "block_k": block_k, "num_warps": 4, "num_stages": 2}


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
