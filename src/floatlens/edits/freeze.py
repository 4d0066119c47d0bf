"""`FreezeLayers`: attention of whole layers becomes uniform over the structural tokens that each row can see."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from floatlens.attention.blocks import Block
from floatlens.attention.edit import Site
from floatlens.attention.probe import Layer, Shape
from floatlens.attention.run_tracker import PassPosition
from floatlens.attention.select import Select
from floatlens.attention.setting import ControlKind, Setting, read_span, span
from floatlens.attention.softmax import QueryClasses
from floatlens.core.errors import FloatlensError
from floatlens.edits.fast_path import replace_rows, uniform_rows
from floatlens.edits.row_edit import STRENGTH, RowEdit, Rows, position_of, rows_return
from floatlens.edits.rules import check_seed, largest, random_scores
from floatlens.models.base import LanguageModel
from floatlens.prompts.words import structural_tokens

__all__ = ["FreezeLayers"]

Marker = Callable[[list[int]], Sequence[bool]]


class FreezeLayers(RowEdit):
    """`FreezeLayers(range(0, 4))`: rows of these layers become uniform over structural tokens.

    `structural`, called in every step, is a function from the ids of one sequence, without padding, to one bool per
    token; the default is `floatlens.prompts.structural_tokens`. A row that sees no structural token is left unchanged.
    `matched_random` spreads over as many random tokens (no masks) instead, drawn once per run: the control. `strength`
    a mixes 1 − a of a row's own weights with a of the uniform ones.

    Example: `with fl.edit(model, fl.edits.FreezeLayers(range(4))): fl.decode(model, ids)`
    """

    title = "Layers frozen"
    about = "layers attend evenly to structural tokens"
    settings = (Setting("layers", read_span, "0-1", about="such as 0-3", argument=span), STRENGTH)
    selects_layers = False
    controls = ("count",)
    edits_weights = True

    def __init__(
        self,
        layers: Collection[int] | slice | int,
        structural: Marker | None = None,
        *,
        matched_random: bool = False,
        seed: int = 0,
        strength: float = 1.0,
        select: Select | None = None,
    ) -> None:
        if structural is not None and not callable(structural):
            raise FloatlensError("FreezeLayers: structural is a function from a list of ids to a bool per token")
        given = select if select is not None else Select()
        if given.layers is not None:
            raise FloatlensError("FreezeLayers: the layers are its first argument; leave them out of select")
        extra: dict[str, Any] = {"matched_random": True, "seed": seed} if matched_random else {}
        super().__init__(replace(given, layers=layers), strength, **extra)
        self.structural, self.matched_random, self.seed = structural, matched_random, check_seed(self, seed)
        self._marker: Marker | None = structural
        self._sets: dict[int, Tensor] = {}

    def control(self, seed: int = 0, kind: ControlKind = "count") -> FreezeLayers:
        if self.matched_random:
            raise FloatlensError("this FreezeLayers is itself a control")
        layers, rest = self.select.layers, replace(self.select, layers=None)
        assert layers is not None
        more: dict[str, Any] = {"strength": self.strength, "select": rest}
        return FreezeLayers(layers, self.structural, matched_random=True, seed=seed, **more)

    def prepare(self, model: LanguageModel, shape: Shape) -> None:
        super().prepare(model, shape)
        if self.structural is None and model.tokenizer is None:
            raise FloatlensError(f"FreezeLayers: {model.ref} has no tokenizer; give structural=…, a function of ids")
        self._marker = self.structural
        if self._marker is None and model.tokenizer is not None:
            self._marker = structural_tokens(model.tokenizer)

    def forget(self) -> None:
        self._sets.clear()

    def begin_layer(self, layer: Layer) -> None:
        super().begin_layer(layer)
        position = position_of(layer)
        if position.step in self._sets or not self.acts_in(position.step):
            return
        if not rows_return(layer):
            self._sets.pop(position.step - 1, None)
        masked = np.zeros_like(position.real)
        masked[:, layer.state.offset :] = layer.state.masked
        marked = torch.from_numpy(self._mark(position) & ~masked)
        if self.matched_random:
            free = torch.from_numpy(position.real & ~masked)
            drawn = random_scores(position, self.seed, 1)[:, 0]
            marked = largest(drawn.masked_fill(~free, -torch.inf), marked.sum(-1))
        self._sets[position.step] = marked.to(layer.query.device)

    def _mark(self, position: PassPosition) -> NDArray[np.bool_]:
        """(batch, key): the structural tokens."""
        marked = np.zeros_like(position.real)
        for sample, there in enumerate(position.real):
            ids = position.ids[sample, there].tolist()
            if ids and min(ids) < 0:
                raise FloatlensError("FreezeLayers: the cache was filled before the edit began; begin with the prompt")
            assert self._marker is not None
            answer = np.asarray(self._marker(ids), dtype=bool)
            if answer.shape != (len(ids),):
                raise FloatlensError(f"FreezeLayers: structural gave {answer.shape} answers for {len(ids)} tokens")
            marked[sample, there] = answer
        return marked

    def has_fast_path(self, layer: Layer) -> bool:
        return self.strength == 1 and not layer.mask.irregular

    def edit_block(self, site: Site, block: Block, classes: QueryClasses | None) -> Block:
        for rows in self.rows(site):
            over = rows.pick(self._sets[rows.step], block.keys) & rows.seen(block.keys)
            block, moved = replace_rows(block, rows, *uniform_rows(over.float()), classes)
            self.count(rows, moved)
        return block

    def change(self, rows: Rows, values: Tensor) -> None:
        keys = values.shape[-1]
        over = (rows.pick(self._sets[rows.step], keys) & rows.visible(keys)).float()
        number = over.sum(-1, keepdim=True)
        even = over / number.clamp(min=1) * values.sum(-1, keepdim=True)
        self.mix(rows, values, torch.where(number > 0, even, values))
