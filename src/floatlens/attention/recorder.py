"""The recorder stores the results of the probes, pass by pass, and combines cached passes with earlier ones.

Finished steps stay in memory up to a budget and go to a temporary file beyond it, so memory does not grow with the
number of steps.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from floatlens.attention.backend import Backend
from floatlens.attention.host import to_host
from floatlens.attention.mixing import MixerLayer
from floatlens.attention.probe import Layer, Layout, Mean, PassState, Probe
from floatlens.attention.select import Select
from floatlens.attention.variable import Variable
from floatlens.core.errors import FloatlensError
from floatlens.models.base import LanguageModel, Pass

__all__ = ["Committed", "Recorder", "StepStore"]

Array = NDArray[Any]


class StepStore:
    """Arrays of one variable, one per recorded pass; beyond `budget` bytes they are kept in a temporary file."""

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._held: list[Array] = []
        self._file: IO[bytes] | None = None
        self._count = 0
        self._shape: tuple[int, ...] = ()
        self._dtype: np.dtype[Any] = np.dtype("float32")

    def __len__(self) -> int:
        return self._count

    def append(self, array: Array) -> None:
        if self._count and array.shape != self._shape:
            raise FloatlensError(
                f"passes of one capture differ in size, {self._shape} and {array.shape}; give capture(length=…) the "
                f"longest of them, and every pass the same number of samples"
            )
        self._count += 1
        self._shape, self._dtype = array.shape, array.dtype
        if self._file is None and array.nbytes * self._count <= self._budget:
            self._held.append(array)
            return
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="floatlens-")  # noqa: SIM115 (lives as long as the arrays)
        for item in (*self._held, array):
            self._file.write(np.ascontiguousarray(item).data)
        self._held.clear()

    def stack(self) -> Array:
        """All arrays, (pass, …): in memory, or memory-mapped from the file."""
        if self._file is None:
            return np.stack(self._held)
        self._file.flush()
        return np.memmap(self._file, dtype=self._dtype, mode="r", shape=(self._count, *self._shape))


@dataclass(frozen=True)
class Committed:
    """A token that a pass decided, with what probes say about its deciding row: variable name → (layer, …)."""

    sample: int
    step: int
    position: int
    row: int
    token: int
    confidence: float
    found: Mapping[str, Array]
    probability: float | None = None
    """Of a forced token: its probability in the softmax of the model's logits."""


@dataclass
class Recorder:
    """The results of a capture. `variables` maps names to one array per recorded pass, (batch, layer, …)."""

    model: LanguageModel
    probes: Sequence[Probe]
    layout: Layout | None
    select: Select
    max_steps: int
    length: int | None = None
    mean_heads: bool = False
    spill_bytes: int = 1 << 20
    """Of all variables together; what is more goes to temporary files, step by step."""
    passes: int = 0
    steps: list[int] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    blocks: list[NDArray[np.int64] | None] = field(default_factory=list)
    """Of each recorded pass: the block number of each key (batch, key), where its mask goes by blocks."""
    committed: list[Committed] = field(default_factory=list)
    variables: dict[str, StepStore] = field(default_factory=dict)
    edits: tuple[object, ...] = ()
    """The active edits, including those of an `edit` context."""
    backend: Backend | None = None
    """How layers are captured, and which way each of them went."""

    def __post_init__(self) -> None:
        self.layers = self.select.layer_ids(self.model.num_layers)
        self.heads = self.select.head_ids(self.model.num_heads)
        self.select.has_step(0, self.max_steps)  # reports a step out of range before the first pass
        self.specs = {v.name: v for probe in self.probes for v in probe.variables}
        self._per_token = [p for p in self.probes if any(v.dims[0] == "token" for v in p.variables)]
        self._running: dict[tuple[str, int], tuple[Tensor, Tensor | None]] = {}  # sums and weights over cached passes
        self._current: dict[str, Tensor] = {}  # of the pass, (batch, layer, …), on the device
        self._picks: dict[torch.device, Tensor] = {}  # the selected heads, by device
        self._state: PassState | None = None
        per_step = [v for v in self.specs.values() if v.dims[0] == "step"]
        share = self.spill_bytes // max(1, len(per_step))
        self.variables = {v.name: StepStore(share) for v in per_step}

    def open_pass(self, model: LanguageModel, info: Pass) -> PassState:
        """Describe the pass that is about to run."""
        ids = info.ids.cpu().numpy().astype(np.int64)
        batch, queries = ids.shape
        keys = info.offset + queries
        real = np.ones((batch, keys), dtype=bool)
        if info.attention_mask is not None:
            real = info.attention_mask.cpu().numpy().astype(bool)[:, :keys]
        if info.offset == 0:
            self._running.clear()
        layout = self.layout or Layout(("question",), np.zeros((batch, keys), dtype=np.int64))
        span = slice(info.offset, keys)
        evidence = None if layout.evidence is None else layout.evidence[:, :keys]
        masked = (ids == model.mask_id) & real[:, span] if model.kind == "mdm" else np.zeros_like(ids, dtype=bool)
        self._state = PassState(
            step=self.passes,
            ids=ids,
            offset=info.offset,
            masked=masked,
            region_of=layout.region_of[:, span],
            key_region=np.where(real, layout.region_of[:, :keys], -1),
            layout=layout,
            shift=model.shift,
            real=real[:, span],
            evidence=evidence,
            needed=None if info.needed is None else info.needed.cpu().numpy(),
            causal=model.kind == "arm",
            asked=None if info.asked is None else info.asked.cpu().numpy(),
            keep=info.keep,
            is_step=info.step,
            blocks=None if info.visible is None else info.visible.numbers(),
        )
        self._current = {}
        return self._state

    def close_pass(self) -> None:
        """Store the results of the pass if its step was selected; one that only fills the cache is no step."""
        assert self._state is not None
        if not self._state.is_step:
            return
        if self.files(self._state.step):
            self.steps.append(self._state.step)
            self.blocks.append(None if (now := self._state.blocks) is None else now.astype(np.int32))
            self.lengths.append(self._state.offset + self._state.queries)
        if self.model.kind == "arm" or self._state.keep or self.files(self._state.step):
            self._fetch(self._current if self.files(self._state.step) else {})
        self._current = {}
        self.passes += 1

    def _fetch(self, filed: Mapping[str, Tensor]) -> None:
        """What the step found, to the host in one copy: variables that are filed, and what probes keep."""
        wanted: dict[tuple[int, Any], Tensor] = {(-1, name): one for name, one in filed.items()}
        wanted |= {(i, name): one for i, probe in enumerate(self.probes) for name, one in probe.kept().items()}
        arrays = to_host(wanted)
        for name in filed:
            self.variables[name].append(arrays[-1, name])
        for i, probe in enumerate(self.probes):
            probe.fetched({name: array for (whose, name), array in arrays.items() if whose == i})

    def files(self, step: int) -> bool:
        """Whether a step was selected."""
        return self.select.has_step(step, self.max_steps)

    def wants(self, layer: Layer | MixerLayer) -> bool:
        """Selected layers are observed in selected steps; with a cache in every step, as later ones build on it."""
        cached = self.model.kind == "arm" or layer.state.keep
        return layer.index in self.layers and (cached or self.files(layer.state.step)) and bool(self.probes)

    def take(self, probe: Probe, layer: Layer | MixerLayer) -> None:
        """Take the probe's variables of this layer."""
        found = probe.layer(layer) if isinstance(layer, Layer) else probe.mixer(layer)
        for name, value in found.items():
            spec = self._declared(probe, name, value)
            done = self._fit(spec, self._merge(spec, layer, value))
            if name not in self._current:
                shape = (done.shape[0], len(self.layers), *done.shape[1:])
                kind, blank = getattr(torch, spec.dtype), float("nan") if spec.dtype.startswith("float") else -1
                self._current[name] = torch.full(shape, blank, dtype=kind, device=done.device)
            self._current[name][:, self.layers.index(layer.index)] = done

    def _fit(self, spec: Variable, value: Tensor) -> Tensor:
        """Keep the selected heads, or their mean, and pad to the final number of keys."""
        if "head" in spec.dims and len(self.heads) < value.shape[1]:
            if value.device not in self._picks:
                self._picks[value.device] = torch.tensor(self.heads, device=value.device)
            value = value.index_select(1, self._picks[value.device])
        if self.mean_heads and ("head" in spec.dims or "kv_head" in spec.dims):
            value = value.mean(1)
        if self.length is not None and spec.dims[-1] in ("key", "query") and value.shape[-1] < self.length:
            value = torch.nn.functional.pad(value, (0, self.length - value.shape[-1]), value=float("nan"))
        return value

    def _declared(self, probe: Probe, name: str, value: Tensor | Mean) -> Variable:
        """The declaration of what a probe returned; an error where the two do not agree."""
        spec = self.specs.get(name)
        if spec is None:
            raise FloatlensError(
                f'probe "{probe.name}" returns "{name}" and does not declare it; add it to `variables`'
            )
        if isinstance(value, Mean) != (spec.merge == "mean"):
            wanted = "Mean(sum over queries, number of queries)" if spec.merge == "mean" else "a tensor"
            raise FloatlensError(f'probe "{probe.name}": {name} is declared as "{spec.merge}"; return {wanted} for it')
        found = (value.total if isinstance(value, Mean) else value).ndim
        if found != len(spec.dims) - 1:
            dims = ", ".join(("batch", *spec.dims[2:]))
            raise FloatlensError(f'probe "{probe.name}": {name} has {found} dimensions; expected ({dims})')
        return spec

    def _merge(self, spec: Variable, layer: Layer | MixerLayer, value: Tensor | Mean) -> Tensor:
        """Combine this pass with the cached ones before it (see `Variable.merge`)."""
        slot = (spec.name, layer.index)
        before, weights = self._running.get(slot, (None, None)) if layer.state.offset else (None, None)
        if isinstance(value, Mean):
            keyed = spec.dims[-1] == "key"
            total, weight = value.total, value.weight
            if before is not None and weights is not None:
                total = total + (_grow(before, total) if keyed else before)
                weight = weight + (_grow(weights, weight) if keyed and weight.shape[-1] > 1 else weights)
            if layer.state.keep:
                self._running[slot] = total, weight
            return total / weight
        if spec.merge == "append":
            value = value if before is None else torch.cat([before, value], dim=-1)
            if layer.state.keep:
                self._running[slot] = value, None
        return value

    def commit(self, step: Any) -> None:
        """Take the `Step` of the pass that has just ended: which rows decided which tokens."""
        state = self._state
        assert state is not None, "commit follows a pass"
        columns = [c.tolist() for c in (step.sample, step.position, step.row, step.token, step.confidence)]
        forced = step.probability
        columns.append([None] * len(columns[0]) if forced is None else forced.tolist())
        watched = self.model.kind == "arm" or self.files(state.step)
        for sample, position, row, token, confidence, probability in zip(*columns, strict=True):
            found = self._deciding_row(sample, row - state.offset) if watched else {}
            one = Committed(sample, state.step, position, row, token, confidence, found, probability)
            self.committed.append(one)
            for probe in self.probes:
                probe.committed(one)

    def _deciding_row(self, sample: int, row: int) -> dict[str, Array]:
        """What the probes say about a deciding row: variable name → (layer, …)."""
        found: dict[str, Array] = {}
        heads = list(self.heads)
        for probe in self._per_token:
            picked = [probe.deciding_row(layer, sample, row) for layer in self.layers]
            like = {name: value for layer in picked for name, value in layer.items()}
            for name, one in like.items():
                missing = np.full_like(one, np.nan if one.dtype.kind == "f" else -1)  # of layers without attention
                values = np.stack([layer.get(name, missing) for layer in picked]).astype(self.specs[name].dtype)
                found[name] = values[:, heads] if "head" in self.specs[name].dims else values
        return found

    def release(self) -> None:
        """Free what is needed only while passes run."""
        self._running.clear()


def _grow(old: Tensor, new: Tensor) -> Tensor:
    """Pad the last dimension of `old` with zeros to that of `new`: keys that did not exist yet received nothing."""
    return torch.nn.functional.pad(old, (0, new.shape[-1] - old.shape[-1]))
