"""`PinAnchors`: attention on current anchors is moved to the anchors of step 0; `SwapAnchors` is its control.

Weights are moved within each row: totals stay the same, and keys that are neither source nor target keep their weights
to the last bit. Anchors of a step are found before its output is computed, so they cannot float even for one step.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from floatlens.attention.blocks import Block
from floatlens.attention.edit import Site
from floatlens.attention.probe import Layer
from floatlens.attention.received import choosable
from floatlens.attention.run_tracker import PassPosition
from floatlens.attention.select import Select
from floatlens.attention.setting import ControlKind, RowGroup, Setting, read_whole, read_word
from floatlens.attention.softmax import QueryClasses
from floatlens.core.errors import FloatlensError, did_you_mean
from floatlens.edits.fast_path import SparseColumns, move_columns
from floatlens.edits.row_edit import ROWS, STRENGTH, RowEdit, Rows, check_rows, position_of, rows_return
from floatlens.edits.rules import ANCHOR_SETTINGS, AnchorRule, check_seed, largest, random_scores

__all__ = ["PinAnchors", "SwapAnchors"]

To = Literal["step0", "bos"]
_FIVE = (replace(ANCHOR_SETTINGS[0], default=5), ANCHOR_SETTINGS[1])


@dataclass(frozen=True)
class _Move:
    """Sources and targets of the moves in one step of one layer, both (batch, head, key)."""

    sources: Tensor
    """bool: keys that lose their weight."""
    shares: Tensor
    """The share of the moved weight that each key gets."""
    most: int | None
    """The largest number of sources, and of targets, per head, if known."""
    few: dict[tuple[int, ...], SparseColumns] = field(default_factory=dict)
    """The same as column indices, for the samples and heads of a block."""

    def of(self, site: Site) -> SparseColumns:
        at = (site.batch.start, site.batch.stop, site.heads.start, site.heads.stop)
        if at not in self.few:
            self.few[at] = SparseColumns.of(
                self.sources[site.batch, site.heads], self.shares[site.batch, site.heads], self.most
            )
        return self.few[at]


class PinAnchors(RowEdit):
    """In each row, the weight of every current anchor moves to the anchors of step 0, or to the first token ("bos").

    Anchors are the `k` keys of each head and layer that receive most (mean over all real queries; the last row of an
    autoregressive model), or those of `rule`. `rows="answer"` takes the mean over the rows of the answer, "last" the
    last row of any model; only rows of the answer are then changed. Several targets share in proportion to what they
    received in step 0. A current anchor that is a target keeps its weight. `to="step0"` does not edit step 0. A head
    without an anchor in step 0 (possible with zscore), or a row that sees no target, is left unchanged.

    Example: `fl.trace(model, prompt="…", edits=[fl.edits.PinAnchors(to="bos")])`
    """

    title = "Anchors pinned"
    about = "attention on anchors moves to the anchors of step 0, or to the first token"
    settings: ClassVar[tuple[Setting, ...]] = (
        Setting("to", read_word, "step0", about="step0 or bos"),
        *_FIVE,
        ROWS,
        STRENGTH,
    )
    controls: tuple[ControlKind, ...] = ("mass",)
    edits_weights = True

    def __init__(
        self,
        to: To = "step0",
        *,
        k: int | None = None,
        rule: str | None = None,
        rows: RowGroup = "all",
        strength: float = 1.0,
        select: Select | None = None,
    ) -> None:
        name = type(self).__name__
        if to not in ("step0", "bos"):
            raise FloatlensError(f'{name}: "{to}" is not a target{did_you_mean(str(to), ("bos", "step0"))}')
        self.to: To = to
        self.earliest_step = 1 if to == "step0" else 0
        self.rule = AnchorRule.read(name, k, rule)
        self.row_group = check_rows(self, rows)
        which: dict[str, Any] = {"k": int(self.rule.value)} if rule is None else {"rule": str(self.rule)}
        which |= {"rows": rows} if rows != "all" else {}
        super().__init__(select, strength, **{self._says: to}, **which)
        self._home: dict[int, Tensor] = {}
        self._moves: dict[tuple[int, int], _Move] = {}

    _says: ClassVar[str] = "to"

    def control(self, seed: int = 0, kind: ControlKind = "mass") -> SwapAnchors:
        """It moves the same mass from the same keys, to as many others."""
        given = {"like" if name == "to" else name: value for name, value in self.given.items()}
        return SwapAnchors(**given, strength=self.strength, select=self.select, seed=seed)

    def forget(self) -> None:
        self._home.clear()
        self._moves.clear()

    def wants_preview(self, layer: Layer) -> bool:
        step = position_of(layer).step
        return self.acts_in(step) or (step == 0 and self.to == "step0")

    def preview(self, layer: Layer, received: Tensor, batch: slice, heads: slice) -> None:
        """Note the sources and targets of this step."""
        position, there = position_of(layer), choosable(layer, self.row_group)[batch]
        anchors = self.rule.find(self, received, there)
        whole = (*layer.query.shape[:2], received.shape[-1])
        if position.step == 0 and self.to == "step0":
            self._home.setdefault(layer.index, received.new_zeros(whole))[batch, heads] = _shares(anchors, received)
        if not self.acts_in(position.step):
            return
        home = _first(layer, received, batch) if self.to == "bos" else self._home[layer.index][batch, heads]
        home = torch.nn.functional.pad(home, (0, received.shape[-1] - home.shape[-1]))
        if not rows_return(layer):
            self._moves.pop((layer.index, position.step - 1), None)
        held = home > 0
        sources = anchors & ~held & held.any(-1, keepdim=True)
        shares = self.targets(layer, home, anchors, there, batch, heads)
        if received.shape == whole:
            self._moves[layer.index, position.step] = _Move(sources, shares, self.rule.most)
            return
        move = self._moves.get((layer.index, position.step))
        if move is None:
            move = _Move(sources.new_zeros(whole), received.new_zeros(whole), self.rule.most)
            self._moves[layer.index, position.step] = move
        move.sources[batch, heads], move.shares[batch, heads] = sources, shares

    def targets(self, layer: Layer, home: Tensor, anchors: Tensor, there: Tensor, batch: slice, heads: slice) -> Tensor:
        """(batch, head, key): the share of what is moved that each key gets."""
        return home

    def has_fast_path(self, layer: Layer) -> bool:
        return len(self.heads_of(layer)) == layer.query.shape[1]

    def edit_block(self, site: Site, block: Block, classes: QueryClasses | None) -> Block:
        for rows in self.rows(site):
            few = self._moves[site.layer.index, rows.step].of(site)
            self.count(rows, move_columns(block, rows, few, self.strength, classes, self.row_mask(rows)))
        return block

    def change(self, rows: Rows, values: Tensor) -> None:
        """The same over whole rows, for selected heads and together with edits that change whole rows."""
        move, keys = self._moves[rows.site.layer.index, rows.step], values.shape[-1]
        sources, shares = rows.pick(move.sources, keys), rows.pick(move.shares, keys)
        if rows.partial:
            shares = shares * rows.visible(keys)
            shares = shares / shares.sum(-1, keepdim=True).clamp(min=torch.finfo(shares.dtype).tiny)
            sources = sources & (shares > 0).any(-1, keepdim=True)
        if (within := self.row_mask(rows)) is not None:
            sources = sources & within
        taken = values * (sources * self.strength)
        moved = taken.sum(-1, keepdim=True)
        values -= taken
        values += moved * shares
        self.count(rows, moved.squeeze(-1))


def _shares(keys: Tensor, received: Tensor) -> Tensor:
    """What the chosen keys received, normalised to 1; all 0 where none is chosen."""
    held = received * keys
    return held / held.sum(-1, keepdim=True).clamp(min=torch.finfo(held.dtype).tiny)


def _first(layer: Layer, received: Tensor, batch: slice) -> Tensor:
    """Everything on each sample's first real token."""
    first = torch.from_numpy(position_of(layer).first[batch]).to(received.device)
    return torch.zeros_like(received).scatter_(-1, first[:, None, None].expand(-1, received.shape[1], 1), 1.0)


class SwapAnchors(PinAnchors):
    """The control of `PinAnchors(to=like)`: the same masses from the same keys, to random keys that are not anchors.

    There are as many random keys as the pin has targets, and they share in the same proportions; they are drawn anew
    for each head, layer and step among the keys that are anchors neither now nor in step 0. Other settings are those of
    `PinAnchors`.
    """

    title = "Anchors swapped"
    about = "attention on anchors moves to random keys: the control of pin_anchors, used by itself"
    settings = (
        Setting("like", read_word, "step0", about="step0 or bos"),
        Setting("seed", read_whole, about="of the random keys"),
        *_FIVE,
        ROWS,
        STRENGTH,
    )
    controls = ()
    _says: ClassVar[str] = "like"

    def __init__(self, like: To = "step0", *, seed: int = 0, **settings: Any) -> None:
        super().__init__(like, **settings)
        self.seed = check_seed(self, seed)
        self.given["seed"] = seed
        self._drawn: tuple[PassPosition, int, Tensor] | None = None

    def forget(self) -> None:
        super().forget()
        self._drawn = None

    def control(self, seed: int = 0, kind: ControlKind = "mass") -> SwapAnchors:
        raise FloatlensError("SwapAnchors is itself a control; ask PinAnchors for it")

    def targets(self, layer: Layer, home: Tensor, anchors: Tensor, there: Tensor, batch: slice, heads: slice) -> Tensor:
        count = (home > 0).sum(-1)
        free = there[:, None] & ~anchors & (home == 0)
        if bool(((free.sum(-1) < count) & there.any(-1, keepdim=True)).any()):
            raise FloatlensError(f"{self!r}: too few keys are left next to the anchors; give a smaller k")
        drawn = self._draw(layer)[batch, heads].to(home.device)
        chosen = largest(drawn.masked_fill(~free, -torch.inf), count)
        shares = torch.zeros_like(home)
        shares[chosen] = home[home > 0]  # both are in head-major order with equally many keys per head
        return shares

    def _draw(self, layer: Layer) -> Tensor:
        """(batch, head, key): numbers of this layer and step; drawn once for all heads, which may be shown in parts."""
        position = position_of(layer)
        if self._drawn is None or self._drawn[:2] != (position, layer.index):
            numbers = random_scores(position, self.seed, layer.query.shape[1], layer.index, position.step)
            self._drawn = position, layer.index, numbers
        return self._drawn[2]
