"""Joins the edits of one layer into the hooks that the attention function takes, in the order of the list."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from torch import Tensor

from floatlens.attention.blocks import NO_HOOKS, Block, EditHooks, EditValues
from floatlens.attention.classes import QueryClasses
from floatlens.attention.edit import Edit, ExtraKey, Site
from floatlens.attention.mask import HIDDEN
from floatlens.attention.probe import Layer
from floatlens.models.base import LanguageModel

__all__ = ["applies", "hooks_of"]


def applies(edit: Edit, layer: Layer, model: LanguageModel, max_steps: int) -> bool:
    return layer.index in edit.select.layer_ids(model.num_layers) and edit.takes_part(layer, max_steps)


def hooks_of(edits: Sequence[Edit], layer: Layer, model: LanguageModel, lookahead: bool = False) -> EditHooks:
    """The hooks of the edits that act on this layer."""
    acting = [edit for edit in edits if edit.acts(layer)]
    if not acting:
        return NO_HOOKS
    adding = [edit for edit in acting if edit.adds_key]

    def extras(batch: slice, heads: slice, queries: slice) -> list[ExtraKey]:
        found = [edit.extra(Site(layer, batch, heads, queries, lookahead)) for edit in adding]
        return [extra for extra in found if extra is not None]

    reading = [] if lookahead else [edit for edit in acting if edit.reads_totals]

    def totals(batch: slice, heads: slice, queries: slice, values: Tensor) -> None:
        for edit in reading:
            edit.totals(Site(layer, batch, heads, queries), values)

    weighing = [edit for edit in acting if edit.edits_weights]

    def edit_block(block: Block, classes: QueryClasses | None) -> Block:
        for edit in weighing:
            block = edit.edit_block(Site(layer, block.batch, block.heads, block.queries, lookahead), block, classes)
        return block

    fast = bool(weighing) and not adding and all(edit.has_fast_path(layer) for edit in weighing)
    return EditHooks(
        logits=_chain(acting, layer, model, "logits", lookahead),
        weights=None if fast else _chain(acting, layer, model, "weights", lookahead),
        blocks=edit_block if fast else None,
        extras=extras if adding else None,
        totals=totals if reading else None,
    )


def _chain(
    edits: list[Edit], layer: Layer, model: LanguageModel, what: Literal["logits", "weights"], lookahead: bool
) -> EditValues | None:
    """One function that applies the edits of this layer in order, each to the heads it selects; None without any."""
    active = [edit for edit in edits if (edit.edits_logits if what == "logits" else edit.edits_weights)]
    if not active:
        return None

    def apply(batch: slice, heads: slice, queries: slice, values: Tensor) -> Tensor | None:
        changed = False
        for edit in active:
            shown = values.clone() if edit.needs_copy else values
            new: Tensor | None = getattr(edit, what)(Site(layer, batch, heads, queries, lookahead), shown)
            if new is None:
                continue
            changed = True
            if not edit.needs_copy:
                continue
            if what == "logits":
                new.clamp_(min=HIDDEN)
            chosen = [h - heads.start for h in edit.select.head_ids(model.num_heads) if heads.start <= h < heads.stop]
            if len(chosen) == values.shape[1]:
                values = new
            else:
                values[:, chosen] = new[:, chosen]
        return values if changed else None

    return apply
