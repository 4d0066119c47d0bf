"""`Stale`: keys and values of earlier steps are used again, as from a cache (methods §16).

Every pass still computes all rows, so nothing is faster here: the edit shows what a server would read, and counts what
it would save. Queries, masks and tokens are those of the current step.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from floatlens.attention.edit import Edit
from floatlens.attention.probe import Layer, Shape
from floatlens.attention.run_tracker import DecodingRun
from floatlens.attention.select import Select
from floatlens.attention.setting import ControlKind, Setting, read_whole, read_word
from floatlens.core.errors import FloatlensError, did_you_mean
from floatlens.edits.row_edit import position_of
from floatlens.edits.rules import check_seed
from floatlens.models.base import LanguageModel
from floatlens.models.readout import layers_of

__all__ = ["Stale", "StaleTokens", "saved_share"]

StaleTokens = Literal["known", "prompt", "all"]


@dataclass(frozen=True)
class _Kept:
    """What a layer keeps from a step: (batch, kv head, key, dim), and which keys (batch, key) stay as they were."""

    step: int
    key: Tensor
    value: Tensor
    keys: Tensor


class Stale(Edit):
    """`Stale(refresh=4)`: keys and values are computed in every fourth step and kept for the three after it.

    `tokens` names the positions whose keys and values are kept: "known" (what was no mask in the step that computed
    them), "prompt", or "all". `select=Select(layers=…)` limits it to layers. For diffusion models without a key/value
    cache; the keys of an autoregressive model never change.

    Example: `with fl.edit(model, fl.edits.Stale(refresh=2)): fl.decode(model, ids, gen_length=16)`
    """

    title = "Stale keys and values"
    about = "keys and values of earlier steps are used again"
    settings = (
        Setting("refresh", read_whole, 2, about="steps until keys and values are computed again"),
        Setting("tokens", read_word, about="kept positions: known, prompt or all"),
    )
    controls = ("count",)
    earliest_step = 1

    def __init__(
        self, refresh: int = 2, *, tokens: StaleTokens = "known", select: Select | None = None, seed: int | None = None
    ) -> None:
        if isinstance(refresh, bool) or not isinstance(refresh, int) or refresh < 1:
            raise FloatlensError(f"Stale(refresh={refresh!r}): give a number of steps, a whole number from 1")
        if tokens not in get_args(StaleTokens):
            raise FloatlensError(f'Stale(tokens="{tokens}"){did_you_mean(str(tokens), get_args(StaleTokens))}')
        self.refresh, self.tokens = refresh, tokens
        self.select = select if select is not None else Select()
        self.seed = None if seed is None else check_seed(self, seed)
        self._layers: frozenset[int] = frozenset()
        self._kept: dict[int, _Kept] = {}
        self._run: DecodingRun | None = None
        self._saved: list[float] = []
        self._costs: tuple[float, float, int] = (1.0, 0.0, 1)
        self._steps = 0

    def __repr__(self) -> str:
        given: dict[str, Any] = {"refresh": self.refresh, "tokens": self.tokens}
        given |= {} if self.seed is None else {"seed": self.seed}
        given |= {f"select.{name}": value for name, value in vars(self.select).items() if value is not None}
        return f"Stale({', '.join(f'{name}={value!r}' for name, value in given.items())})"

    @property
    def active(self) -> bool:
        return self.refresh > 1

    def control(self, seed: int = 0, kind: ControlKind = "count") -> Stale:
        """As many random layers; those of the edit itself where it takes all."""
        if self.seed is not None:
            raise FloatlensError("this Stale is itself a control")
        return Stale(self.refresh, tokens=self.tokens, select=self.select, seed=seed)

    def prepare(self, model: LanguageModel, shape: Shape) -> None:
        super().prepare(model, shape)
        chosen = self.select.layer_ids(shape.layers)
        if self.seed is not None:
            drawn = np.random.default_rng([self.seed, len(chosen)]).permutation(shape.layers)[: len(chosen)]
            chosen = tuple(sorted(int(layer) for layer in drawn))
            self.select = replace(self.select, layers=list(chosen))
        self._layers = frozenset(chosen)
        self._costs, self._steps = (*_costs(model), shape.layers), shape.steps
        self._kept.clear()
        self._run = None

    def numbers(self) -> dict[str, float]:
        """ "saved": the share of a pass's multiplications that a server would not do, mean over all steps."""
        return {"saved": float(np.mean(self._saved))} if self._saved else {}

    def takes_part(self, layer: Layer, max_steps: int) -> bool:
        return True  # a step that is not edited may still be the one whose keys are kept

    def begin_layer(self, layer: Layer) -> None:
        position = position_of(layer)
        if layer.state.offset or layer.state.keep:
            raise FloatlensError(f"{self!r}: it stands for a cache, so decode without one: use_cache=False")
        if position.run is not self._run:
            self._run = position.run
            self._kept.clear()
        kept = self._kept.get(layer.index)
        edited = self.select.has_step(position.step, self._steps)
        if kept is None or position.step - kept.step >= self.refresh or not edited:
            keys = self._keys(layer).to(layer.key.device)
            self._kept[layer.index] = _Kept(position.step, layer.key.clone(), layer.value.clone(), keys)
            self._count(layer, None)
            return
        known = kept.key.shape[2]
        at = kept.keys[:, None, :, None]
        layer.key[:, :, :known] = torch.where(at, kept.key, layer.key[:, :, :known])
        layer.value[:, :, :known] = torch.where(at, kept.value, layer.value[:, :, :known])
        self._count(layer, kept)

    def _keys(self, layer: Layer) -> Tensor:
        """(batch, key) bool: the positions that are kept."""
        position = position_of(layer)
        if position.run.written is None or self.tokens == "all":
            return torch.from_numpy(position.real)
        if self.tokens == "known":
            return torch.from_numpy(position.real & ~layer.state.masked)
        written = np.ones_like(position.real)
        width = min(written.shape[1], position.run.written.shape[1])
        written[:, :width] = position.run.written[:, :width]
        return torch.from_numpy(position.real & ~written)

    def _count(self, layer: Layer, kept: _Kept | None) -> None:
        """Once per step, in the first edited layer: what a server would save in this pass."""
        if layer.index != min(self._layers):
            return
        if kept is None:
            self._saved.append(0.0)
            return
        real = position_of(layer).real
        stale = kept.keys.cpu().numpy()
        share = float(stale.sum() / max(1, real.sum()))
        row, key, layers = self._costs
        self._saved.append(share * saved_share(self._layers, layers, row, key))


def saved_share(stale: Collection[int], layers: int, row: float, key: float) -> float:
    """The share of a token's multiplications that are saved where its keys and values are stale in some layers.

    `row` and `key` are the costs of a layer for a token: its whole row (query, attention, output, MLP), and its key and
    value. A row is needed up to the deepest layer whose keys are fresh, since its state enters that layer.

    Example: `saved_share({0, 1, 2, 3}, 4, row=3.0, key=1.0)  # 1.0: the token is not computed at all`
    """
    fresh = [layer for layer in range(layers) if layer not in stale]
    deepest = max(fresh, default=-1)
    done = sum(row for layer in range(layers) if layer < deepest) + key * len(fresh)
    return 1 - done / (layers * (row + key))


def _costs(model: LanguageModel) -> tuple[float, float]:
    """Multiplications per token in a layer, without those that grow with the length: its row, and its key and value."""
    layers = layers_of(model.module).values()
    sizes = [sum(part.numel() for part in layer.parameters() if part.ndim >= 2) for layer in layers]
    config = model.module.config
    width = int(config.hidden_size)
    head = int(getattr(config, "head_dim", None) or width // model.num_heads)
    key = 2.0 * width * head * model.num_kv_heads
    return max(1.0, float(np.mean(sizes)) - key), key
