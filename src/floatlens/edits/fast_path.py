"""Edits of a block that need not compute on every weight, with the resulting entropy and column sums.

Weight is moved within rows of unnormalised weights, and a head is ablated by setting its 1/Z to 0. Keys that are
neither source nor target keep their weights to the last bit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from floatlens.attention.blocks import Block
from floatlens.attention.softmax import QueryClasses
from floatlens.edits.row_edit import Rows
from floatlens.edits.rules import indices

__all__ = ["SparseColumns", "move_columns", "replace_rows", "scale_heads", "uniform_rows"]


@dataclass(frozen=True)
class SparseColumns:
    """Indices of the columns that lose weight, then of those that gain it; each (batch, head, n) with its own n."""

    at: Tensor
    """Sources, then targets. A column may be in both parts, but then only one of the two is active."""
    losing: Tensor
    """1 for a source, 0 for padding."""
    share: Tensor
    """The share of the moved weight; 0 for padding."""

    @classmethod
    def of(cls, sources: Tensor, shares: Tensor, most: int | None = None) -> SparseColumns:
        """From (batch, head, key): which keys lose their weight (bool), and the share of it that each key gets."""
        source, losing = indices(sources, most)
        target, _ = indices(shares > 0, most)
        return cls(torch.cat([source, target], dim=-1), losing, shares.gather(-1, target))


def move_columns(
    block: Block,
    rows: Rows,
    few: SparseColumns,
    strength: float,
    classes: QueryClasses | None,
    within: Tensor | None = None,
) -> Tensor:
    """Move weight between a few columns of some rows, in place; returns what each row moved, (batch, head, query).

    In a row that sees only some targets, those share; where it sees none, nothing is moved. `within` (batch, 1, query,
    1) bool limits it to some of the rows.
    """
    inside, n = rows.inside, few.losing.shape[-1]
    exp, inverse = block.exp[:, :, inside], block.inverse[:, :, inside]
    if not n or not few.share.shape[-1]:
        return torch.zeros_like(inverse)
    at, losing, share = few.at, few.losing.unsqueeze(2), few.share.unsqueeze(2)
    if rows.partial:
        share = share * rows.sees(at[..., n:], block.keys)
        total = share.sum(-1, keepdim=True)
        share = share / total.clamp(min=torch.finfo(share.dtype).tiny)
        losing = losing * ((total > 0) & (at[..., None, :n] < block.keys))
        at = at.clamp(max=block.keys - 1)  # a causal block holds no later keys
    if within is not None:
        losing = losing * within
    place = at.unsqueeze(2).expand(-1, -1, exp.shape[2], -1)
    old = exp.gather(-1, place)
    taken = old[..., :n] * losing if strength == 1 else old[..., :n] * (losing * strength)
    moved = taken.sum(-1, keepdim=True)
    gained = torch.cat([-taken, moved * share], dim=-1)
    exp.scatter_add_(-1, place, gained)
    if block.entropy is not None:
        scale = inverse.unsqueeze(-1)
        less = old * scale
        more = gained.add_(old).mul_(scale)
        here = block.entropy[:, :, inside]
        here += (torch.xlogy(less, less) - torch.xlogy(more, more)).sum(-1)
        here.clamp_(min=0.0)
    if block.columns is not None and classes is not None:
        _sum_again(block, at, classes)
    return moved.squeeze(-1) * inverse


def _sum_again(block: Block, at: Tensor, classes: QueryClasses) -> None:
    """Recompute the column sums of a few columns (batch, head, n)."""
    assert block.columns is not None
    weights = block.exp.gather(-1, at.unsqueeze(2).expand(-1, -1, block.exp.shape[2], -1))
    picks = classes.member[block.batch, classes.within(block.queries), block.queries].to(weights.device)
    sums = picks.unsqueeze(1) @ (weights * block.inverse.unsqueeze(-1))
    block.columns.scatter_(-1, at.unsqueeze(2).expand(-1, -1, sums.shape[2], -1), sums)


def scale_heads(block: Block, rows: Rows, factor: float, classes: QueryClasses | None) -> tuple[Block, Tensor]:
    """Multiply some rows of some heads; returns the block and the previous row sums, (batch, head, query)."""
    heads, inside = rows.local, rows.inside
    inverse = block.inverse.clone()
    total = torch.stack([block.exp[:, h, inside].sum(-1) for h in heads], dim=1) * inverse[:, heads, inside]
    inverse[:, heads, inside] *= factor
    entropy = block.entropy
    if entropy is not None:
        less = total * (factor * math.log(factor)) if factor else 0.0
        entropy[:, heads, inside] = entropy[:, heads, inside] * factor - less
    block = replace(block, inverse=inverse)
    _sum_heads(block, heads, classes)
    return block, total


def _sum_heads(block: Block, heads: list[int], classes: QueryClasses | None) -> None:
    """Recompute the column sums of whole heads."""
    if block.columns is None or classes is None:
        return
    picks = classes.member[block.batch, classes.within(block.queries), block.queries].to(block.exp.device)
    for h in heads:
        block.columns[:, h] = torch.bmm(picks * block.inverse[:, h, None], block.exp[:, h])


def replace_rows(
    block: Block, rows: Rows, new: Tensor, entropy: Tensor, classes: QueryClasses | None, total: bool = True
) -> tuple[Block, Tensor]:
    """Replace some rows of some heads by `new` (batch, head or 1, query or 1, key), scaled to their sums with `total`.

    `entropy` (batch, head or 1, query or 1) is that of `new`, whose rows sum to 1, or to 0 where nothing is changed.
    Returns the block and half of Σ|new − old| of each row, (batch, head, query).
    """
    heads, inside = rows.local, rows.inside
    inverse, moved = block.inverse.clone(), []
    kept = None if not total or bool(new.any(-1).all()) else ~new.any(-1)
    for i, h in enumerate(heads):
        old, fresh = block.exp[:, h, inside], new[:, min(i, new.shape[1] - 1)]
        old *= inverse[:, h, inside, None]
        sums = old.sum(-1, keepdim=True) if total else torch.ones_like(old[..., :1])
        fresh = fresh * sums
        if kept is not None:
            fresh = torch.where(kept[:, min(i, kept.shape[1] - 1), :, None], old, fresh)
        moved.append(torch.sub(old, fresh).abs_().sum(-1) / 2)
        old.copy_(fresh)
        if block.entropy is not None:
            flat = entropy[:, min(i, entropy.shape[1] - 1)] * sums[..., 0] - torch.xlogy(sums, sums)[..., 0]
            own = block.entropy[:, h, inside]
            own.copy_(flat if kept is None else torch.where(kept[:, min(i, kept.shape[1] - 1)], own, flat))
    inverse[:, heads, inside] = 1.0
    block = replace(block, inverse=inverse)
    _sum_heads(block, heads, classes)
    return block, torch.stack(moved, dim=1)


def uniform_rows(over: Tensor) -> tuple[Tensor, Tensor]:
    """Rows (…, key) uniform over the marked keys, and their entropy (…); all 0 where none is marked."""
    number = over.sum(-1, keepdim=True).clamp(min=1)
    return over / number, number.squeeze(-1).log()
