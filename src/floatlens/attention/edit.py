"""Edits change attention while the model runs, in the same function that probes observe.

An edit is shown one block at a time and returns what to use instead; probes then see the edited weights. Edits change
attention only: no tokens and no cache.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

from torch import Tensor

from floatlens.attention.blocks import Block, ExtraKey
from floatlens.attention.changes import Change
from floatlens.attention.classes import QueryClasses
from floatlens.attention.probe import Layer, Shape
from floatlens.attention.select import Select
from floatlens.attention.setting import Setting, span
from floatlens.models.base import LanguageModel

if TYPE_CHECKING:
    from floatlens.models.facts import Facts

__all__ = ["Edit", "ExtraKey", "Site"]


@dataclass(frozen=True)
class Site:
    """The place of a block: its layer (with the step, masks and regions of the pass), samples, heads and queries."""

    layer: Layer
    batch: slice
    heads: slice
    queries: slice
    lookahead: bool = False
    """A preview for another edit: the block comes again later, so nothing is counted yet."""

    @property
    def step(self) -> int:
        return self.layer.state.step


class Edit:
    """Base class of all edits. `select` limits an edit to layers, heads and steps; the session enforces it.

    A subclass implements `logits` or `weights` (and sets `edits_logits` or `edits_weights`). To be used by name, from
    the command line and in studies, it also sets `title` and `about`, lists its constructor's arguments in `settings`,
    and is entered in the registry `floatlens.edits.EDITS` (or an entry point of the group "floatlens.edits").

    `logits` gets natural-log logits after masking (−∞ may be written), `weights` gets normalised rows; both are
    (batch, head, query, key) and may be changed in place. Return None to leave a block unchanged. Edits of logits act
    before the softmax, edits of weights after it; edits of one kind act in the order of the list.
    """

    title: ClassVar[str] = ""
    """Noun phrase for tables and figures, such as "Anchors dropped"."""
    about: ClassVar[str] = ""
    """One sentence: what the edit does."""
    settings: ClassVar[tuple[Setting, ...]] = ()
    selects_layers: ClassVar[bool] = True
    """Whether `on=0-3` may limit it to layers; False where its own settings name the layers."""
    has_control: ClassVar[bool] = False
    """Whether `control` gives a matched random edit."""
    needs: frozenset[str] = frozenset()
    """What it reads. An edit that needs "retrieval scores" waits for traces that show which heads retrieve."""
    earliest_step: int = 0
    """The first step in which it can change anything."""
    select: Select = Select()
    edits_logits: bool = False
    edits_weights: bool = False
    adds_key: bool = False
    reads_totals: bool = False
    needs_copy: bool = True
    """False if the edit writes only to the heads and rows it selects, nothing below `HIDDEN`, and returns the tensor it
    was given (or None, having written nothing). It is then given the block itself instead of a copy."""

    @property
    def active(self) -> bool:
        """False for an edit that changes nothing (strength 0): it is left out, and results are bit-identical."""
        return True

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> Self:
        """The edit with these settings, by name; `on` and `steps` limit its layers and steps."""
        made = cls(**{one.name: one.argument(settings[one.name]) for one in cls.settings if one.name in settings})
        limits: dict[str, Any] = {}
        if "on" in settings:
            limits["layers"] = span(settings["on"])
        if "steps" in settings:  # as a slice: how many steps there will be is not known
            limits["steps"] = slice(span(settings["steps"]).start, span(settings["steps"]).stop)
        if limits:
            made.select = replace(made.select, **limits)
        return made

    def __repr__(self) -> str:
        given = {one.name: getattr(self, one.name) for one in self.settings if hasattr(self, one.name)}
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in given.items())})"

    def control(self, seed: int = 0) -> Edit | None:
        """The matched random control of this edit, at the same strength and place; None where there is none."""
        return None

    def check(self, facts: Facts) -> None:
        """Refuse layers, heads and tokens that a model does not have, before its weights are read."""
        self.select.layer_ids(facts.layers)
        self.select.head_ids(facts.heads)

    def report(self) -> list[Change]:
        """What the edit did since it was made, by step (of its run) and layer, where it keeps count."""
        return []

    def prepare(self, model: LanguageModel, shape: Shape) -> None:
        """Before the first pass: check the settings against the model."""
        self.select.layer_ids(shape.layers)
        self.select.head_ids(shape.heads)
        self.select.has_step(0, shape.steps)

    def takes_part(self, layer: Layer, max_steps: int) -> bool:
        """Whether the edit is informed of this pass at all."""
        return self.select.has_step(layer.state.step, max_steps)

    def acts(self, layer: Layer) -> bool:
        """Whether it is shown this layer's blocks in this pass."""
        return True

    def begin_layer(self, layer: Layer) -> None:
        """Before the layer's first block of a pass."""

    def end_layer(self, layer: Layer) -> None:
        """After the layer's last block."""

    def wants_preview(self, layer: Layer) -> bool:
        """Whether it needs `preview` before this layer is edited."""
        return False

    def preview(self, layer: Layer, received: Tensor, batch: slice, heads: slice) -> None:
        """What the keys of some samples and heads would receive in this pass without this edit.

        `received` is (batch, head, key) of those; each sample and head is shown once. All other edits of logits, and
        the edits of weights earlier in the list, are already applied.
        """

    def wants_review(self, layer: Layer) -> bool:
        return False

    def review(self, layer: Layer, received: Tensor) -> None:
        """What the keys received in this pass, after all edits: (batch, head, key)."""

    def logits(self, site: Site, logits: Tensor) -> Tensor | None:
        return None

    def weights(self, site: Site, weights: Tensor) -> Tensor | None:
        return None

    def has_fast_path(self, layer: Layer) -> bool:
        """For an edit of weights: whether `edit_block` can replace `weights` in this layer of this pass."""
        return False

    def edit_block(self, site: Site, block: Block, classes: QueryClasses | None) -> Block:
        """The block with other weights, and with their entropy and column sums where it carries them.

        It has the effect of `weights`, for edits that need not compute on every weight. `exp` may be changed in place
        and must stay contiguous.
        """
        raise NotImplementedError

    def totals(self, site: Site, totals: Tensor) -> None:
        """With `reads_totals`: the log-sum-exp of each row (batch, head, query), after all edits of logits."""

    def extra(self, site: Site) -> ExtraKey | None:
        """With `adds_key`: a key outside the sequence, for the queries of this block."""
        return None
