"""The statistics of a layer from fused attention (methods §1a): no weight is ever written to memory.

A pass over the rows gives the output and L_i, the log-sum-exp of each row; with keys among its values it gives the
entropy H_i = L_i − scale · q_i·Σ_j A_ij k_j too. A pass with the roles swapped (keys ask, queries answer, −L_i is added
to the scores, classes of queries are the values) gives the column sums of each class: exp(M_j) · o_jc. Where weights
are multiplied by w_j for each key and rows normalised again, the values are divided by Σ_j A_ij w_j, from the first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from floatlens.attention.host import moved
from floatlens.attention.lse_kernels import LseKernel, Scores
from floatlens.attention.mask import HIDDEN, BlockMask
from floatlens.attention.probe import Layer

__all__ = ["Fused", "attend_fused"]


@dataclass
class Fused:
    """What the passes found: output (batch, query, head, dim), and the statistics that were asked for."""

    out: Tensor
    columns: Tensor | None = None
    entropy: Tensor | None = None
    weighed: Tensor | None = None
    """The column sums (batch, head, class, key) of A_ij / Σ_k A_ik w_k; times w_j they are shares that sum to 1."""
    averages: list[Tensor] | None = None
    """For each of `averaged`: its mean under the attention of each query, mean over heads, (batch, query, n)."""


@dataclass(frozen=True)
class _Wanted:
    """What is asked of a layer: `members` are (batch, class, query), `weights` (batch, head, key)."""

    members: Tensor
    columns: bool
    entropy: bool
    weights: Tensor | None
    averaged: Sequence[Tensor]


@dataclass(frozen=True)
class _Part:
    """Some queries of some query heads: their slices, and how their scores are made."""

    heads: slice
    rows: slice
    keys: int
    scores: Scores


def attend_fused(
    kernel: LseKernel,
    layer: Layer,
    *,
    columns: bool = False,
    entropy: bool = False,
    weights: Tensor | None = None,
    averaged: Sequence[Tensor] = (),
    most_bytes: int = 64 << 20,
) -> Fused:
    """Output and statistics of a layer. `weights` (batch, head, key) ask for `Fused.weighed`; `averaged` are (batch, n,
    key) each; copies and masks stay near `most_bytes`.

    Where the kernel takes half precision the output is computed as the model would, and the statistics from float32
    copies: rounding the mixed keys to half precision would spoil the entropy.
    """
    query, state = layer.query, layer.state
    batch, heads, queries, _ = query.shape

    def zeros(*shape: int) -> Tensor:
        return torch.zeros(shape, device=query.device)

    found = Fused(torch.zeros(batch, heads, queries, layer.value.shape[-1], dtype=query.dtype, device=query.device))
    by_class = (batch, heads, len(state.classes.present), layer.key.shape[2])
    found.columns = zeros(*by_class) if columns else None
    found.weighed = None if weights is None else zeros(*by_class)
    found.entropy = zeros(batch, heads, queries) if entropy else None
    found.averages = [zeros(batch, queries, one.shape[1]) for one in averaged]
    wanted = _Wanted(state.classes.on(query.device), columns, entropy, weights, averaged)
    for part in _parts(layer, 2 * layer.key.shape[-1] + layer.value.shape[-1], most_bytes):
        _run(kernel, layer, part, wanted, found)
    found.out = found.out.transpose(1, 2)
    return found


def _parts(layer: Layer, width: int, most_bytes: int) -> Iterator[_Part]:
    """Cut a layer: heads so that copies stay small, rows so that a mask which has to be written out does."""
    mask, (batch, heads, queries, _), keys = layer.mask, layer.query.shape, layer.key.shape[2]
    groups = heads // layer.key.shape[1]
    rounded = layer.query.dtype != torch.float32
    step = groups * max(1, most_bytes // (4 * batch * groups * (queries + 2 * keys) * width))
    for start in range(0, heads, step):
        span = slice(start, min(start + step, heads))
        for rows, bias, causal in _masked(mask, layer.query, span, most_bytes):
            stop = mask.key_stop(rows.stop)
            key_bias = None
            if bias is None and mask.padding is not None:
                hidden = torch.where(moved(mask.padding[:, :stop], layer.query.device), 0.0, HIDDEN)
                key_bias = hidden[:, None].expand(-1, span.stop - span.start, -1)
            yield _Part(span, rows, stop, Scores(layer.scaling, layer.softcap, key_bias, bias, causal, rounded))


def _masked(
    mask: BlockMask, query: Tensor, heads: slice, most_bytes: int
) -> Iterator[tuple[slice, Tensor | None, bool]]:
    """(rows, what is added to their scores, whether the kernel's own causal mask does it)."""
    batch, queries = query.shape[0], query.shape[2]
    square = mask.q_offset == mask.kv_offset and queries == mask.kv_length
    if not mask.irregular and (not mask.causal or queries == 1 or square):
        yield slice(0, queries), None, mask.causal and queries > 1
        return
    own = mask.explicit is not None and mask.explicit.shape[1] > 1
    span = heads if own else slice(0, 1)
    step = max(1, most_bytes // (4 * batch * (span.stop - span.start) * mask.kv_length))
    for start in range(0, queries, step):
        rows = slice(start, min(start + step, queries))
        size = (batch, span.stop - span.start, rows.stop - start, mask.key_stop(rows.stop))
        bias = torch.zeros(size, device=query.device)
        mask.hide(bias, start, rows.stop, slice(0, batch), span)
        yield rows, bias, False


def _run(kernel: LseKernel, layer: Layer, part: _Part, wanted: _Wanted, found: Fused) -> None:
    """Both passes over a part."""
    groups = layer.query.shape[1] // layer.key.shape[1]
    shared = slice(part.heads.start // groups, part.heads.stop // groups)
    query = layer.query[:, part.heads, part.rows]
    key, value = (x[:, shared, : part.keys].repeat_interleave(groups, 1) for x in (layer.key, layer.value))
    q, k = query.float(), key.float()
    extra = _extra_values(k, part, wanted)
    size = value.shape[-1]
    if query.dtype == torch.float32 or not kernel.half:  # one pass for everything
        mixed, total = kernel(q, k, torch.cat([value.float(), *extra], dim=-1), part.scores)
        out, rest = mixed[..., :size], mixed[..., size:]
    else:
        out, total = kernel(query, key, value, part.scores)
        rest = out[..., :0]
        if extra or wanted.columns:  # the log-sum-exp of float32 copies too: −L has to fit the scores it is added to
            none = [k[..., :1]] if not extra else []
            rest, total = kernel(q, k, torch.cat([*extra, *none], dim=-1), part.scores)
    sees = total > HIDDEN / 2  # rows that see no key give nothing
    at = (slice(None), part.heads, part.rows)
    found.out[at] = (out * sees.unsqueeze(-1)).to(found.out.dtype)
    rest = rest.float() * sees.unsqueeze(-1)
    if found.entropy is not None:
        expected = (q * rest[..., : k.shape[-1]]).sum(-1) * layer.scaling
        found.entropy[at] = torch.where(sees, (total - expected).clamp(min=0.0), 0.0)
        rest = rest[..., k.shape[-1] :]
    sizes = [one.shape[1] for one in wanted.averaged]
    for into, values in zip(found.averages or [], torch.split(rest[..., : sum(sizes)], sizes, -1), strict=True):
        into[:, part.rows] += values.sum(1) / layer.query.shape[1]
    if wanted.columns or wanted.weights is not None:
        less = torch.where(sees, -total, HIDDEN)
        swapped = _swapped(kernel, q, k, less, _class_values(rest[..., sum(sizes) :], part, wanted), part.scores)
        if part.scores.key_bias is not None:
            swapped = swapped * (part.scores.key_bias > HIDDEN / 2).unsqueeze(2)
        for into_columns in (found.columns, found.weighed):
            if into_columns is not None:
                into_columns[:, part.heads, :, : part.keys] += swapped[:, :, : wanted.members.shape[1]]
                swapped = swapped[:, :, wanted.members.shape[1] :]


def _extra_values(k: Tensor, part: _Part, wanted: _Wanted) -> list[Tensor]:
    """What is mixed beside the values, (batch, head, key, n) each."""
    extra = [k] if wanted.entropy else []
    extra += [one[:, None, :, : part.keys].transpose(2, 3).expand(-1, k.shape[1], -1, -1) for one in wanted.averaged]
    return extra if wanted.weights is None else [*extra, wanted.weights[:, part.heads, : part.keys, None]]


def _class_values(weighed: Tensor, part: _Part, wanted: _Wanted) -> Tensor:
    """(batch, head, query, 1 or 2 × class): members of the classes, and the same divided by Σ_j A_ij w_j, which is
    `weighed` (batch, head, query, 1)."""
    members = wanted.members[:, None, :, part.rows].transpose(2, 3)
    found = [members.expand(-1, part.heads.stop - part.heads.start, -1, -1)] if wanted.columns else []
    if wanted.weights is not None:
        found.append(members * torch.where(weighed > 0, 1 / weighed, 0.0))
    return torch.cat(found, dim=-1)


def _swapped(kernel: LseKernel, q: Tensor, k: Tensor, less: Tensor, values: Tensor, scores: Scores) -> Tensor:
    """(batch, head, value, key): column sums of the weights times values (batch, head, query, value). `less` is −L of
    each row.

    Key j is asked about by the queries from j on where the mask is causal; counted from the end on both sides that is
    a causal mask again.
    """
    if scores.causal:
        q, k, less, values = q.flip(2), k.flip(2), less.flip(2), values.flip(2)
    bias = None if scores.bias is None else scores.bias.transpose(2, 3)
    mixed, total = kernel(k, q, values, replace(scores, key_bias=less, bias=bias))
    sums = (mixed * total.exp().unsqueeze(-1)).transpose(2, 3)
    return sums.flip(3) if scores.causal else sums
