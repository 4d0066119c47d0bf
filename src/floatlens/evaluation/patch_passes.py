"""Forward passes for activation patching: both prompts of a pair, and the first with states of the other put in place.

Each pass is over a whole sequence, without a cache; only the row that decides the first token of the answer is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from floatlens.attention.edit import Edit
from floatlens.attention.setting import RowGroup
from floatlens.decoding import plan
from floatlens.decoding.draws import ban
from floatlens.edits.context import edit
from floatlens.edits.patch import PatchStates
from floatlens.models.readout import layers_of
from floatlens.records.condition import PatchedStates

if TYPE_CHECKING:
    from floatlens.attention.probe import Layer
    from floatlens.attention.softmax import Workspace
    from floatlens.models import LanguageModel

__all__ = ["Canvas", "PatchPasses", "lay_out_prompt"]


@dataclass(frozen=True)
class Canvas:
    """One sequence and the row that decides the first token of its answer."""

    ids: Tensor
    row: int
    writing: Tensor | None
    blocks: Tensor | None = None


def lay_out_prompt(model: LanguageModel, ids: list[int], settings: Mapping[str, Any]) -> Canvas:
    canvas = plan(model, [ids], **settings)
    first = int(canvas.answer[0].nonzero()[0])
    row = int(canvas.rows[0, first])
    if model.kind == "arm":
        return Canvas(canvas.ids[:, :first], row, None)
    if canvas.blocks is not None:  # a pass reaches to the end of the block of the row that decides
        stop = int((canvas.blocks[0] <= canvas.blocks[0, row]).sum())
        return Canvas(canvas.ids[:, :stop], row, None, canvas.blocks[:, :stop])
    return Canvas(canvas.ids, row, canvas.answer)


class _Watch(Edit):
    """Keeps what each layer's keys receive (head, key), and its keys and values; changes nothing."""

    def __init__(self, rows: RowGroup) -> None:
        self.row_group = rows
        self.received: dict[int, Tensor] = {}
        self.states: dict[int, tuple[Tensor, Tensor]] = {}

    def begin_layer(self, layer: Layer) -> None:
        self.states[layer.index] = layer.key[0].clone(), layer.value[0].clone()

    def wants_review(self, layer: Layer) -> bool:
        return True

    def review(self, layer: Layer, received: Tensor) -> None:
        self.received[layer.index] = received[0].clone()


class PatchPasses:
    """The passes over both prompts of a pair, and patched passes over the first."""

    def __init__(
        self, model: LanguageModel, rows: RowGroup, canvases: Sequence[Canvas], workspace: Workspace | None = None
    ) -> None:
        self._model, self._canvas, self._workspace = model, canvases[0], workspace
        self._watches = [_Watch(rows) for _ in canvases]
        self._residuals: list[list[Tensor]] = []
        self.logits = []
        for canvas, watch in zip(canvases, self._watches, strict=True):
            with _noted(model) as states:
                self.logits.append(self._pass(canvas, watch))
            self._residuals.append(states)

    def answers(self) -> tuple[int, int]:
        """The tokens that the model puts first in its answers to both prompts."""
        masks = [] if self._model.mask_id is None else [self._model.mask_id]
        original, counterfactual = (int(ban(x[None].clone(), masks).argmax()) for x in self.logits)
        return original, counterfactual

    def received(self, layer: int) -> NDArray[np.float64]:
        """(key,): what each key of the original prompt receives, mean over heads; NaN for the deciding row's own."""
        found: NDArray[np.float64] = self._watches[0].received[layer].double().mean(0).cpu().numpy()
        found[self._canvas.row] = np.nan
        return found

    def patched(self, layer: int, positions: Sequence[int], what: PatchedStates) -> Tensor:
        """The logits of the original prompt with states of the other at some positions."""
        if what == "kv":
            return self._pass(self._canvas, PatchStates(layer, positions, *self._watches[1].states[layer]))
        module = list(layers_of(self._model.module).values())[layer]
        with _replaced(module, list(positions), self._residuals[1][layer]):
            return self._pass(self._canvas, Edit())

    def _pass(self, canvas: Canvas, change: Edit) -> Tensor:
        at = torch.zeros(canvas.ids.shape, dtype=torch.bool)
        at[0, canvas.row] = True
        ids, device = canvas.ids, self._model.device
        with edit(self._model, change, workspace=self._workspace):
            logits = self._model.forward(
                ids.to(device), logits_at=at.to(device), writing=canvas.writing, blocks=canvas.blocks
            )
        return logits[0].float().cpu()


@contextmanager
def _noted(model: LanguageModel) -> Iterator[list[Tensor]]:
    """The states that enter each layer, (position, dim)."""
    states: list[Tensor] = []

    def note(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        states.append((args[0] if args else kwargs["hidden_states"])[0].clone())

    hooks = [one.register_forward_pre_hook(note, with_kwargs=True) for one in layers_of(model.module).values()]
    try:
        yield states
    finally:
        for hook in hooks:
            hook.remove()


@contextmanager
def _replaced(layer: nn.Module, positions: list[int], by: Tensor) -> Iterator[None]:
    def change(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        states = (args[0] if args else kwargs["hidden_states"]).clone()
        states[0, positions] = by[positions].to(states)
        return ((states, *args[1:]), kwargs) if args else (args, kwargs | {"hidden_states": states})

    hook = layer.register_forward_pre_hook(change, with_kwargs=True)
    try:
        yield
    finally:
        hook.remove()
