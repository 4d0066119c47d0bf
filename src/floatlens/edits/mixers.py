"""Edits of layers without attention: positions whose input is left out, and mixers whose output is zero.

In a selective scan the input of a position is Δ_j B_j x_j: later rows no longer read it, and its own row keeps the skip
D x_j. In a short convolution it is what the taps read. Layers with attention stay as they are.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import ClassVar

import torch
from torch import Tensor

from floatlens.attention.edit import Edit
from floatlens.attention.probe import Layer, PassState, Shape
from floatlens.attention.select import Select
from floatlens.core.errors import FloatlensError
from floatlens.models.base import LanguageModel

__all__ = ["DropInputs", "ZeroMixers"]


class _MixerEdit(Edit):
    edits_mixers: ClassVar[bool] = True

    def acts(self, layer: Layer) -> bool:
        return False  # on attention


class DropInputs(_MixerEdit):
    """Leaves the inputs of these positions out of the layers without attention.

    Example: `fl.edit(model, fl.edits.DropInputs([0]))`
    """

    title = "Inputs dropped"
    about = "Positions add nothing to scans and convolutions."

    def __init__(self, positions: Sequence[int], *, layers: Collection[int] | None = None) -> None:
        self.positions = tuple(positions)
        if not self.positions or any(not isinstance(one, int) or one < 0 for one in self.positions):
            raise FloatlensError(f"positions={list(positions)}: give positions in the sequence, counted from 0")
        self.select = Select(layers=layers) if layers is not None else Select()

    def __repr__(self) -> str:
        return f"DropInputs(positions={list(self.positions)})"

    def prepare(self, model: LanguageModel, shape: Shape) -> None:
        super().prepare(model, shape)
        if shape.length and max(self.positions) >= shape.length:
            raise FloatlensError(f"{self!r}: the sequence has {shape.length} positions")

    def kept_inputs(self, state: PassState) -> Tensor:
        kept = torch.ones(state.ids.shape, dtype=torch.bool)
        kept[:, [one for one in self.positions if one < state.queries]] = False
        return kept


class ZeroMixers(_MixerEdit):
    """Replaces the output of the mixers of these layers by zeros; the residual stream passes by them.

    Example: `fl.edit(model, fl.edits.ZeroMixers([3]))`
    """

    title = "Mixers zeroed"
    about = "Layers without attention add nothing to the residual stream."

    def __init__(self, layers: Collection[int]) -> None:
        self.select = Select(layers=layers)

    def __repr__(self) -> str:
        return f"ZeroMixers(layers={list(self.select.layers)})"  # type: ignore[arg-type]

    def prepare(self, model: LanguageModel, shape: Shape) -> None:
        super().prepare(model, shape)
        wrong = [layer for layer in self.select.layer_ids(shape.layers) if layer in model.attention_layers]
        if wrong:
            raise FloatlensError(f"{self!r}: layer {wrong[0]} of {model.ref} has attention; ablate its heads instead")

    def zeroes(self, index: int) -> bool:
        return True
