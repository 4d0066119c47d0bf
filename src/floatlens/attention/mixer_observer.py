"""What a session does around layers without attention: shows their contributions to probes, and applies edits."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from floatlens.attention.edit import Edit
from floatlens.attention.mixing import MixerLayer, change_inputs, release_mixers, terms_of
from floatlens.attention.probe import PassState, Probe
from floatlens.attention.recorder import Recorder
from floatlens.attention.softmax import Workspace
from floatlens.core.errors import FloatlensError
from floatlens.models.base import LanguageModel

__all__ = ["MixerObserver"]


class MixerObserver:
    """Hooks of mixers; the rest of a session is in `floatlens.attention.session`."""

    model: LanguageModel
    probes: Sequence[Probe]
    edits: Sequence[Edit]
    recorder: Recorder
    workspace: Workspace
    state: PassState | None

    @property
    def watches_mixers(self) -> bool:
        """Whether mixers need hooks at all."""
        return any("mixers" in probe.needs for probe in self.probes) or any(one.edits_mixers for one in self.edits)

    def note_mixer(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Forward pre-hook of every mixer without attention: the states that it mixes."""
        if self.state is None:
            return
        if self.state.offset or self.state.keep:
            raise FloatlensError(
                "layers without attention are observed and edited in passes without a cache; decode with "
                "use_cache=False"
            )
        states = args[0] if args else kwargs["hidden_states"]
        mask = args[1] if len(args) > 1 else kwargs.get("attention_mask")
        index: Any = module.layer_idx
        size = (self.model.num_heads, self.workspace.block_bytes)
        layer = MixerLayer(index, self.state, partial(terms_of, module, states, mask), *size)
        edits = self._mixer_edits(index)
        changes = [change for edit in edits if (change := edit.change_inputs(layer)) is not None]
        change_inputs(module, changes, states.device)
        probes = [probe for probe in self.probes if "mixers" in probe.needs]
        if not probes or not self.recorder.wants(layer):
            return
        if changes:
            layer = MixerLayer(index, self.state, partial(terms_of, module, states, mask), *size)
        layer.zeroed = any(edit.zeroes(self.state) for edit in edits)
        for probe in probes:
            probe.begin_mixer(layer)
        for rows, shares in layer.blocks():
            for probe in probes:
                probe.mixer_block(layer, rows, shares)
        for probe in probes:
            self.recorder.take(probe, layer)

    def end_mixer(self, module: nn.Module, _: Any, output: Tensor) -> Tensor | None:
        """Forward hook of every mixer without attention: zeros in place of its output where an edit says so."""
        release_mixers(module)
        if self.state is None:
            return None
        index: Any = module.layer_idx
        zeroed = any(edit.zeroes(self.state) for edit in self._mixer_edits(index))
        return torch.zeros_like(output) if zeroed else None

    def _mixer_edits(self, index: int) -> list[Edit]:
        """The edits of layers without attention that act on this one."""
        layers = self.model.num_layers
        return [edit for edit in self.edits if edit.edits_mixers and index in edit.select.layer_ids(layers)]
