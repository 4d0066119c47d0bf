"""The streamed attention function: exact softmax rows, computed one block of queries at a time and shown to a visitor.

Blocks are sized to stay in cache and weights stay unnormalised: every reduction is a matmul that includes 1/Z. No
(query, key) matrix outlives its block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from floatlens.attention.mask import HIDDEN, BlockMask
from floatlens.attention.softmax import QueryClasses, Workspace, class_columns, softmax_block

__all__ = ["NO_HOOKS", "Block", "EditHooks", "ExtraKey", "attend"]


@dataclass(frozen=True)
class Block:
    """Some queries of some heads with all their visible keys. Tensors are (batch, head, query, key) or a prefix of it.

    `exp` × `inverse`[..., None] are the attention weights. Where requested, `entropy` is the entropy of each row in
    nats and `columns` (batch, head, class, key) is the sum of the weights over the block's queries of each class.
    """

    batch: slice
    heads: slice
    queries: slice
    exp: Tensor
    inverse: Tensor
    entropy: Tensor | None = None
    columns: Tensor | None = None
    top: Tensor | None = None
    """The largest logit of each row, which was subtracted before `exp`."""
    extra_share: tuple[Tensor, Tensor] | None = None
    """Of the weights of extra keys in each row: their part of the row's entropy, and their sum."""

    @property
    def keys(self) -> int:
        return self.exp.shape[-1]

    def weights(self, queries: Tensor | None = None) -> Tensor:
        """Normalised weights of all queries of the block, or of those given (indices relative to the block's first)."""
        exp = self.exp if queries is None else self.exp.index_select(2, queries)
        inverse = self.inverse if queries is None else self.inverse.index_select(2, queries)
        return exp * inverse.unsqueeze(-1)


@dataclass(frozen=True)
class ExtraKey:
    """A key outside the sequence that queries see in addition to their own keys.

    `logits` (batch, head, query) are −∞ where a query does not see it; `value` is (batch or 1, head, dim), None for
    zero. `on_share` is called with its weight in each row, (batch, head, query).
    """

    logits: Tensor
    value: Tensor | None = None
    on_share: Callable[[Tensor], None] | None = None


EditValues = Callable[[slice, slice, slice, Tensor], Tensor | None]
"""(samples, heads, queries, values) → the values to use instead, or None to leave the block unchanged, bit for bit."""


@dataclass(frozen=True)
class EditHooks:
    """What edits do to a block of one layer; slices are its samples, heads and queries. None where no edit needs it.

    `logits` and `weights` return the values to use instead; logits that are changed in place must stay above `HIDDEN`.
    `blocks` replaces `weights` where all edits have a fast path: it takes the block and the classes of its column sums,
    and updates entropy and column sums. `extras` are keys that take part in the softmax and are not among the weights;
    `totals` is called with the log-sum-exp of each row.
    """

    logits: EditValues | None = None
    weights: EditValues | None = None
    blocks: Callable[[Block, QueryClasses | None], Block] | None = None
    extras: Callable[[slice, slice, slice], Sequence[ExtraKey]] | None = None
    totals: Callable[[slice, slice, slice, Tensor], None] | None = None


NO_HOOKS = EditHooks()


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
    hooks: EditHooks = NO_HOOKS,
    before: Callable[[list[Block]], None] | None = None,
    within: slice | None = None,
) -> Tensor:
    """Attention output (batch, query, head, dim), computed in float32 and cast back to the model's dtype.

    query is (batch, head, query, dim); key and value are (batch, kv head, key, dim). With `classes` blocks carry column
    sums. `needed` (query,) marks the rows whose output is used. `before` is called with all blocks of some heads before
    the weights of any are edited. `within` limits everything to some rows.
    """
    (batch, heads, queries, dim), groups = query.shape, query.shape[1] // key.shape[1]
    grouped = query.float().reshape(batch, -1, groups, queries, dim)
    # numba's kernel assumes finite numbers; nobody else asks, since the answer makes the host wait for the device
    asks = workspace.fused is not None and query.device.type == "cpu"
    finite = not asks or bool((query.sum() + key.sum()).isfinite())
    empty = torch.empty if needed is None else torch.zeros
    out = empty(batch, heads, queries, value.shape[-1], device=query.device)
    rows, units = workspace.shape(queries, key.shape[2], groups, keep=before is not None)
    buffers = _BlockBuffer(workspace, before is not None)
    start, stop, _ = (within or slice(None)).indices(queries)
    parts = [slice(at, min(at + rows, stop)) for at in range(start, stop, rows)]

    def made(b: slice, h: slice, k: Tensor, part: slice) -> tuple[Block, Tensor | None]:
        span, seen = slice(h.start * groups, h.stop * groups), mask.key_stop(part.stop)
        logits = _logits(grouped[b, h, :, part], k[:, :seen], scaling, softcap, buffers)
        mask.hide(logits, part.start, part.stop, b, span)
        if hooks.logits is not None and (edited := hooks.logits(b, span, part, logits)) is not None:
            logits = logits if edited is logits else edited.clamp_(min=HIDDEN)
        summed = classes if hooks.extras is None else None  # with extra keys, column sums are taken after the softmax
        block = Block(b, span, part, *softmax_block(logits, summed, b, part, with_entropy, workspace, finite))
        if buffers.keep and block.exp is not logits:
            block = replace(block, exp=logits.copy_(block.exp))
        return _completed(block, hooks, classes)

    for b, h in _units(batch, key.shape[1], units):
        # copied one block of heads at a time into reused buffers: fresh ones would make the allocator's heap grow
        k, v = (workspace.copy(name, x[b, h]).flatten(0, 1) for name, x in (("key", key), ("value", value)))
        buffers.clear()
        blocks: Iterable[tuple[Block, Tensor | None]] = (made(b, h, k, part) for part in parts)
        if before is not None:
            blocks = list(blocks)
            before([block for block, _ in blocks])
        for block, added in blocks:
            block, added = _edited(block, added, hooks, classes)
            _mix(block, v, added, out, needed, workspace)
            if visit is not None:
                visit(block)
    return out.transpose(1, 2).to(query.dtype)


class _BlockBuffer:
    """Memory for the logits of blocks: one buffer for all, or, with `keep`, one for each block until `clear`."""

    def __init__(self, workspace: Workspace, keep: bool) -> None:
        self._workspace, self.keep = workspace, keep
        self._blocks = 0

    def clear(self) -> None:
        self._blocks = 0

    def place(self, shape: tuple[int, ...], device: torch.device) -> Tensor:
        if not self.keep:
            return self._workspace.buffer("logits", shape, device)
        self._blocks += 1
        return self._workspace.buffer(f"kept {self._blocks}", shape, device)


def _mix(
    block: Block,
    value: Tensor,
    added: Tensor | None,
    out: Tensor,
    needed: NDArray[np.bool_] | None,
    workspace: Workspace,
) -> None:
    """Write the block's part of the output, if any of it is needed; value is (batch × kv head, key, dim)."""
    if needed is not None and not needed[block.queries].any():
        return
    at = (block.batch, block.heads, block.queries)
    mixed = workspace.buffer("mixed", (*block.exp.shape[:3], value.shape[-1]), value.device)
    flat = (value.shape[0], -1)
    torch.bmm(block.exp.view(*flat, block.keys), value[:, : block.keys], out=mixed.view(*flat, value.shape[-1]))
    torch.mul(mixed, block.inverse.unsqueeze(-1), out=out[at])
    if added is not None:
        out[at] += added


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


def _logits(query: Tensor, key: Tensor, scaling: float, softcap: float | None, buffers: _BlockBuffer) -> Tensor:
    """(batch, head, query, key) from query (batch, kv head, group, query, dim) and key (batch × kv head, key, dim)."""
    batch, kv_heads, groups, rows, dim = query.shape
    seen = key.shape[1]
    logits = buffers.place((batch * kv_heads, groups * rows, seen), key.device)
    rows_first = query.reshape(batch * kv_heads, groups * rows, dim)
    # the scale is applied inside the product, to its float32 result: rounding the queries first would cost accuracy
    torch.baddbmm(logits, rows_first, key.transpose(1, 2), beta=0, alpha=scaling, out=logits)
    if softcap is not None:
        logits.div_(softcap).tanh_().mul_(softcap)
    return logits.view(batch, kv_heads * groups, rows, seen)


def _completed(block: Block, hooks: EditHooks, classes: QueryClasses | None) -> tuple[Block, Tensor | None]:
    """The block with extra keys in its softmax, and what those add to its output."""
    where, added = (block.batch, block.heads, block.queries), None
    if hooks.extras is not None:
        block, added = _with_extra_keys(block, hooks.extras(*where), classes)
    if hooks.totals is not None:
        assert block.top is not None
        hooks.totals(*where, block.top - block.inverse.log())
    return block, added


def _edited(
    block: Block, added: Tensor | None, hooks: EditHooks, classes: QueryClasses | None
) -> tuple[Block, Tensor | None]:
    """The block after the edits of weights, and what extra keys then add to its output."""
    if hooks.blocks is not None:
        return hooks.blocks(block, classes), added
    if hooks.weights is None:
        return block, added
    weights = hooks.weights(block.batch, block.heads, block.queries, block.weights())
    if weights is None:
        return block, added
    if added is not None:  # in proportion to the remaining row: 0 for an ablated head
        added = added * _left(block, weights).unsqueeze(-1)
    return _reweighed(block, weights.contiguous(), classes), added


def _reweighed(block: Block, weights: Tensor, classes: QueryClasses | None) -> Block:
    """The block with other weights, and with their entropy and column sums."""
    ones = torch.ones_like(block.inverse)
    entropy = None
    if block.entropy is not None:  # torch.special.entr takes more than twice as long
        entropy = weights.clamp(min=torch.finfo(weights.dtype).tiny).log_().mul_(weights).sum(-1).neg_()
        if block.extra_share is not None:
            (own, share), left = block.extra_share, _left(block, weights)
            entropy += own * left - torch.xlogy(left, left) * share
    columns = _columns(weights, ones, block, classes)
    return replace(block, exp=weights, inverse=ones, entropy=entropy, columns=columns)


def _with_extra_keys(
    block: Block, extras: Sequence[ExtraKey], classes: QueryClasses | None
) -> tuple[Block, Tensor | None]:
    """The block with extra keys in its softmax, and what their values add to its output, (batch, head, query, dim).

    A row that sees no key of the sequence does not see the extra keys either.
    """
    if not extras:
        return replace(block, columns=_columns(block.exp, block.inverse, block, classes)), None
    assert block.top is not None
    own = (block.top - block.inverse.log()).unsqueeze(-1)  # log-sum-exp of each row; +∞ where it sees nothing
    extra_logits = torch.stack([extra.logits for extra in extras], dim=-1)
    total = torch.logsumexp(torch.cat([own, extra_logits], dim=-1), dim=-1, keepdim=True)
    shares = (extra_logits - total).exp()
    kept = torch.where(own.isinf(), 1.0, (own - total).exp()).squeeze(-1)
    inverse = block.inverse * kept
    added = None
    for extra, share in zip(extras, shares.unbind(-1), strict=True):
        if extra.on_share is not None:
            extra.on_share(share)
        if extra.value is not None:
            part = share.unsqueeze(-1) * extra.value.unsqueeze(2)
            added = part if added is None else added + part
    entropy, others = block.entropy, None
    if entropy is not None:
        others = torch.special.entr(shares).sum(-1), shares.sum(-1)
        entropy = entropy * kept + torch.special.entr(kept) + others[0]
    columns = _columns(block.exp, inverse, block, classes)
    return replace(block, inverse=inverse, entropy=entropy, columns=columns, extra_share=others), added


def _columns(exp: Tensor, inverse: Tensor, block: Block, classes: QueryClasses | None) -> Tensor | None:
    return None if classes is None else class_columns(exp, inverse, classes, block.batch, block.queries)


def _left(block: Block, weights: Tensor) -> Tensor:
    """The share of each row (batch, head, query) that remains after an edit of the weights."""
    before = block.exp.sum(-1) * block.inverse
    return torch.where(before > 0, weights.sum(-1) / before, 1.0)
