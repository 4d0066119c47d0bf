"""What edits return is checked where it enters attention, so a faulty edit is not taken for an effect.

Shapes are compared for each block. Values are summed for each block and tested once per layer: a sum is finite only if
all of its terms are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from torch import Tensor

from floatlens.attention.blocks import Block
from floatlens.attention.probe import Layer
from floatlens.core.errors import FloatlensError

if TYPE_CHECKING:
    from floatlens.attention.edit import Edit

__all__ = ["EditChecks"]


class EditChecks:
    """The checks of all edits of one layer in one pass."""

    def __init__(self, layer: Layer) -> None:
        self._layer = layer
        self._sums: dict[tuple[int, str], tuple[Edit, Tensor]] = {}

    def values(self, edit: Edit, method: str, new: object, shown: Tensor) -> Tensor:
        """What `method` returned for `shown`, if it can be used instead."""
        if not isinstance(new, Tensor) or (new.shape, new.dtype) != (shown.shape, shown.dtype):
            found = f"{tuple(new.shape)} {new.dtype}" if isinstance(new, Tensor) else repr(new)
            raise FloatlensError(
                f"{edit!r}: {method}() returned {found} in {self._place}; return a tensor like the one it is given, "
                f"{tuple(shown.shape)} {shown.dtype}, or None"
            )
        if not edit.needs_copy and new is not shown:
            raise FloatlensError(
                f"{edit!r}: {method}() returned another tensor in {self._place}; without needs_copy it must change "
                "the one it is given"
            )
        return new

    def add(self, edit: Edit, method: str, new: Tensor) -> None:
        """Note the values of a block for `finish`."""
        key, total = (id(edit), method), new.sum()
        self._sums[key] = (edit, total + self._sums[key][1] if key in self._sums else total)

    def block(self, edit: Edit, new: Block, given: Block) -> Block:
        """What `edit_block` returned."""
        if new.exp.shape != given.exp.shape or new.inverse.shape != given.inverse.shape:
            raise FloatlensError(
                f"{edit!r}: edit_block() returned weights {tuple(new.exp.shape)} in {self._place}; they must keep the "
                f"shape {tuple(given.exp.shape)}"
            )
        return new

    def finish(self, out: Tensor, edits: Sequence[Edit]) -> None:
        """After the last block: refuse values that are not finite, unless the model's own are not.

        `out` is the attention output of the layer, `edits` are those that acted on it.
        """
        if not edits:
            return
        wrong = [f"{edit!r}: {method}()" for (_, method), (edit, total) in self._sums.items() if not total.isfinite()]
        if not wrong and not out.float().sum().isfinite():
            wrong = [" or ".join(f"{edit!r}" for edit in edits) + ": the edit"]
        inputs = (self._layer.query, self._layer.key, self._layer.value)
        if wrong and all(bool(one.float().sum().isfinite()) for one in inputs):
            raise FloatlensError(f"{wrong[0]} gives NaN or infinite attention in {self._place}")

    @property
    def _place(self) -> str:
        return f"layer {self._layer.index}, step {self._layer.state.step}"
