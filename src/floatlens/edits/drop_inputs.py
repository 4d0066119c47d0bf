"""`DropInputs`: positions add nothing to layers without attention; the analogue of `DropAnchors`.

In a selective scan the input of a position is Δ_j B_j x_j: no row reads it any more, and its own row keeps its skip
D x_j. In a short convolution it is what the taps read.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from floatlens.attention.mixing import InputChange, MixerLayer
from floatlens.attention.select import Select
from floatlens.attention.setting import ControlKind
from floatlens.core.errors import FloatlensError
from floatlens.edits.mixer_edit import INPUT_SETTINGS, InputEdit
from floatlens.edits.row_edit import STRENGTH

__all__ = ["DropInputs"]


class DropInputs(InputEdit):
    """Leaves out the inputs of some positions: given ones, or in step s the anchors of step s − 1 of each layer.

    Anchors are the `k` positions with the most received contribution, mean over all rows, or those of `rule`. It is
    measured as step s − 1 is without this edit in the layer, so a position that stays an anchor stays dropped.
    `strength` a leaves 1 − a of each input. The report counts the share of the rows' contribution that is left out,
    as it is without the edit.

    Example: `fl.edit(model, fl.edits.DropInputs(k=1))`, `fl.edit(model, fl.edits.DropInputs([0]))`
    """

    title = "Inputs dropped"
    about = "positions add nothing to layers without attention"
    settings = (*INPUT_SETTINGS, STRENGTH)

    def __init__(
        self,
        positions: Sequence[int] | None = None,
        *,
        k: int | None = None,
        rule: str | None = None,
        strength: float = 1.0,
        select: Select | None = None,
        matched: ControlKind | None = None,
        seed: int = 0,
    ) -> None:
        if isinstance(strength, bool) or not isinstance(strength, int | float) or not 0 <= strength <= 1:
            raise FloatlensError(f"DropInputs(strength={strength!r}): give a number from 0 to 1")
        weaker = {} if strength == 1 else {"strength": float(strength)}
        super().__init__(positions, k, rule, select, matched, seed, **weaker)
        self.strength = float(strength)
        self.earliest_step = 0 if self.rule is None else 1
        self._anchors: dict[int, Tensor] = {}

    @property
    def active(self) -> bool:
        return self.strength > 0

    def forget(self) -> None:
        self._anchors.clear()

    def targets(self, layer: MixerLayer) -> Tensor:
        if self.rule is None:
            return self.given_positions(layer)
        earlier = self._anchors[layer.index]  # what was written in between was no anchor
        return torch.nn.functional.pad(earlier, (0, layer.terms.positions - earlier.shape[-1]))

    def note(self, layer: MixerLayer, step: int) -> None:
        if self.rule is not None and self.acts_in(step + 1):
            self._anchors[layer.index] = self.anchors(layer)

    def applied(self, layer: MixerLayer, chosen: Tensor) -> InputChange:
        gone = self.strength * chosen
        self.count(layer, (layer.received * gone).sum(-1))
        return InputChange(kept=1 - gone)
