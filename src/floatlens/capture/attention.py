"""The streamed attention function: exact softmax rows, a block of queries at a time, shown to visitors as they pass.

Blocks are sized to stay in cache, the exponential is taken in base 2 (the cheaper one) and weights stay unnormalised:
every reduction is a matmul that carries 1/Z with it. No (query, key) matrix outlives its block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from floatlens.capture.classes import QueryClasses
from floatlens.capture.mask import HIDDEN, BlockMask
from floatlens.capture.soften import Workspace, class_columns, soften

__all__ = ["Block", "Extra", "attend"]


@dataclass(frozen=True)
class Block:
    """Some queries of some heads with all their visible keys. Tensors: (batch, head, query, key) and shorter.

    `exp` × `inverse`[..., None] are the attention weights; `entropy` is that of each row in nats, and `columns` (batch,
    head, class, key) sums the weights over the queries of each class that the block meets, when they were asked for.
    """

    batch: slice
    heads: slice
    queries: slice
    exp: Tensor
    inverse: Tensor
    entropy: Tensor | None = None
    columns: Tensor | None = None

    @property
    def keys(self) -> int:
        return self.exp.shape[-1]

    def weights(self, queries: Tensor | None = None) -> Tensor:
        """Normalised weights of all, or of chosen, queries of the block (indices count from the block's first)."""
        exp = self.exp if queries is None else self.exp.index_select(2, queries)
        inverse = self.inverse if queries is None else self.inverse.index_select(2, queries)
        return exp * inverse.unsqueeze(-1)


@dataclass(frozen=True)
class Extra:
    """A key that stands in no sequence and that queries see beside their own keys.

    `logits` (batch, head, query), −∞ where a query does not see it; `value` (batch or 1, head, dim), None for zero.
    `took` is told its share of each row, (batch, head, query).
    """

    logits: Tensor
    value: Tensor | None = None
    took: Callable[[Tensor], None] | None = None


Extras = Callable[[slice, slice, slice], Sequence[Extra]]
"""(samples, heads, queries) → the extra keys of a block."""

Totals = Callable[[slice, slice, slice, Tensor], None]
"""(samples, heads, queries, log-sum-exp of each row) for who wants to know."""

Edit = Callable[[slice, slice, slice, Tensor], Tensor | None]
"""(samples, heads, queries, values) → what is to be used instead, or None to leave the block as it is, bit for bit."""


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
    classes: QueryClasses | None = None,
    with_entropy: bool = False,
    needed: NDArray[np.bool_] | None = None,
    edit_logits: Edit | None = None,
    edit_weights: Edit | None = None,
    extras: Extras | None = None,
    totals: Totals | None = None,
) -> Tensor:
    """Attention output (batch, query, head, dim), in float32 whatever the model's dtype, then cast back.

    query is (batch, head, query, dim); key and value are (batch, kv head, key, dim). Edits get the batch, head and
    query slices of a block and its logits, or its normalised weights, and return what is to be used instead; `extras`
    names keys that take a share of each row and stay out of its weights, and `totals` is told each row's log-sum-exp.
    Logits that are changed in place hold nothing below `HIDDEN`. With `classes` blocks carry column sums. `needed`
    (query,) marks the rows whose output is used; others may stay 0.
    """
    batch, heads, queries, dim = query.shape
    groups = heads // key.shape[1]
    grouped = query.float().reshape(batch, -1, groups, queries, dim)
    # the fused kernel assumes numbers; a broken state must come out as broken as it would from any other attention
    finite = bool((query.sum() + key.sum()).isfinite())
    blank = torch.empty if needed is None else torch.zeros
    out = blank(batch, heads, queries, value.shape[-1], device=query.device)
    rows, units = workspace.shape(queries, key.shape[2], groups)
    for b, h in _units(batch, key.shape[1], units):
        # copied one block of heads at a time, into buffers that stay: fresh ones would make the allocator's heap grow
        k, v = (workspace.copy(name, x[b, h]).flatten(0, 1) for name, x in (("key", key), ("value", value)))
        span = slice(h.start * groups, h.stop * groups)
        for start in range(0, queries, rows):
            part = slice(start, min(start + rows, queries))
            seen = mask.key_stop(part.stop)
            logits = _logits(grouped[b, h, :, part], k[:, :seen], scaling, softcap, workspace)
            mask.hide(logits, part.start, part.stop, b, span)
            if edit_logits is not None and (edited := edit_logits(b, span, part, logits)) is not None:
                logits = logits if edited is logits else edited.clamp_(min=HIDDEN)
            top = logits.amax(-1) if extras is not None or totals is not None else None
            block = Block(b, span, part, *soften(logits, classes, b, part, with_entropy, workspace, finite))
            added = None
            if top is not None or edit_weights is not None:
                block, added = _changed(block, top, extras, totals, edit_weights, classes)
            if needed is None or needed[part].any():
                mixed = workspace.buffer("mixed", (*block.exp.shape[:3], v.shape[-1]), v.device)
                flat = (k.shape[0], -1)
                torch.bmm(block.exp.view(*flat, seen), v[:, :seen], out=mixed.view(*flat, v.shape[-1]))
                torch.mul(mixed, block.inverse.unsqueeze(-1), out=out[b, span, part])
                if added is not None:
                    out[b, span, part] += added
            if visit is not None:
                visit(block)
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


def _changed(
    block: Block,
    top: Tensor | None,
    extras: Extras | None,
    totals: Totals | None,
    edit_weights: Edit | None,
    classes: QueryClasses | None,
) -> tuple[Block, Tensor | None]:
    """The block with extra keys and other weights, and what extra keys add to its output; see `attend`."""
    where, added = (block.batch, block.heads, block.queries), None
    if extras is not None and top is not None:
        block, added = _beside(block, top, extras(*where), classes)
    if totals is not None and top is not None:
        totals(*where, top - block.inverse.log())
    if edit_weights is not None and (weights := edit_weights(*where, block.weights())) is not None:
        added = None if added is None else _follow(added, block, weights)
        block = _edited(block, weights.contiguous(), classes)
    return block, added


def _edited(block: Block, weights: Tensor, classes: QueryClasses | None) -> Block:
    """The block with other weights, and its statistics taken from those."""
    ones = torch.ones_like(block.inverse)
    entropy = None
    if block.entropy is not None:  # a plain logarithm: torch's entr takes more than twice as long
        entropy = weights.clamp(min=torch.finfo(weights.dtype).tiny).log_().mul_(weights).sum(-1).neg_()
    columns = None if classes is None else class_columns(weights, ones, classes, block.batch, block.queries)
    return replace(block, exp=weights, inverse=ones, entropy=entropy, columns=columns)


def _beside(
    block: Block, top: Tensor, extras: Sequence[Extra], classes: QueryClasses | None
) -> tuple[Block, Tensor | None]:
    """The block with extra keys in its softmax, and what their values add to its output, (batch, head, query, dim).

    `top` is the largest logit of each row, from which its weights were counted. A row that sees no key sees none here.
    """
    if not extras:
        return block, None
    own = (top - block.inverse.log()).unsqueeze(-1)  # log-sum-exp of each row; +∞ where it sees nothing
    beside = torch.stack([extra.logits for extra in extras], dim=-1)
    total = torch.logsumexp(torch.cat([own, beside], dim=-1), dim=-1, keepdim=True)
    shares = (beside - total).exp()
    kept = torch.where(own.isinf(), 1.0, (own - total).exp()).squeeze(-1)
    inverse = block.inverse * kept
    added = None
    for extra, share in zip(extras, shares.unbind(-1), strict=True):
        if extra.took is not None:
            extra.took(share)
        if extra.value is not None:
            part = share.unsqueeze(-1) * extra.value.unsqueeze(2)
            added = part if added is None else added + part
    entropy = block.entropy
    if entropy is not None:
        entropy = entropy * kept + torch.special.entr(kept) + torch.special.entr(shares).sum(-1)
    columns = None if classes is None else class_columns(block.exp, inverse, classes, block.batch, block.queries)
    return replace(block, inverse=inverse, entropy=entropy, columns=columns), added


def _follow(added: Tensor, block: Block, weights: Tensor) -> Tensor:
    """What extra keys add after an edit of the weights: as much as is left of the row (nothing of an ablated head)."""
    before = (block.exp.sum(-1) * block.inverse).unsqueeze(-1)
    return added * torch.where(before > 0, weights.sum(-1, keepdim=True) / before, 1.0)
