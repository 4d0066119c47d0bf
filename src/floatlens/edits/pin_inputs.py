"""`PinInputs`: what anchors write in layers without attention is held as in step 0; the analogue of `PinAnchors`.

Attention can be moved from one key to another row by row. A scan has one input per position for all rows, and moving
its contribution to other positions would multiply theirs without bound. So the input itself is held: Δ_j B_j x_j in a
scan, with the decays of the pass; what the taps read in a convolution. An anchor then writes what it wrote when the
answer was still masked, and nothing that was committed since reaches other rows through it.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from floatlens.attention.mixing import InputChange, MixerLayer, Written, written_of
from floatlens.attention.select import Select
from floatlens.attention.setting import ControlKind
from floatlens.edits.mixer_edit import INPUT_SETTINGS, InputEdit

__all__ = ["PinInputs"]


class PinInputs(InputEdit):
    """From step 1 on, the inputs of some positions are those that the same positions had in step 0 in the same layer.

    Positions are given, or in each layer and step the current anchors: the `k` with the most received contribution in
    this step as it is without the edit in the layer, mean over all rows, or those of `rule`. Readers (C and the gate),
    decays and skips are those of the step. The report counts the share of the rows' contribution, as it is without the
    edit, that these positions have. It is all or nothing for a position, so there is no strength, and a control by mass
    takes the number of positions that comes closest.

    Example: `fl.edit(model, fl.edits.PinInputs(k=5))`
    """

    title = "Inputs pinned"
    about = "anchors of layers without attention write what they wrote in step 0"
    settings = INPUT_SETTINGS
    earliest_step = 1

    def __init__(
        self,
        positions: Sequence[int] | None = None,
        *,
        k: int | None = None,
        rule: str | None = None,
        select: Select | None = None,
        matched: ControlKind | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(positions, k, rule, select, matched, seed)
        self._first: dict[int, list[Written]] = {}

    def forget(self) -> None:
        self._first.clear()

    def targets(self, layer: MixerLayer) -> Tensor:
        return self.given_positions(layer) if self.rule is None else self.anchors(layer)

    def note(self, layer: MixerLayer, step: int) -> None:
        if step == 0:
            self._first[layer.index] = [tuple(one.clone() for one in some) for some in written_of(layer.terms)]

    def applied(self, layer: MixerLayer, chosen: Tensor) -> InputChange:
        held = chosen >= 0.5
        self.count(layer, (layer.received * held).sum(-1))
        return InputChange(held=held, written=self._first[layer.index])
