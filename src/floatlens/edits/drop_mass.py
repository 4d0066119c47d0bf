"""`DropMass`: the control of `DropAnchors` that moves as much attention, by dropping random other keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from floatlens.attention.edit import Site
from floatlens.attention.mask import HIDDEN
from floatlens.attention.probe import Layer
from floatlens.attention.received import choosable
from floatlens.attention.setting import RowGroup
from floatlens.core.errors import FloatlensError
from floatlens.edits.drop import DropControl
from floatlens.edits.row_edit import Rows, position_of, rows_return

__all__ = ["DropMass", "share_out", "weaken"]

_ROUNDING = 1e-6


@dataclass(frozen=True)
class _Plan:
    """What is dropped in one step of one layer, (batch, head, n)."""

    at: Tensor
    """Keys in their random order."""
    kept: Tensor
    """What is left of the exponential of each: 0 for a dropped key, 1 for one that is not changed."""


class DropMass(DropControl):
    """Random keys that are not anchors are dropped until as much attention has moved as without the anchors.

    Each head takes keys in a random order, drawn anew for each layer and step, until they receive as much in this step
    as the keys that `DropAnchors` would drop; the last key is weakened as far as that needs. A head whose anchors hold
    more than all other keys loses these, and the other heads of the layer take over what is missing, in proportion to
    what they have left. Received attention is that of the rows that are changed. Anchors of the step before are never
    dropped. `strength` a leaves 1 − a of what the dropped keys lose.

    Example: `fl.edits.DropAnchors(k=5).control(seed=1, kind="mass")`
    """

    def __init__(self, k: int | None = None, *, seed: int = 0, **settings: Any) -> None:
        super().__init__(k, seed=seed, **settings)
        if (self.of, self.row_group) == ("unedited", "last"):
            raise FloatlensError('DropMass: rows="last" with of="unedited" has no control by mass; give of="edited"')
        self._anchors: dict[tuple[int, int], Tensor] = {}
        self._plans: dict[tuple[int, int], _Plan] = {}
        self._removed: list[tuple[Rows, Tensor, Tensor]] = []
        self._unmatched: list[Tensor] = []
        self._choices = 0

    def forget(self) -> None:
        super().forget()
        self._anchors.clear()
        self._plans.clear()

    def numbers(self) -> dict[str, float]:
        """ "unmatched": the share of choices (of a sample, layer and step) in which too little could be dropped."""
        if not self._choices:
            return {}
        return {"unmatched": sum(int(found) for found in self._unmatched) / self._choices}

    @property
    def preview_group(self) -> RowGroup:
        return "answer" if self.row_group == "last" else self.row_group

    def wants_preview(self, layer: Layer) -> bool:
        return self.acts_in(position_of(layer).step) or super().wants_preview(layer)

    def preview(self, layer: Layer, received: Tensor, batch: slice, heads: slice) -> None:
        step = position_of(layer).step
        if self.acts_in(step):
            self._plans[layer.index, step] = self._planned(layer, received)
            if not rows_return(layer):
                self._plans.pop((layer.index, step - 1), None)
        if super().wants_preview(layer):
            self.review(layer, received)

    def review(self, layer: Layer, received: Tensor) -> None:
        """Note which keys the edit would drop in the next step, having dropped its keys in this one."""
        step = position_of(layer).step
        before = self._anchors.get((layer.index, step))
        if self.of == "edited" and before is not None:
            received = torch.where(_wide(before, received), received * (1 - self.strength), received)
        anchors = self.rule.find(self, received, choosable(layer, self.row_group))
        self._anchors[layer.index, step + 1] = anchors
        self._anchors.pop((layer.index, step - 1), None)

    def _planned(self, layer: Layer, received: Tensor) -> _Plan:
        """The choice of this step, from what keys would receive in it."""
        step, there = position_of(layer).step, choosable(layer, self.row_group)[:, None]
        anchors = _wide(self._anchors[layer.index, step], received)
        free = there & ~anchors
        if (earlier := self._anchors.get((layer.index, step - 1))) is not None:
            free = free & ~_wide(earlier, received)
        held = (received * anchors).sum(-1)
        mine = torch.zeros_like(held, dtype=torch.bool)
        mine[:, list(self.heads_of(layer))] = True
        wanted, short = share_out(held * mine, (received * free).sum(-1) * mine)
        self._unmatched.append(short.sum())
        self._choices += int((held.sum(-1) > 0).sum())
        order = self.draw(layer, step).masked_fill(~free, -torch.inf).argsort(dim=-1, descending=True, stable=True)
        kept = 1 - self.strength * (1 - weaken((received * free).gather(-1, order), wanted))
        most = int((kept < 1).sum(-1).max()) if kept.numel() else 0
        return _Plan(order[..., :most], kept[..., :most])

    def logits(self, site: Site, logits: Tensor) -> Tensor | None:
        self._removed.clear()
        return super().logits(site, logits)

    def change(self, rows: Rows, values: Tensor) -> None:
        plan = self._plans.get((rows.site.layer.index, rows.step))
        if plan is None and rows.site.lookahead:
            return  # another edit looks ahead before this one has chosen
        assert plan is not None
        mine, within = list(rows.heads), self.row_mask(rows)
        at = plan.at[rows.site.batch][:, mine].unsqueeze(2).expand(-1, -1, values.shape[2], -1)
        kept = plan.kept[rows.site.batch][:, mine].unsqueeze(2).expand_as(at)
        if within is not None:
            kept = torch.where(within, kept, 1.0)
        unseen = rows.site.layer.key.shape[2] - values.shape[-1]  # chosen keys may lie past the last that rows here see
        wide = torch.nn.functional.pad(values, (0, unseen), value=HIDDEN) if unseen else values
        had = wide.gather(-1, at)
        kept = torch.where(had > HIDDEN / 2, kept, 1.0)
        wide.scatter_(-1, at, (had + kept.log()).clamp_(min=HIDDEN))
        if unseen:
            values.copy_(wide[..., : values.shape[-1]])
        self._removed.append((rows, torch.where(kept < 1, had, -torch.inf), kept))

    def totals(self, site: Site, totals: Tensor) -> None:
        """Report what other keys gained: those that are not dropped, and a weakened one that grew with them."""
        for rows, had, kept in self._removed:
            left = totals[:, rows.local, rows.inside].unsqueeze(-1)
            removed = (had + torch.log1p(-kept)).logsumexp(-1, keepdim=True)
            old = (had - torch.logaddexp(left, removed)).exp()
            new = (had - left).exp() * kept
            moved = (old - new).sum(-1) + (new - old).clamp(min=0).sum(-1)
            self.count(rows, torch.where(left.squeeze(-1).isinf(), 0.0, moved.clamp(min=0)))


def share_out(wanted: Tensor, most: Tensor) -> tuple[Tensor, Tensor]:
    """(batch, head): how much each head drops, at most `most`, so that all heads together drop what is `wanted`.

    What a head lacks is taken over by the others in proportion to what they have left. Also returned, (batch,) bool:
    where all of them together have too little.
    """
    lacking = (wanted - most).clamp(min=0)
    spare = (most - wanted).clamp(min=0)
    need, room = lacking.sum(-1, keepdim=True), spare.sum(-1, keepdim=True)
    part = (need / room.clamp(min=torch.finfo(room.dtype).tiny)).clamp(max=1)
    return torch.minimum(wanted, most) + spare * part, (need > room + _ROUNDING).squeeze(-1)


def weaken(mass: Tensor, wanted: Tensor) -> Tensor:
    """(…, n): what is left of the exponentials of keys that hold `mass` (…, n) of a row, dropped in their order until
    the other keys have gained `wanted` (…): 0 for dropped keys, something for the last one, 1 for the rest."""
    so_far = mass.cumsum(-1)
    before = torch.nn.functional.pad(so_far[..., :-1], (1, 0))
    wanted = wanted.unsqueeze(-1)
    left = (so_far - wanted).clamp(min=0)  # the weight of the last key in the new row
    others = (1 - so_far).clamp(min=0)
    kept = left * others / ((1 - left) * mass).clamp(min=torch.finfo(mass.dtype).tiny)
    taken = (before < wanted) & (mass > 0)
    return torch.where(taken, kept.clamp(max=1), 1.0)


def _wide(keys: Tensor, received: Tensor) -> Tensor:
    """A choice of an earlier step over the keys of this one."""
    return torch.nn.functional.pad(keys, (0, received.shape[-1] - keys.shape[-1]))
