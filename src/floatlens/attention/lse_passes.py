"""The statistics of a layer from fused attention (methods §1a): no weight is ever written to memory.

A pass over the rows gives the output and L_i, the log-sum-exp of each row; with keys among its values it gives the
entropy H_i = L_i − scale · q_i·Σ_j A_ij k_j too. A pass with the roles swapped (keys ask, queries answer, −L_i is added
to the scores, classes of queries are the values) gives the column sums of each class: exp(M_j) · o_jc.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

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
    averages: list[Tensor] | None = None
    """For each of `averaged`: its mean under the attention of each query, mean over heads, (batch, query, n)."""


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
    averaged: Sequence[Tensor] = (),
    most_bytes: int = 64 << 20,
) -> Fused:
    """Output and statistics of a layer. `averaged` are (batch, n, key) each; copies and masks stay near `most_bytes`.

    In half precision the output is computed as the model would, and the statistics from float32 copies: rounding the
    mixed keys to half precision would spoil the entropy.
    """
    query, state = layer.query, layer.state
    batch, heads, queries, _ = query.shape
    found = Fused(torch.zeros(batch, heads, queries, layer.value.shape[-1], dtype=query.dtype, device=query.device))
    if columns:
        size = (batch, heads, len(state.classes.present), layer.key.shape[2])
        found.columns = torch.zeros(size, device=query.device)
    if entropy:
        found.entropy = torch.zeros(query.shape[:3], device=query.device)
    found.averages = [torch.zeros(batch, queries, one.shape[1], device=query.device) for one in averaged]
    members = state.classes.on(query.device) if columns else None
    for part in _parts(layer, 2 * layer.key.shape[-1] + layer.value.shape[-1], most_bytes):
        _run(kernel, layer, part, members, averaged, found)
    found.out = found.out.transpose(1, 2)
    return found


def _parts(layer: Layer, width: int, most_bytes: int) -> Iterator[_Part]:
    """Cut a layer: heads so that copies stay small, rows so that a mask which has to be written out does."""
    mask, (batch, heads, queries, _), keys = layer.mask, layer.query.shape, layer.key.shape[2]
    groups = heads // layer.key.shape[1]
    step = groups * max(1, most_bytes // (4 * batch * groups * (queries + 2 * keys) * width))
    for start in range(0, heads, step):
        span = slice(start, min(start + step, heads))
        for rows, bias, causal in _masked(mask, layer.query, span, most_bytes):
            stop = mask.key_stop(rows.stop)
            key_bias = None
            if bias is None and mask.padding is not None:
                hidden = torch.where(mask.padding[:, :stop].to(layer.query.device), 0.0, HIDDEN)
                key_bias = hidden[:, None].expand(-1, span.stop - span.start, -1)
            yield _Part(span, rows, stop, Scores(layer.scaling, layer.softcap, key_bias, bias, causal))


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


def _run(
    kernel: LseKernel, layer: Layer, part: _Part, members: Tensor | None, averaged: Sequence[Tensor], found: Fused
) -> None:
    """Both passes over a part."""
    groups = layer.query.shape[1] // layer.key.shape[1]
    shared = slice(part.heads.start // groups, part.heads.stop // groups)
    query = layer.query[:, part.heads, part.rows]
    key, value = (x[:, shared, : part.keys].repeat_interleave(groups, 1) for x in (layer.key, layer.value))
    q, k = query.float(), key.float()
    extra = [k] if found.entropy is not None else []
    extra += [one[:, None, :, : part.keys].transpose(2, 3).expand(-1, k.shape[1], -1, -1) for one in averaged]
    exact = query.dtype == torch.float32 or query.device.type == "cpu"
    size = value.shape[-1]
    if exact:  # one pass for everything
        mixed, total = kernel(q, k, torch.cat([value.float(), *extra], dim=-1), part.scores)
        out, rest = mixed[..., :size], mixed[..., size:]
    else:
        out, total = kernel(query, key, value, part.scores)
        rest = kernel(q, k, torch.cat(extra, dim=-1), part.scores)[0] if extra else out[..., :0]
    sees = total > HIDDEN / 2  # rows that see no key give nothing
    at = (slice(None), part.heads, part.rows)
    found.out[at] = (out * sees.unsqueeze(-1)).to(found.out.dtype)
    rest = rest.float() * sees.unsqueeze(-1)
    if found.entropy is not None:
        expected = (q * rest[..., : k.shape[-1]]).sum(-1) * layer.scaling
        found.entropy[at] = torch.where(sees, (total - expected).clamp(min=0.0), 0.0)
        rest = rest[..., k.shape[-1] :]
    for into, values in zip(
        found.averages or [], torch.split(rest, [one.shape[1] for one in averaged], -1), strict=True
    ):
        into[:, part.rows] += values.sum(1) / layer.query.shape[1]
    if found.columns is not None and members is not None:
        swapped = _swapped(kernel, q, k, torch.where(sees, -total, HIDDEN), members[:, :, part.rows], part.scores)
        if part.scores.key_bias is not None:
            swapped = swapped * (part.scores.key_bias > HIDDEN / 2).unsqueeze(2)
        found.columns[:, part.heads, :, : part.keys] += swapped


def _swapped(kernel: LseKernel, q: Tensor, k: Tensor, less: Tensor, members: Tensor, scores: Scores) -> Tensor:
    """(batch, head, class, key): column sums. `less` is −L of each row, `members` (batch, class, query).

    Key j is asked about by the queries from j on where the mask is causal; counted from the end on both sides that is
    a causal mask again.
    """
    values = members.transpose(1, 2)[:, None].expand(-1, q.shape[1], -1, -1).to(q.dtype)
    if scores.causal:
        q, k, less, values = q.flip(2), k.flip(2), less.flip(2), values.flip(2)
    bias = None if scores.bias is None else scores.bias.transpose(2, 3)
    mixed, total = kernel(k, q, values, replace(scores, key_bias=less, bias=bias))
    sums = (mixed * total.exp().unsqueeze(-1)).transpose(2, 3)
    return sums.flip(3) if scores.causal else sums
