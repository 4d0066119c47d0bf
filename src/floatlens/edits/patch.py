"""`PatchStates`: keys and values of some positions are replaced by given ones, in one layer of a single pass.

It is the part of activation patching that acts inside attention; `floatlens.patching` chooses the positions and
measures the effect.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from floatlens.attention.edit import Edit
from floatlens.attention.probe import Layer
from floatlens.attention.select import Select
from floatlens.core.errors import FloatlensError

__all__ = ["PatchStates"]


class PatchStates(Edit):
    """In one layer, keys and values at `positions` become those of `key` and `value`, (kv head, position, dim) each.

    For passes over whole sequences of one sample, without a cache: a replaced key would stay in it.

    Example: `with fl.edit(model, fl.edits.PatchStates(3, [0], key, value)): model.forward(torch.tensor([ids]))`
    """

    def __init__(self, layer: int, positions: Sequence[int], key: Tensor, value: Tensor) -> None:
        self.select = Select(layers=layer)
        self.positions, self.key, self.value = list(positions), key, value

    def __repr__(self) -> str:
        return f"PatchStates(layer={self.select.layers}, positions={self.positions})"

    def begin_layer(self, layer: Layer) -> None:
        if layer.state.offset or layer.key.shape[0] != 1 or layer.key.shape[1:] != self.key.shape:
            raise FloatlensError(f"{self!r}: give one sequence of {self.key.shape[1]} tokens, without a cache")
        layer.key[0, :, self.positions] = self.key[:, self.positions].to(layer.key)
        layer.value[0, :, self.positions] = self.value[:, self.positions].to(layer.value)
