"""`FreezeLayers`: attention of whole layers replaced by an even spread over the structural tokens each row can see.

Which tokens are structural is not decided here: the edit is given a function of the ids (see `structural`), so that
there is one definition of token classes. A mask is never structural.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from floatlens.attention.blocks import Block
from floatlens.attention.classes import QueryClasses
from floatlens.attention.edit import Site
from floatlens.attention.probe import Layer
from floatlens.attention.select import Select
from floatlens.attention.timeline import Moment
from floatlens.core.errors import FloatlensError
from floatlens.edits.base import Intervention, Need, Rows, moment_of, rows_return
from floatlens.edits.chance import chances, seeded
from floatlens.edits.rules import largest
from floatlens.edits.swift import level, replace_rows

__all__ = ["FreezeLayers"]

Marker = Callable[[list[int]], Sequence[bool]]


class FreezeLayers(Intervention):
    """`FreezeLayers(range(0, 4), structural=mark)`: rows of these layers become even over structural tokens.

    `structural` is a function from the ids of one sequence, padding left out, to one bool per token. It is asked in
    every step, since masks are filled and tokens added. A row that sees no structural token is left as it is.
    `matched_random` spreads over as many random tokens (no masks) instead, drawn once per run: the control. `strength`
    a mixes 1 − a of a row's own weights with a of the even ones.

    Example: `with fl.edit(model, fl.FreezeLayers(range(4), structural=mark)): fl.decode(model, ids)`
    """

    needs: frozenset[Need] = frozenset({"structural tokens"})
    edits_weights = True

    def __init__(
        self,
        layers: Collection[int] | slice | int,
        structural: Marker,
        *,
        matched_random: bool = False,
        seed: int = 0,
        strength: float = 1.0,
        select: Select | None = None,
    ) -> None:
        if not callable(structural):
            raise FloatlensError("FreezeLayers: structural is a function from a list of ids to a bool per token")
        given = select if select is not None else Select()
        if given.layers is not None:
            raise FloatlensError("FreezeLayers: its layers are the first argument; leave them out of select")
        chosen = Select(layers=layers, heads=given.heads, steps=given.steps)
        extra: dict[str, Any] = {"matched_random": True, "seed": seed} if matched_random else {}
        super().__init__(chosen, strength, **extra)
        self.structural, self.matched_random, self.seed = structural, matched_random, seeded(self, seed)
        self._sets: dict[int, Tensor] = {}

    def control(self, seed: int = 0) -> FreezeLayers:
        if self.matched_random:
            raise FloatlensError("this FreezeLayers is itself a control")
        rest = Select(heads=self.select.heads, steps=self.select.steps)
        layers = self.select.layers
        assert layers is not None
        more: dict[str, Any] = {"strength": self.strength, "select": rest}
        return FreezeLayers(layers, self.structural, matched_random=True, seed=seed, **more)

    def forget(self) -> None:
        self._sets.clear()

    def begin_layer(self, layer: Layer) -> None:
        super().begin_layer(layer)
        moment = moment_of(layer)
        if moment.step in self._sets or not self.acts_in(moment.step):
            return
        if not rows_return(layer):
            self._sets.pop(moment.step - 1, None)
        masked = np.zeros_like(moment.real)
        masked[:, layer.state.offset :] = layer.state.masked
        marked = torch.from_numpy(self._mark(moment) & ~masked)
        if self.matched_random:
            free = torch.from_numpy(moment.real & ~masked)
            drawn = chances(moment, self.seed, 1)[:, 0]
            marked = largest(drawn.masked_fill(~free, -torch.inf), marked.sum(-1))
        self._sets[moment.step] = marked.to(layer.query.device)

    def _mark(self, moment: Moment) -> NDArray[np.bool_]:
        """(batch, key): the structural tokens."""
        marked = np.zeros_like(moment.real)
        for sample, there in enumerate(moment.real):
            ids = moment.ids[sample, there].tolist()
            if ids and min(ids) < 0:
                raise FloatlensError("FreezeLayers: the cache was filled before the edit began; begin with the prompt")
            answer = np.asarray(self.structural(ids), dtype=bool)
            if answer.shape != (len(ids),):
                raise FloatlensError(f"FreezeLayers: structural gave {answer.shape} answers for {len(ids)} tokens")
            marked[sample, there] = answer
        return marked

    def swift(self, layer: Layer) -> bool:
        return self.strength == 1 and layer.mask.rule is None and layer.mask.explicit is None

    def rework(self, site: Site, block: Block, classes: QueryClasses | None) -> Block:
        for rows in self.rows(site):
            over = rows.pick(self._sets[rows.step], block.keys) & rows.seen(block.keys)
            block, moved = replace_rows(block, rows, *level(over.float()), classes)
            self.count(rows, moved)
        return block

    def change(self, rows: Rows, values: Tensor) -> None:
        keys = values.shape[-1]
        over = (rows.pick(self._sets[rows.step], keys) & rows.visible(keys)).float()
        number = over.sum(-1, keepdim=True)
        even = over / number.clamp(min=1) * values.sum(-1, keepdim=True)
        instead = torch.where(number > 0, even, values)
        step = (instead - values).mul_(self.strength)
        if self.strength == 1:
            values.copy_(instead)
        else:
            values += step
        self.count(rows, step.abs_().sum(-1) / 2)
