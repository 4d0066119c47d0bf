"""The statistics of a layer from kernels that compute them while they attend: one sweep over rows, one over columns.

What `lse_passes` gets out of generic attention by giving it more values, such kernels add up as they go: a row sweep
finds output, log-sum-exp, entropy and means, a column sweep the sums of each class of queries. Heads that share keys
share them in memory too, and masks are two numbers per position.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from floatlens.attention.host import moved
from floatlens.attention.lse_passes import Fused
from floatlens.attention.mask import BlockMask
from floatlens.attention.probe import Layer

__all__ = ["RowSweep", "Sight", "SweepKernel", "attend_swept", "sight_of"]

NOBODY = 2**31 - 1
"""The number of a key that nobody sees: padding."""


@dataclass(frozen=True)
class Sight:
    """Who sees whom: query i sees key j where `key_numbers`[j] ≤ `query_numbers`[i], both (batch, position) int32.

    `stop` (batch, query) is one past the last key that a query sees, `first` (batch, key) the first query that sees a
    key. `near` are bytes of queries and keys that see each other whatever their numbers; `given` (batch, head, query,
    key), bytes too, is 0 for what is hidden besides.
    """

    query_numbers: Tensor
    key_numbers: Tensor
    stop: Tensor
    first: Tensor
    near: tuple[Tensor, Tensor] | None = None
    given: Tensor | None = None


@dataclass(frozen=True)
class RowSweep:
    """(batch, head, query, …): log-sum-exps in base 2, and what was asked for. A row that sees no key has only 0."""

    total: Tensor
    out: Tensor | None = None
    entropy: Tensor | None = None
    weighed: Tensor | None = None
    averaged: Tensor | None = None


@runtime_checkable
class SweepKernel(Protocol):
    """query (batch, head, query, dim), key and value (batch, key/value head, key, any), as the model has them."""

    @property
    def name(self) -> str: ...

    @property
    def softcap(self) -> bool:
        """Whether it can cap scores."""

    @property
    def widest(self) -> int:
        """How many classes or averaged values go into one sweep."""

    @property
    def largest(self) -> int:
        """The largest size of a head."""

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
        """`weights` (batch, head, key) give Σ_j A_ij w_j as `weighed`, `values` (batch, n, key) their means under the
        attention of each query and head as `averaged`; at most `widest` of them. Without `value` there is no `out`."""

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
        """(batch, head, class, key) from the `total` of the rows and `members` (batch, class, query), at most `widest`:
        sums of A_ij over each class (if `plain`), and of A_ij · `inverse`_i (batch, head, query)."""


def attend_swept(
    kernel: SweepKernel,
    layer: Layer,
    *,
    columns: bool = False,
    entropy: bool = False,
    weights: Tensor | None = None,
    averaged: Sequence[Tensor] = (),
    most_bytes: int = 64 << 20,
) -> Fused:
    """What `attend_fused` finds, with the same arguments."""
    members = layer.state.classes.on(layer.query.device)
    weights = None if weights is None else weights.float()
    values = torch.cat([one.float() for one in averaged], 1) if averaged else None
    swept, found = [], Fused(layer.query)  # the output takes its place
    for rows, sight in _parts(layer, 0 if values is None else values.shape[1], most_bytes):
        part = replace(layer, query=layer.query[:, :, rows])
        one = _row_sweep(kernel, part, sight, entropy, weights, values)
        swept.append(one)
        if columns or one.weighed is not None:
            sums = _column_sweep(kernel, part, sight, one, members[:, :, rows], columns)
            found.columns, found.weighed = _added(found.columns, sums[0]), _added(found.weighed, sums[1])
    found.out = _joined([one.out for one in swept], 2).transpose(1, 2)
    found.entropy = _joined([one.entropy for one in swept], 2) if entropy else None
    found.averages = []
    if values is not None:
        means = _joined([one.averaged for one in swept], 1)
        found.averages += torch.split(means, [one.shape[1] for one in averaged], -1)
    return found


def _row_sweep(
    kernel: SweepKernel, layer: Layer, sight: Sight, entropy: bool, weights: Tensor | None, values: Tensor | None
) -> RowSweep:
    """One sweep, and one more for every `widest` values after the first; `averaged` is the mean over heads."""
    given = (sight, layer.scaling, layer.softcap)
    parts = [] if values is None else list(torch.split(values, kernel.widest, 1))
    first = parts[0] if parts else None
    found = kernel.rows(layer.query, layer.key, layer.value, *given, entropy=entropy, weights=weights, values=first)
    if found.averaged is None:
        return found
    rest = [kernel.rows(layer.query, layer.key, None, *given, values=one).averaged for one in parts[1:]]
    return replace(found, averaged=_joined([found.averaged, *rest], -1).mean(1))


def _column_sweep(
    kernel: SweepKernel, layer: Layer, sight: Sight, rows: RowSweep, members: Tensor, plain: bool
) -> tuple[Tensor | None, Tensor | None]:
    """`columns` (if `plain`) and `weighed` (if the rows are) of `Fused`."""
    inverse = None if rows.weighed is None else torch.where(rows.weighed > 0, 1 / rows.weighed, 0.0)
    given = (sight, layer.scaling, layer.softcap)
    found = [
        kernel.columns(layer.query, layer.key, rows.total, some.contiguous(), *given, plain=plain, inverse=inverse)
        for some in torch.split(members, kernel.widest, 1)
    ]
    return (
        _joined([one[0] for one in found], 2) if plain else None,
        None if inverse is None else _joined([one[1] for one in found], 2),
    )


def _added(earlier: Tensor | None, more: Tensor | None) -> Tensor | None:
    return more if earlier is None or more is None else earlier + more


def _joined(parts: Sequence[Tensor | None], dim: int) -> Tensor:
    known = [one for one in parts if one is not None]
    return known[0] if len(known) == 1 else torch.cat(known, dim)


# -- who sees whom -----------------------------------------------------------------------------------------------------


def _parts(layer: Layer, values: int, most_bytes: int) -> Iterator[tuple[slice, Sight]]:
    """All rows at once, unless a rule has to be written out for them, or means of every head would take much memory."""
    mask, (batch, heads, queries, _) = layer.mask, layer.query.shape
    keys, device = layer.key.shape[2], layer.query.device
    sight, ruled = sight_of(mask, batch, device), mask.rule is not None and mask.explicit is None
    row = batch * (keys * ruled + 4 * heads * values)
    step = max(1, min(queries, most_bytes // max(1, row)))
    for start in range(0, queries, step):
        rows = slice(start, min(start + step, queries))
        part = sight if step == queries else _rows_of(sight, rows)
        if ruled:
            seen = mask.sees(rows.start, rows.stop, slice(0, batch), slice(0, 1), mask.kv_length, device)
            part = replace(part, given=seen.view(torch.uint8).expand(-1, heads, -1, -1))
        elif part.given is not None:
            part = replace(part, given=part.given.expand(batch, heads, -1, -1))
        yield rows, part


def _rows_of(sight: Sight, rows: slice) -> Sight:
    """The same for some of the queries."""
    return replace(
        sight,
        query_numbers=sight.query_numbers[:, rows].contiguous(),
        stop=sight.stop[:, rows].contiguous(),
        first=(sight.first - rows.start).clamp_(min=0),
        near=None if sight.near is None else (sight.near[0][:, rows].contiguous(), sight.near[1]),
        given=None if sight.given is None else sight.given[:, :, rows],
    )


def sight_of(mask: BlockMask, batch: int, device: torch.device) -> Sight:
    """The mask as numbers per position, worked out once per pass and device. Rules of transformers are left out; an
    explicit mask takes the place of everything else, as in `BlockMask.hide`."""
    held: dict[torch.device, Sight] = mask.__dict__.setdefault("_sights", {})
    if device not in held:
        held[device] = _sight(mask, batch, device)
    return held[device]


def _sight(mask: BlockMask, batch: int, device: torch.device) -> Sight:
    if mask.explicit is not None or mask.rule is not None:
        none = torch.zeros(batch, mask.kv_length, dtype=torch.int32, device=device)
        queries = torch.zeros(batch, mask.q_length, dtype=torch.int32, device=device)
        given = None if mask.explicit is None else moved(mask.explicit, device).contiguous().view(torch.uint8)
        return Sight(queries, none, queries + mask.kv_length, none, given=given)
    queries, numbers = _numbers(mask, batch, device)
    real = None if mask.padding is None else moved(mask.padding, device)
    keys = numbers if real is None else numbers.masked_fill(~real, NOBODY)
    together = None if mask.blocks is None else mask.blocks.together
    if together is not None:
        near = moved(together, device)
        shown = near if real is None else near & real
        pair = (near[:, mask.q_offset :].to(torch.uint8).contiguous(), shown.to(torch.uint8).contiguous())
        return Sight(queries, keys, torch.full_like(queries, mask.kv_length), torch.zeros_like(keys), pair)
    stop = torch.searchsorted(numbers, queries, right=True, out_int32=True)
    return Sight(queries, keys, stop, torch.searchsorted(queries, keys, out_int32=True))


def _numbers(mask: BlockMask, batch: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """(batch, query) and (batch, key) int32, not decreasing: block numbers, positions, or 0 for all."""
    if mask.blocks is not None:
        keys = moved(mask.blocks.blocks, device).to(torch.int32).contiguous()
        return keys[:, mask.q_offset :].contiguous(), keys
    queries = torch.arange(mask.q_length, dtype=torch.int32, device=device) + mask.q_offset
    keys = torch.arange(mask.kv_length, dtype=torch.int32, device=device) + mask.kv_offset
    if not mask.causal:
        queries, keys = torch.zeros_like(queries), torch.zeros_like(keys)
    return queries.repeat(batch, 1), keys.repeat(batch, 1)


# -- the start-up check ------------------------------------------------------------------------------------------------


def sweeps_off_by(kernel: SweepKernel, device: torch.device) -> float:
    """The largest error of everything that both sweeps find, in float32 and bfloat16, against rows in float64."""
    make = torch.Generator().manual_seed(0)
    sizes = ((4, 70, 16), (2, 90, 16), (2, 90, 20))
    q, k, v = (torch.randn(2, *size, generator=make).bfloat16() for size in sizes)
    weights, values = torch.rand(2, 4, 90, generator=make), torch.rand(2, 3, 90, generator=make)
    members = (torch.arange(70) % 2 == torch.arange(2)[:, None]).float().repeat(2, 1, 1)
    real = torch.arange(90) >= torch.tensor([0, 7])[:, None]
    seen = (torch.arange(90) <= torch.arange(20, 90)[:, None]) & real[:, None, None]
    k_each, v_each = (x.double().repeat_interleave(2, 1) for x in (k, v))
    logits = (0.25 * q.double() @ k_each.transpose(2, 3)).masked_fill(~seen, -torch.inf)
    a = logits.softmax(-1)
    mass = (a * weights.double().unsqueeze(2)).sum(-1)
    expected = [
        *(a @ v_each, logits.logsumexp(-1) / math.log(2), torch.special.entr(a).sum(-1), mass),
        *(a @ values.double().transpose(1, 2).unsqueeze(1), members.double().unsqueeze(1) @ a),
        members.double().unsqueeze(1) @ (a / mass.unsqueeze(-1)),
    ]
    sight = sight_of(BlockMask(70, 90, 20, causal=True, padding=real), 2, device)
    wrong = []
    for dtype, rounding in ((torch.float32, 1.0), (torch.bfloat16, 32.0)):  # outputs have 8 bits then
        query, key, value = (x.to(device, dtype) for x in (q, k, v))
        given = (query, key, value, sight, 0.25, None)
        rows = kernel.rows(*given, entropy=True, weights=weights.to(device), values=values.to(device))
        inverse = None if rows.weighed is None else 1 / rows.weighed
        sums = kernel.columns(query, key, rows.total, members.to(device), sight, 0.25, inverse=inverse)
        found = [rows.out, rows.total, rows.entropy, rows.weighed, rows.averaged, *sums]
        errors = [_error(one, other) for one, other in zip(found, expected, strict=True)]
        wrong += [errors[0] / rounding, *errors[1:]]
    return max(wrong)


def _error(found: Tensor | None, expected: Tensor) -> float:
    """The largest; infinite where something is missing or no number."""
    if found is None or not bool(torch.isfinite(found).all()):
        return math.inf
    return float((found.cpu().double() - expected).abs().max())
