"""Edits: changes to attention while the model runs, made in the same function that the probes watch.

An edit sees one block at a time and returns what is to be used instead; probes then see the edited weights. Edits
change attention only: never tokens, never the cache.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from floatlens.capture.probe import Layer
from floatlens.capture.select import Select

__all__ = ["Edit", "Site"]


@dataclass(frozen=True)
class Site:
    """Where a block stands: its layer (and its pass: step, masks, regions), its samples, heads and queries."""

    layer: Layer
    batch: slice
    heads: slice
    queries: slice

    @property
    def step(self) -> int:
        return self.layer.state.step


class Edit:
    """Base of all edits. `select` limits an edit to layers, heads and steps; the session sees to it.

    `logits` gets natural-log logits after masking (−∞ may be written), `weights` gets normalised rows; both are
    (batch, head, query, key) and may be changed in place. Return None to leave a block as it is.
    """

    select: Select = Select()
    edits_logits: bool = False
    edits_weights: bool = False

    def begin_layer(self, layer: Layer) -> None:
        """Before the layer's first block of a pass."""

    def end_layer(self, layer: Layer) -> None:
        """After the layer's last block."""

    def logits(self, site: Site, logits: Tensor) -> Tensor | None:
        return None

    def weights(self, site: Site, weights: Tensor) -> Tensor | None:
        return None
