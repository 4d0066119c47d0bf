"""`DropAnchors`: keys that stood out in the last step cannot be seen in this one [Rulli]; `DropRandom` is its control.

The dropped keys get a logit of −∞, so that their weight is exactly 0 and the softmax spreads what they held over the
other keys. The first step is left alone: nothing precedes it.
"""

from __future__ import annotations

import math
from typing import ClassVar, Literal

import torch
from torch import Tensor

from floatlens.capture.edits.base import Intervention, Need, Rows, moment_of, rows_return
from floatlens.capture.edits.chance import chances
from floatlens.capture.edits.rules import AnchorRule, largest
from floatlens.capture.gather import choosable
from floatlens.capture.mask import HIDDEN
from floatlens.capture.probe import Layer
from floatlens.capture.select import Select
from floatlens.errors import FloatlensError, did_you_mean

__all__ = ["DropAnchors", "DropRandom"]

Of = Literal["edited", "unedited"]


class DropAnchors(Intervention):
    """In step s, each head of each layer loses the `k` keys that received most from it in step s − 1.

    Received is the mean over all real queries, for an autoregressive model the last row. `rule` names another rule than
    the k largest. `of="edited"` measures step s − 1 as it was, without the keys dropped there; "unedited" as it would
    have been with them, so that a key which the model goes on wanting stays dropped. `strength` a multiplies the weight
    of a dropped key by 1 − a before rows are normalised again.

    Example: `with fl.edit(model, fl.DropAnchors(k=5)): fl.decode(model, ids, gen_length=16)`
    """

    needs: ClassVar[frozenset[Need]] = frozenset({"anchors"})
    edits_logits = True
    first_step = 1

    def __init__(
        self,
        k: int | None = None,
        *,
        rule: str | None = None,
        of: Of = "edited",
        strength: float = 1.0,
        select: Select | None = None,
    ) -> None:
        name = type(self).__name__
        self.rule = AnchorRule.read(name, k, rule)
        if of not in ("edited", "unedited"):
            raise FloatlensError(f'{name}(of="{of}"){did_you_mean(str(of), ("edited", "unedited"))}')
        self.of: Of = of
        which = {"k": int(self.rule.value)} if rule is None else {"rule": str(self.rule)}
        super().__init__(select, strength, **which, **({"of": of} if of != "edited" else {}))
        self._sets: dict[tuple[int, int], Tensor] = {}

    def control(self, seed: int = 0) -> DropRandom:
        k, rule = (int(self.rule.value), None) if "k" in self.settings else (None, str(self.rule))
        return DropRandom(k, rule=rule, of=self.of, strength=self.strength, select=self.select, seed=seed)

    def forget(self) -> None:
        self._sets.clear()

    def wants_preview(self, layer: Layer) -> bool:
        return self.of == "unedited" and self.acts_in(moment_of(layer).step + 1)

    def wants_review(self, layer: Layer) -> bool:
        return self.of == "edited" and self.acts_in(moment_of(layer).step + 1)

    def review(self, layer: Layer, received: Tensor) -> None:
        """Note which keys the next step loses; (layer, step in which they are lost)."""
        moment = moment_of(layer)
        if not rows_return(layer):
            self._sets.pop((layer.index, moment.step), None)
        self._sets[layer.index, moment.step + 1] = self.choose(layer, received)

    def preview(self, layer: Layer, received: Tensor) -> None:
        moment = moment_of(layer)
        self._sets[layer.index, moment.step + 1] = self.choose(layer, received)
        if not rows_return(layer):
            self._sets.pop((layer.index, moment.step - 1), None)

    def choose(self, layer: Layer, received: Tensor) -> Tensor:
        return self.rule.find(repr(self), received, choosable(layer))

    def change(self, rows: Rows, values: Tensor) -> Tensor | None:
        dropped = rows.pick(self._sets[rows.site.layer.index, rows.step], values.shape[-1])
        if rows.partial:  # a row that would see nothing any more keeps what it has
            left = ((values > HIDDEN / 2) & ~dropped).any(-1, keepdim=True)
            dropped = dropped & left
        held = _held(values, dropped)
        if self.strength == 1:
            values.masked_fill_(dropped, -torch.inf)
            return held
        values += dropped * math.log1p(-self.strength)
        return self.strength * held * (1 - held) / (1 - self.strength * held)


def _held(logits: Tensor, keys: Tensor) -> Tensor:
    """(batch, head, query): the softmax mass that some keys (batch, head, query or 1, key) hold in each row."""
    top = logits.amax(-1, keepdim=True).clamp_(min=HIDDEN / 2)
    exp = (logits - top).exp_()
    total = exp.sum(-1)
    if keys.shape[2] == 1:
        chosen = torch.matmul(exp, keys.transpose(2, 3).to(exp.dtype)).squeeze(-1)
    else:
        chosen = (exp * keys).sum(-1)
    return torch.where(total > 0, chosen / total, 0.0)


class DropRandom(DropAnchors):
    """The control of `DropAnchors`: as many keys, drawn anew for each head, layer and step among the non-anchors."""

    def __init__(
        self,
        k: int | None = None,
        *,
        rule: str | None = None,
        of: Of = "edited",
        strength: float = 1.0,
        select: Select | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(k, rule=rule, of=of, strength=strength, select=select)
        self.seed = seed
        self.settings["seed"] = seed

    def control(self, seed: int = 0) -> DropRandom:
        raise FloatlensError("DropRandom is itself a control; ask DropAnchors for it")

    def choose(self, layer: Layer, received: Tensor) -> Tensor:
        moment, there = moment_of(layer), choosable(layer)
        anchors = self.rule.find(repr(self), received, there)
        count = anchors.sum(-1)
        free = there[:, None] & ~anchors
        if bool((free.sum(-1) < count).any()):
            raise FloatlensError(f"{self!r}: too few keys are left besides the anchors; give a smaller k")
        drawn = chances(moment, self.seed, received.shape[1], layer.index, moment.step + 1).to(received.device)
        return largest(drawn.masked_fill(~free, -torch.inf), count)
