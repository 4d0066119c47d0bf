"""`DropAnchors`: anchors of the previous step are hidden in this one [Rulli]; `DropRandom` is a control.

Dropped keys get a logit of −∞, so their weight is exactly 0 and the softmax spreads it over the other keys. The first
step is not edited: no step precedes it.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import torch
from torch import Tensor

from floatlens.attention.edit import Site
from floatlens.attention.mask import HIDDEN
from floatlens.attention.probe import Layer
from floatlens.attention.received import choosable
from floatlens.attention.select import Select
from floatlens.attention.setting import ControlKind, RowGroup, Setting, read_word
from floatlens.core.errors import FloatlensError, did_you_mean
from floatlens.edits.row_edit import ROWS, STRENGTH, RowEdit, Rows, check_rows, position_of, rows_return
from floatlens.edits.rules import ANCHOR_SETTINGS, AnchorRule, check_seed, indices, largest, random_scores

__all__ = ["DropAnchors", "DropControl", "DropRandom"]

Of = Literal["edited", "unedited"]


class DropAnchors(RowEdit):
    """In step s, each head of each layer loses the `k` keys that received most from it in step s − 1.

    Received attention is the mean over all real queries, for an autoregressive model the last row. `rows="answer"`
    takes the mean over the rows of the answer, "last" the last row of any model; only rows of the answer are then
    changed. `rule` replaces the k largest. `of="edited"` measures step s − 1 as it was, without the keys dropped there;
    "unedited" measures it as it would have been with them, so a persistent anchor stays dropped. `strength` a
    multiplies the weight of a dropped key by 1 − a before rows are normalised again.

    Example: `with fl.edit(model, fl.edits.DropAnchors(k=5)): fl.decode(model, ids, gen_length=16)`
    """

    title = "Anchors dropped"
    about = "the keys that received most in the previous step are hidden"
    settings = (Setting("of", read_word, about="edited or unedited"), *ANCHOR_SETTINGS, ROWS, STRENGTH)
    controls = ("count", "mass")
    edits_logits = True
    reads_totals = True
    earliest_step = 1

    def __init__(
        self,
        k: int | None = None,
        *,
        rule: str | None = None,
        of: Of = "edited",
        rows: RowGroup = "all",
        strength: float = 1.0,
        select: Select | None = None,
    ) -> None:
        name = type(self).__name__
        self.rule = AnchorRule.read(name, k, rule)
        if of not in ("edited", "unedited"):
            raise FloatlensError(f'{name}(of="{of}"){did_you_mean(str(of), ("edited", "unedited"))}')
        self.of: Of = of
        self.row_group = check_rows(self, rows)
        which: dict[str, Any] = {"k": int(self.rule.value)} if rule is None else {"rule": str(self.rule)}
        which |= {"of": of} if of != "edited" else {}
        super().__init__(select, strength, **which, **({"rows": rows} if rows != "all" else {}))
        self._sets: dict[tuple[int, int], tuple[Tensor, Tensor, Tensor | None]] = {}
        self._held: list[tuple[Rows, Tensor]] = []

    def control(self, seed: int = 0, kind: ControlKind = "count") -> DropAnchors:
        from floatlens.edits.drop_mass import DropMass

        control = DropMass if kind == "mass" else DropRandom
        return control(**self.given, strength=self.strength, select=self.select, seed=seed)

    def forget(self) -> None:
        self._sets.clear()

    def wants_preview(self, layer: Layer) -> bool:
        return self.of == "unedited" and self.acts_in(position_of(layer).step + 1)

    def wants_review(self, layer: Layer) -> bool:
        return self.of == "edited" and self.acts_in(position_of(layer).step + 1)

    def review(self, layer: Layer, received: Tensor) -> None:
        """Note which keys the next step loses, by (layer, step)."""
        step = position_of(layer).step
        if not rows_return(layer):
            for earlier in (step - 1, step) if self.of == "edited" else (step - 1,):
                self._sets.pop((layer.index, earlier), None)
        dropped = self.choose(layer, received)
        at, chosen = indices(dropped, self.rule.most)
        self._sets[layer.index, step + 1] = dropped, at, None if bool(chosen.all()) else chosen > 0

    def preview(self, layer: Layer, received: Tensor, batch: slice, heads: slice) -> None:
        self.review(layer, received)  # always the whole layer: only edits of weights get parts

    def choose(self, layer: Layer, received: Tensor) -> Tensor:
        return self.rule.find(self, received, choosable(layer, self.row_group))

    def logits(self, site: Site, logits: Tensor) -> Tensor | None:
        self._held.clear()
        return super().logits(site, logits)

    def change(self, rows: Rows, values: Tensor) -> None:
        dropped, few, chosen = self._sets[rows.site.layer.index, rows.step]
        within = self.row_mask(rows)
        if rows.windowed:
            gone = rows.pick(dropped, values.shape[-1])
            self._held.append((rows, self._fill(rows, values, gone if within is None else gone & within)))
            return
        mine = list(rows.heads)
        whole = len(mine) == rows.site.heads.stop - rows.site.heads.start
        few = few[rows.site.batch, rows.site.heads] if whole else few[rows.site.batch][:, mine]
        at = few.unsqueeze(2).expand(-1, -1, values.shape[2], -1)
        had = values.gather(-1, at)
        after = self._after(had)
        real = None if chosen is None else chosen[rows.site.batch][:, mine, None]
        if within is not None:
            real = within if real is None else real & within
        if real is not None:
            after, had = torch.where(real, after, had), torch.where(real, had, -torch.inf)
        values.scatter_(-1, at, after)
        self._held.append((rows, had.logsumexp(-1)))

    def _fill(self, rows: Rows, values: Tensor, dropped: Tensor) -> Tensor:
        """The same with a mask of keys (batch, head, 1, key); returns the log-sum-exp (batch, head, query) they had."""
        if rows.windowed:  # a row that would see no key is left unchanged
            dropped = dropped & ((values > HIDDEN / 2) & ~dropped).any(-1, keepdim=True)
        held = torch.where(dropped, values, -torch.inf).logsumexp(-1)
        values.copy_(torch.where(dropped, self._after(values), values))
        return held

    def _after(self, logits: Tensor) -> Tensor:
        """The new logit of a dropped key."""
        if self.strength == 1:
            return torch.full_like(logits, HIDDEN)
        return (logits + math.log1p(-self.strength)).clamp_(min=HIDDEN)

    def totals(self, site: Site, totals: Tensor) -> None:
        """Report the weight that the dropped keys would have had, from the total of the others."""
        for rows, had in self._held:
            inside = rows.inside
            whole = len(rows.heads) == totals.shape[1]
            left = totals[:, :, inside] if whole else totals[:, rows.local, inside]
            held = (had - torch.logaddexp(left, had + math.log(self.strength))).exp()
            moved = held if self.strength == 1 else self.strength * held * (1 - held) / (1 - self.strength * held)
            self.count(rows, torch.where(left.isinf(), 0.0, moved))


class DropControl(DropAnchors):
    """What both controls have: the settings of `DropAnchors`, and a seed."""

    def __init__(self, k: int | None = None, *, seed: int = 0, **settings: Any) -> None:
        super().__init__(k, **settings)
        self.seed = check_seed(self, seed)
        self.given["seed"] = seed

    def control(self, seed: int = 0, kind: ControlKind = "count") -> DropAnchors:
        raise FloatlensError(f"{type(self).__name__} is itself a control; ask DropAnchors for it")

    def draw(self, layer: Layer, step: int) -> Tensor:
        """(batch, head, key): random numbers for a step of a layer."""
        drawn = random_scores(position_of(layer), self.seed, layer.query.shape[1], layer.index, step)
        return drawn.to(layer.query.device)


class DropRandom(DropControl):
    """The control of `DropAnchors` by count: as many keys, drawn anew for each head, layer and step among the others.

    It has the settings of `DropAnchors`, and a seed.

    Example: `fl.edits.DropAnchors(k=5).control(seed=1)`
    """

    def choose(self, layer: Layer, received: Tensor) -> Tensor:
        there = choosable(layer, self.row_group)
        anchors = self.rule.find(self, received, there)
        count = anchors.sum(-1)
        free = there[:, None] & ~anchors
        if bool((free.sum(-1) < count).any()):
            raise FloatlensError(f"{self!r}: too few keys are left next to the anchors; give a smaller k")
        drawn = self.draw(layer, position_of(layer).step + 1)
        return largest(drawn.masked_fill(~free, -torch.inf), count)
