"""What a key/value cache would keep (methods §16): how much keys, values and states change from one step to the next,
how the column of the most attended key drifts, how many keys hold a row, and the mass on masks ahead of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from floatlens.attention.blocks import Block
from floatlens.attention.probe import Layer, Mean, Need
from floatlens.attention.variable import Variable
from floatlens.core.errors import FloatlensError
from floatlens.probes.row_sample import RowSample
from floatlens.probes.shares import DISTANCES, SHARES

__all__ = ["Cacheability", "keys_holding", "mass_ahead"]

_BY_KEY = ("step", "layer", "key")
_BY_HEAD = ("step", "layer", "head")
_CHUNK = 512  # rows of a column at once
_ROUNDING = 1e-5


@dataclass
class _Before:
    """A layer in the pass before: tensors (batch, key, width), and the column of its most attended key."""

    key: Tensor
    value: Tensor
    state: Tensor
    top: Tensor
    column: Tensor
    masked: Tensor


class Cacheability(RowSample):
    """Per step and layer. Cosines compare a position with itself in the step before; they are missing in the first
    step, for positions that did not exist then, and 1 for keys that a cache holds. Rows are those of tokens still to be
    written, at most `rows` of a pass. At most `max_bytes` of states are kept from one step to the next.
    """

    name = "cacheability"
    variables = (
        Variable("key_reuse", _BY_KEY, "replace", "cosine of a position's key with that of the step before"),
        Variable("value_reuse", _BY_KEY, "replace", "the same for its value"),
        Variable("state_reuse", _BY_KEY, "replace", "the same for the state that enters the layer"),
        Variable(
            "top_reuse",
            ("step", "layer"),
            "replace",
            "cosine, between two steps, of the attention that masked rows give to the key most attended in the first",
        ),
        *(
            Variable(f"keys_{share * 100:.0f}", _BY_HEAD, "replace", f"fewest keys with {share:.0%} of a row, mean")
            for share in SHARES
        ),
        Variable(
            "mass_ahead", ("step", "layer", "distance"), "replace", "mass on masked positions ahead, by distance class"
        ),
    )
    needs: ClassVar[frozenset[Need]] = frozenset({"residual"})

    def __init__(self, rows: int = 24, max_bytes: int = 4 << 30) -> None:
        super().__init__(rows)
        self.max_bytes = max_bytes
        self._layers = 1
        self._before: dict[int, _Before] = {}
        self._states: dict[int, Tensor] = {}  # of the last pass, also where it only filled the cache
        self._norm = self._mass = torch.empty(0)

    def prepare(self, shape: Any) -> None:
        self._before.clear()
        self._states.clear()
        self._layers = shape.layers

    def begin(self, layer: Layer) -> None:
        super().begin(layer)
        self._norm = torch.empty(layer.query.shape[:3], device=layer.query.device)
        self._mass = torch.zeros(layer.query.shape[0], layer.key.shape[2], device=layer.query.device)

    def block(self, layer: Layer, block: Block) -> None:
        super().block(layer, block)
        assert block.top is not None
        self._norm[block.batch, block.heads, block.queries] = block.top - block.inverse.log()
        masked = torch.from_numpy(layer.state.masked[block.batch, block.queries]).to(block.exp.device)
        if masked.any():
            weight = block.inverse * masked[:, None]
            self._mass[block.batch, : block.keys] += (weight.unsqueeze(2) @ block.exp).squeeze(2).sum(1)

    def layer(self, layer: Layer) -> Mapping[str, Tensor | Mean]:
        now, before = self._now(layer), self._before.get(layer.index) if layer.state.step else None
        self._states[layer.index] = now.state
        if layer.state.is_step:
            self._before[layer.index] = now
        rows = torch.from_numpy(self.chosen + layer.state.offset).to(self.taken.device)
        ahead = torch.zeros(layer.key.shape[0], layer.key.shape[2], dtype=torch.bool, device=rows.device)
        ahead[:, layer.state.offset :] = torch.from_numpy(layer.state.masked).to(rows.device)
        real = torch.from_numpy(layer.state.key_region >= 0).to(rows.device)
        return {
            "key_reuse": _reuse(now.key, None if before is None else before.key, real),
            "value_reuse": _reuse(now.value, None if before is None else before.value, real),
            "state_reuse": _reuse(now.state, None if before is None else before.state, real),
            "top_reuse": self._drift(layer, now, before),
            "mass_ahead": mass_ahead(self.taken, rows, ahead),
            **{f"keys_{share * 100:.0f}": keys_holding(self.taken, share) for share in SHARES},
        }

    def _now(self, layer: Layer) -> _Before:
        """What the next pass compares with."""
        assert layer.residual is not None
        key, value = (part.detach().transpose(1, 2).flatten(2).clone() for part in (layer.key, layer.value))
        state, offset = layer.residual.detach().clone(), layer.state.offset
        if offset:
            held = self._states.get(layer.index)
            if held is None or held.shape[1] < offset:
                raise FloatlensError('probe "cacheability": the cache was filled before the capture began')
            state = torch.cat([held[:, :offset], state], dim=1)
        size = (key.numel() + value.numel() + state.numel()) * key.element_size() * self._layers
        if size > self.max_bytes:
            raise FloatlensError(
                f'probe "cacheability": keys, values and states of {key.shape[1]} tokens in {self._layers} layers take '
                f"{size / 2**20:.0f} MiB and max_bytes allows {self.max_bytes / 2**20:.0f}; use a shorter text or give "
                f"Cacheability(max_bytes=…)"
            )
        top = self._mass.argmax(-1)
        masked = torch.nn.functional.pad(torch.from_numpy(layer.state.masked), (offset, 0)).to(top.device)
        return _Before(key, value, state, top, self._column(layer, top), masked)

    def _column(self, layer: Layer, key: Tensor) -> Tensor:
        """(batch, position): the weight that each row gives to one key of its sample, mean over heads; 0 for rows of
        earlier passes."""
        batch, heads, queries, _ = layer.query.shape
        groups = heads // layer.key.shape[1]
        own = layer.key[torch.arange(batch, device=key.device), :, key].repeat_interleave(groups, 1)  # (batch, head, d)
        logits = (layer.query.float() * own.float().unsqueeze(2)).sum(-1) * layer.scaling
        if layer.softcap is not None:
            logits = (logits / layer.softcap).tanh() * layer.softcap
        found = (logits - self._norm).exp().mean(1)
        for start in range(0, queries, _CHUNK):
            stop = min(start + _CHUNK, queries)
            keys = layer.mask.key_stop(stop)
            seen = layer.mask.sees(start, stop, slice(0, batch), slice(0, 1), keys, key.device)[:, 0]
            at = key.clamp(max=keys - 1)[:, None, None].expand(-1, stop - start, -1)
            found[:, start:stop] *= seen.expand(batch, -1, -1).gather(-1, at)[..., 0] & (key < keys)[:, None]
        return torch.nn.functional.pad(found, (layer.state.offset, 0))

    def _drift(self, layer: Layer, now: _Before, before: _Before | None) -> Tensor:
        """(batch,): cosine of the column of the key that was most attended before, over rows masked in both steps."""
        if before is None:
            return torch.full((len(layer.query),), torch.nan)
        known = min(before.masked.shape[1], now.masked.shape[1])
        rows = before.masked[:, :known] & now.masked[:, :known]
        first, second = before.column[:, :known] * rows, self._column(layer, before.top)[:, :known] * rows
        lengths = torch.linalg.vector_norm(first, dim=-1) * torch.linalg.vector_norm(second, dim=-1)
        cosine = (first * second).sum(-1) / lengths
        return torch.where(rows.any(-1) & (lengths > 0), cosine, torch.nan)


def _reuse(now: Tensor, before: Tensor | None, real: Tensor) -> Tensor:
    """(batch, key): cosine of each position's numbers (batch, key, width) with those of the step before."""
    found = torch.full(now.shape[:2], torch.nan, device=now.device)
    if before is None or before.shape[0] != now.shape[0]:
        return found
    known = min(before.shape[1], now.shape[1])
    both = torch.nn.functional.cosine_similarity(now[:, :known].double(), before[:, :known].double(), dim=-1)
    found[:, :known] = torch.where(real[:, :known], both, torch.nan).float()
    return found


def keys_holding(weights: Tensor, share: float) -> Tensor:
    """(batch, head): the smallest number of keys that hold this share of a row (batch, head, row, key), mean over rows.

    Example: `keys_holding(torch.tensor([[[[0.5, 0.3, 0.2]]]]), 0.75)  # 2`
    """
    if not weights.shape[2]:
        return torch.full(weights.shape[:2], torch.nan)
    held = weights.double().sort(dim=-1, descending=True).values.cumsum(-1)
    return ((held < share * held[..., -1:] - _ROUNDING).sum(-1) + 1).double().mean(-1).float()


def mass_ahead(weights: Tensor, rows: Tensor, masked: Tensor) -> Tensor:
    """(batch, distance): mass of rows (batch, head, row, key) at positions `rows` (row,) on masked keys (batch, key)
    after them, by class of distance; mean over heads and rows.

    Example: `mass_ahead(torch.tensor([[[[0.5, 0.3, 0.2]]]]), torch.tensor([0]), torch.ones(1, 3, dtype=torch.bool))`
    """
    if not weights.shape[2]:
        return torch.full((len(weights), len(DISTANCES)), torch.nan)
    apart = torch.arange(weights.shape[-1], device=weights.device) - rows[:, None]  # (row, key)
    mean = weights.double().mean(1) * masked[:, None]
    ends = (*DISTANCES[1:], torch.iinfo(apart.dtype).max)
    classes = [(apart >= first) & (apart < last) for first, last in zip(DISTANCES, ends, strict=True)]
    return torch.stack([(mean * one).sum(-1).mean(-1) for one in classes], dim=-1).float()
