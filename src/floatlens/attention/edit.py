"""Edits: changes to attention while the model runs, made in the same function that the probes watch.

An edit sees one block at a time and returns what is to be used instead; probes then see the edited weights. Edits
change attention only: never tokens, never the cache.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from floatlens.attention.blocks import Block, Extra
from floatlens.attention.classes import QueryClasses
from floatlens.attention.probe import Layer, Shape
from floatlens.attention.select import Select
from floatlens.models.base import LanguageModel

__all__ = ["Edit", "Extra", "Site"]


@dataclass(frozen=True)
class Site:
    """Where a block stands: its layer (and its pass: step, masks, regions), its samples, heads and queries."""

    layer: Layer
    batch: slice
    heads: slice
    queries: slice
    trial: bool = False
    """A look ahead on behalf of another edit: the block comes again, so that nothing is to be counted yet."""

    @property
    def step(self) -> int:
        return self.layer.state.step


class Edit:
    """Base of all edits. `select` limits an edit to layers, heads and steps; the session sees to it.

    `logits` gets natural-log logits after masking (−∞ may be written), `weights` gets normalised rows; both are
    (batch, head, query, key) and may be changed in place. Return None to leave a block as it is. Edits of logits act
    before the softmax, edits of weights after it; among each kind the order of the list holds.
    """

    select: Select = Select()
    edits_logits: bool = False
    edits_weights: bool = False
    adds_key: bool = False
    reads_totals: bool = False
    needs_copy: bool = True
    """False where an edit writes only to the heads and rows it is meant for, nothing below `HIDDEN`, and returns the
    tensor it was given (or None, having written nothing): it is then shown the block itself."""

    @property
    def active(self) -> bool:
        """False for an edit that changes nothing at all: it is then left out, and not a bit differs."""
        return True

    def prepare(self, model: LanguageModel, shape: Shape) -> None:
        """Before the first pass: check what was asked for against the model."""
        self.select.layer_ids(shape.layers)
        self.select.head_ids(shape.heads)
        self.select.has_step(0, shape.steps)

    def takes_part(self, layer: Layer, max_steps: int) -> bool:
        """Whether the edit is told of this pass at all."""
        return self.select.has_step(layer.state.step, max_steps)

    def acts(self, layer: Layer) -> bool:
        """Whether this layer's blocks are to be shown to it in this pass; where not, they cost nothing."""
        return True

    def begin_layer(self, layer: Layer) -> None:
        """Before the layer's first block of a pass."""

    def end_layer(self, layer: Layer) -> None:
        """After the layer's last block."""

    def wants_preview(self, layer: Layer) -> bool:
        """Whether to compute this layer's attention once more, beforehand, for `preview`."""
        return False

    def preview(self, layer: Layer, received: Tensor, batch: slice, heads: slice) -> None:
        """What the keys of some samples and heads would receive in this pass (see `Gather`) if this edit did nothing.

        `received` is (batch, head, key) of those; every sample and head is told of once. Edits of logits, and edits of
        weights that stand before this one in the list, are already in it.
        """

    def wants_review(self, layer: Layer) -> bool:
        return False

    def review(self, layer: Layer, received: Tensor) -> None:
        """(batch, head, key) that the keys did receive in this pass, after all edits."""

    def logits(self, site: Site, logits: Tensor) -> Tensor | None:
        return None

    def weights(self, site: Site, weights: Tensor) -> Tensor | None:
        return None

    def swift(self, layer: Layer) -> bool:
        """For an edit of weights: whether `rework` can take the place of `weights` in this layer of this pass."""
        return False

    def rework(self, site: Site, block: Block, classes: QueryClasses | None) -> Block:
        """The block with other weights and with the entropy and column sums of those, where it carries them.

        It does what `weights` does, for edits that can tell without looking at every weight. `exp` may be changed in
        place, and is contiguous in the end.
        """
        raise NotImplementedError

    def totals(self, site: Site, totals: Tensor) -> None:
        """With `reads_totals`: the log-sum-exp of each row (batch, head, query), after all edits of logits."""

    def extra(self, site: Site) -> Extra | None:
        """With `adds_key`: a key that stands in no sequence, for the queries of this block."""
        return None
