"""The streamed attention function: exact softmax rows, a block of queries at a time, shown to visitors as they pass.

Blocks are sized to stay in cache, the exponential is taken in base 2 (the cheaper one) and weights stay unnormalised:
every reduction is a matmul that carries 1/Z with it. No (query, key) matrix outlives its block.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from floatlens.capture.mask import HIDDEN, BlockMask

__all__ = ["Block", "Workspace", "attend"]

LOG2E = math.log2(math.e)


@dataclass(frozen=True)
class Block:
    """Some queries of some heads with all their visible keys. Tensors: (batch, head, query, key) and shorter.

    `exp` × `inverse`[..., None] are the attention weights; `entropy` is that of each row in nats, when asked for.
    """

    batch: slice
    heads: slice
    queries: slice
    exp: Tensor
    inverse: Tensor
    entropy: Tensor | None

    @property
    def keys(self) -> int:
        return self.exp.shape[-1]

    def weights(self, queries: Tensor | None = None) -> Tensor:
        """Normalised weights of all, or of chosen, queries of the block (indices count from the block's first)."""
        exp = self.exp if queries is None else self.exp.index_select(2, queries)
        inverse = self.inverse if queries is None else self.inverse.index_select(2, queries)
        return exp * inverse.unsqueeze(-1)

    def column_sums(self, picks: Tensor) -> Tensor:
        """Σ over queries of picks[batch, pick, query] × weight → (batch, head, pick, key)."""
        batch, heads, queries, keys = self.exp.shape
        scaled = picks.unsqueeze(1) * self.inverse.unsqueeze(2)
        flat = torch.bmm(scaled.reshape(batch * heads, -1, queries), self.exp.view(batch * heads, queries, keys))
        return flat.view(batch, heads, -1, keys)


class Workspace:
    """Two buffers that every block of every layer reuses, and the block shape that fits them."""

    def __init__(self, block_bytes: int = 8 << 20, rows: int = 256) -> None:
        self.block_bytes = block_bytes
        self.rows = rows
        self._buffers: dict[tuple[str, torch.device], Tensor] = {}

    def shape(self, queries: int, keys: int, groups: int) -> tuple[int, int]:
        """(rows, units): how many queries, and how many (sample, key/value head) pairs, one block holds."""
        budget = max(1, self.block_bytes // (4 * keys * groups))
        rows = min(queries, max(16, min(self.rows, budget)))
        return rows, max(1, budget // rows)

    def buffer(self, name: str, shape: Sequence[int], device: torch.device) -> Tensor:
        size = math.prod(shape)
        held = self._buffers.get((name, device))
        if held is None or held.numel() < size:
            held = torch.empty(size, device=device)
            self._buffers[name, device] = held
        return held[:size].view(tuple(shape))


Edit = Callable[[slice, slice, slice, Tensor], Tensor]


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: BlockMask,
    *,
    scaling: float,
    softcap: float | None = None,
    workspace: Workspace,
    visit: Callable[[Block], None] | None = None,
    with_entropy: bool = False,
    edit_logits: Edit | None = None,
    edit_weights: Edit | None = None,
) -> Tensor:
    """Attention output (batch, query, head, dim), in float32 whatever the model's dtype, then cast back.

    query is (batch, head, query, dim); key and value are (batch, kv head, key, dim). Edits get the batch, head and
    query slices of a block and its logits, or its normalised weights, and return what is to be used instead.
    """
    batch, heads, queries, dim = query.shape
    groups = heads // key.shape[1]
    grouped = query.float().reshape(batch, -1, groups, queries, dim)
    keys, values = key.float().contiguous(), value.float().contiguous()
    out = torch.empty(batch, heads, queries, values.shape[-1], device=query.device)
    rows, units = workspace.shape(queries, keys.shape[2], groups)
    for b, h in _units(batch, keys.shape[1], units):
        k, v = keys[b, h].flatten(0, 1), values[b, h].flatten(0, 1)
        span = slice(h.start * groups, h.stop * groups)
        for start in range(0, queries, rows):
            stop = min(start + rows, queries)
            seen = mask.key_stop(stop)
            logits = _logits(grouped[b, h, :, start:stop], k[:, :seen], scaling, softcap, workspace)
            mask.hide(logits, start, stop, b, span)
            if edit_logits is not None:
                logits = edit_logits(b, span, slice(start, stop), logits).clamp_(min=HIDDEN)
            exp, inverse, entropy = _softmax(logits, with_entropy, workspace)
            if edit_weights is not None:
                exp, inverse, entropy = _edited(edit_weights, b, span, slice(start, stop), exp, inverse, with_entropy)
            mixed = torch.bmm(exp.view(k.shape[0], -1, seen), v[:, :seen]).view(*exp.shape[:3], -1)
            torch.mul(mixed, inverse.unsqueeze(-1), out=out[b, span, start:stop])
            if visit is not None:
                visit(Block(b, span, slice(start, stop), exp, inverse, entropy))
    return out.transpose(1, 2).to(query.dtype)


def _units(batch: int, kv_heads: int, units: int) -> Iterator[tuple[slice, slice]]:
    """Cut (batch × kv head) into blocks of at most `units`: whole samples if they fit, else heads of one sample."""
    if units >= kv_heads:
        step = units // kv_heads
        for b in range(0, batch, step):
            yield slice(b, min(b + step, batch)), slice(0, kv_heads)
        return
    for b in range(batch):
        for h in range(0, kv_heads, units):
            yield slice(b, b + 1), slice(h, min(h + units, kv_heads))


def _logits(query: Tensor, key: Tensor, scaling: float, softcap: float | None, workspace: Workspace) -> Tensor:
    """(batch, head, query, key) from query (batch, kv head, group, query, dim) and key (batch × kv head, key, dim)."""
    batch, kv_heads, groups, rows, dim = query.shape
    seen = key.shape[1]
    logits = workspace.buffer("logits", (batch * kv_heads, groups * rows, seen), key.device)
    rows_first = query.reshape(batch * kv_heads, groups * rows, dim)
    # the scale is applied inside the product, to its float32 result: rounding the queries first would cost accuracy
    torch.baddbmm(logits, rows_first, key.transpose(1, 2), beta=0, alpha=scaling, out=logits)
    if softcap is not None:
        logits.div_(softcap).tanh_().mul_(softcap)
    return logits.view(batch, kv_heads * groups, rows, seen)


def _softmax(logits: Tensor, with_entropy: bool, workspace: Workspace) -> tuple[Tensor, Tensor, Tensor | None]:
    """(2^(logits − row maximum, in base 2), 1 / row sums, row entropy in nats). The logits are used up.

    One fused multiply-add both shifts and changes the base, so that the largest weights carry no rounding of large
    logits. A row that sees no key keeps weight 0 everywhere.
    """
    shift = logits.amax(-1, keepdim=True).clamp_(min=HIDDEN / 2).mul_(-LOG2E)
    base2 = torch.add(shift, logits, alpha=LOG2E, out=logits)
    exp = torch.exp2(base2, out=workspace.buffer("exp", logits.shape, logits.device) if with_entropy else logits)
    total = exp.sum(-1)
    inverse = torch.where(total > 0, 1 / total, 0.0)
    if not with_entropy:
        return exp, inverse, None
    mean = base2.mul_(exp).sum(-1).mul_(inverse)
    entropy = total.log2().sub_(mean).mul_(1 / LOG2E)
    return exp, inverse, torch.where(total > 0, entropy, 0.0).clamp_(min=0.0)


def _edited(
    edit: Edit, batch: slice, heads: slice, queries: slice, exp: Tensor, inverse: Tensor, with_entropy: bool
) -> tuple[Tensor, Tensor, Tensor | None]:
    weights = edit(batch, heads, queries, exp.mul_(inverse.unsqueeze(-1))).contiguous()
    entropy = torch.special.entr(weights).sum(-1) if with_entropy else None
    return weights, torch.ones_like(inverse), entropy
