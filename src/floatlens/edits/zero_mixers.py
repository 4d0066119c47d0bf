"""`ZeroMixers`: the mixers of whole layers without attention add nothing; the residual stream passes by them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np
import torch

from floatlens.attention.mixing import InputChange, MixerLayer
from floatlens.attention.probe import PassState, Shape
from floatlens.attention.select import Select
from floatlens.attention.setting import ControlKind, Setting, read_span, span
from floatlens.core.errors import FloatlensError
from floatlens.edits.mixer_edit import MixerEdit, pass_position
from floatlens.edits.rules import check_seed
from floatlens.models.base import LanguageModel
from floatlens.models.facts import Facts

__all__ = ["ZeroMixers"]


class ZeroMixers(MixerEdit):
    """Replaces the output of the mixers of these layers by zeros.

    `matched_random` zeroes as many other layers without attention, drawn by `seed`: the control.

    Example: `fl.edit(model, fl.edits.ZeroMixers([3]))`
    """

    title = "Mixers zeroed"
    about = "layers without attention add nothing to the residual stream"
    settings = (Setting("layers", read_span, "0", about="such as 0-3", argument=span),)
    selects_layers = False
    controls = ("count",)

    def __init__(
        self,
        layers: Collection[int] | int,
        *,
        matched_random: bool = False,
        seed: int = 0,
        select: Select | None = None,
    ) -> None:
        given = select if select is not None else Select()
        if given.layers is not None:
            raise FloatlensError("ZeroMixers: the layers are its first argument; leave them out of select")
        self.layers = [layers] if isinstance(layers, int) else list(layers)
        self.matched_random, self.seed = matched_random, check_seed(self, seed)
        drawn = {"matched_random": True, "seed": seed} if matched_random else {}
        super().__init__(replace(given, layers=self.layers), **drawn)

    def __repr__(self) -> str:
        given = {"layers": self.layers, **self.given, "select.steps": self.select.steps}
        return f"ZeroMixers({', '.join(f'{name}={value!r}' for name, value in given.items() if value is not None)})"

    def control(self, seed: int = 0, kind: ControlKind = "count") -> ZeroMixers:
        if self.matched_random:
            raise FloatlensError("this ZeroMixers is itself a control")
        return ZeroMixers(self.layers, matched_random=True, seed=seed, select=replace(self.select, layers=None))

    def check(self, facts: Facts) -> None:
        super().check(facts)
        own = range(facts.layers) if facts.attention_layers is None else facts.attention_layers
        self._chosen(facts.ref, facts.layers, own)

    def prepare(self, model: LanguageModel, shape: Shape) -> None:
        self.select = replace(self.select, layers=self.layers)  # a control that is used again draws the same
        super().prepare(model, shape)
        if len(model.attention_layers) < shape.layers:  # else it is refused as a whole
            self.select = replace(self.select, layers=self._chosen(model.ref, shape.layers, model.attention_layers))

    def _chosen(self, ref: str, layers: int, attention: Collection[int]) -> list[int]:
        """The layers that are zeroed: the given ones or, for a control, as many others."""
        given = Select(layers=self.layers).layer_ids(layers)
        wrong = [layer for layer in given if layer in attention]
        if wrong:
            raise FloatlensError(f"{self!r}: layer {wrong[0]} of {ref} has attention; ablate its heads instead")
        if not self.matched_random:
            return list(given)
        free = [layer for layer in range(layers) if layer not in attention and layer not in given]
        if len(free) < len(given):
            raise FloatlensError(
                f"{self!r}: {len(given)} of the {len(free) + len(given)} layers without attention of {ref} leave too "
                "few for a random control"
            )
        random = np.random.default_rng([self.seed, len(given)])
        return sorted(free[i] for i in random.permutation(len(free))[: len(given)])

    def changed(self, layer: MixerLayer, step: int) -> InputChange | None:
        if self.acts_in(step):
            self.count(layer, torch.ones(len(layer.state.ids)))
        return None

    def zeroes(self, state: PassState) -> bool:
        return self.acts_in(pass_position(state).step)
