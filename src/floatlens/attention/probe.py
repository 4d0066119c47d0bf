"""Probes reduce the attention of one layer in one pass to small arrays with named dimensions.

Here are their base classes and what they are shown: `Layer`, `PassState`, `Layout`. A probe declares the trace
variables that it writes. It changes nothing and knows nothing about models or decoding.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from floatlens.attention.blocks import Block
from floatlens.attention.host import moved
from floatlens.attention.mask import BlockMask
from floatlens.attention.run_tracker import PassPosition
from floatlens.attention.softmax import QueryClasses
from floatlens.attention.variable import Variable
from floatlens.models.readout import Readout

if TYPE_CHECKING:
    import xarray as xr

    from floatlens.attention.mixing import MixerLayer
    from floatlens.attention.recorder import Committed

__all__ = ["DecidingRows", "Layer", "Layout", "Mean", "Need", "PassState", "Probe", "Shape"]

Need = Literal["columns", "entropy", "residual", "output", "mixers"]


@dataclass(frozen=True)
class Mean:
    """A mean over queries as sum and weight, so cached passes can be added; `weight` broadcasts against `total`."""

    total: Tensor
    weight: Tensor


@dataclass(frozen=True)
class Layout:
    """The region of each position. Arrays are (batch, position); -1 in `region_of` marks padding."""

    regions: tuple[str, ...]
    region_of: NDArray[np.int64]
    evidence: NDArray[np.bool_] | None = None

    def index(self, region: str) -> int | None:
        return self.regions.index(region) if region in self.regions else None


@dataclass
class PassState:
    """The current forward pass: its step, its queries, and which of them are masked. Arrays are (batch, query)."""

    step: int
    ids: NDArray[np.int64]
    offset: int
    masked: NDArray[np.bool_]
    region_of: NDArray[np.int64]
    key_region: NDArray[np.int64]
    layout: Layout
    shift: bool
    real: NDArray[np.bool_]
    evidence: NDArray[np.bool_] | None
    needed: NDArray[np.bool_] | None = None
    """(query,): rows whose output is needed from the last layer, where not all are."""
    asked: NDArray[np.bool_] | None = None
    """(query,): rows whose logits are asked for, where not all are."""
    causal: bool = False
    keep: bool = False
    """Whether a cache holds the keys of this pass afterwards, so later passes continue it."""
    is_step: bool = True
    """False for a pass that only fills the cache."""
    blocks: NDArray[np.int64] | None = None
    """(batch, key): block numbers, where a query sees its own block and those before it."""
    position: PassPosition | None = None
    """The position of the pass in its decoding run; known only while edits are active."""

    @property
    def queries(self) -> int:
        return int(self.ids.shape[1])

    @cached_property
    def classes(self) -> QueryClasses:
        """Queries by region and by whether they are masked; each query group is a union of such classes."""
        of = np.where(self.real & (self.region_of >= 0), self.region_of * 2 + self.masked, -1)
        return QueryClasses(of, len(self.layout.regions))

    def placed(self, what: str, device: torch.device) -> Tensor:
        """An array of the pass ("key_member", "real", "evidence"; "counts", "by_region" of its classes) on a device, in
        float32. It is moved once per pass: every copy from the host makes it wait for the device."""
        held: dict[tuple[str, torch.device], Tensor] = self.__dict__.setdefault("_placed", {})
        if (what, device) not in held:
            given = getattr(self.classes if what in ("counts", "by_region") else self, what)
            tensor = given if isinstance(given, Tensor) else torch.from_numpy(np.asarray(given, dtype=np.float32))
            held[what, device] = moved(tensor, device)
        return held[what, device]

    @cached_property
    def key_member(self) -> NDArray[np.float32]:
        """(batch, key, region): 1 where a key belongs to a region."""
        regions = np.arange(len(self.layout.regions))
        return np.asarray(self.key_region[..., None] == regions, dtype=np.float32)

    @cached_property
    def last_rows(self) -> NDArray[np.int64]:
        """(batch,): the last real query of each sample; the last query where a sample has ended."""
        return np.asarray(self.queries - 1 - np.argmax(self.real[:, ::-1], axis=1), dtype=np.int64)

    @cached_property
    def answer_rows(self) -> NDArray[np.bool_]:
        """(batch, query), while edits are active: rows of the answer, and the rows that decide it.

        In a diffusion model the positions that the run began with as masks or appended later and, where logits are
        shifted, the position before each. In an autoregressive model the last row of the prompt and every row after it.
        """
        assert self.position is not None
        written = self.position.run.written
        if written is not None:
            later = ((0, 0), (0, max(0, self.offset + self.queries - written.shape[1])))
            written = np.pad(written, later, constant_values=True)
            rows = written.copy()
            if self.shift:
                rows[:, :-1] |= written[:, 1:]
            return np.asarray(rows & self.real)
        prompt = self.position.first_step == 0
        rows = self.real & ~prompt
        given = self.real & prompt
        last = given.shape[1] - 1 - np.argmax(given[:, ::-1], axis=1)
        rows[np.arange(len(rows)), last] |= given.any(1)
        return np.asarray(rows)

    def candidates(self) -> NDArray[np.int64]:
        """Rows whose logits can decide a token in this pass, as indices into its queries: those of masks, and others
        whose logits are asked for, as by samplers that replace tokens."""
        asked = np.zeros(self.queries, dtype=bool) if self.asked is None else self.asked
        if not self.masked.any():
            return np.union1d(self.last_rows, np.flatnonzero(asked))
        rows = np.flatnonzero(self.masked.any(0))
        if not self.shift:
            return np.union1d(rows, np.flatnonzero(asked))
        # a mask in the first position has no row before it and is decided by its own
        first = np.argmax(self.real, axis=1)
        own = first[self.masked[np.arange(len(first)), first]]
        return np.unique(np.concatenate([rows[rows > 0] - 1, own]))


@dataclass
class Layer:
    """One layer of one pass, as probes see it: rotated query, key and value, mask, and the requested reductions."""

    index: int
    query: Tensor
    key: Tensor
    value: Tensor
    mask: BlockMask
    scaling: float
    state: PassState
    columns: Tensor | None = None
    """(batch, head, class, key): attention received from each query class, summed over its queries."""
    entropy: Tensor | None = None
    residual: Tensor | None = None
    softcap: float | None = None
    module: nn.Module | None = None
    """The attention module, and `root` the whole model it belongs to."""
    root: nn.Module | None = None

    def add_columns(self, block: Block) -> None:
        """Add the block's column sums to those of its query classes."""
        if self.columns is None:
            batch, heads = self.query.shape[:2]
            size = (batch, heads, len(self.state.classes.present), self.key.shape[2])
            self.columns = torch.zeros(size, device=block.exp.device)
        span = self.state.classes.within(block.queries)
        if block.columns is not None:
            self.columns[block.batch, block.heads, span, : block.keys] += block.columns

    def sums(self, unions: Tensor) -> tuple[Tensor, Tensor]:
        """For unions of classes (union, class): sums (batch, union, head, key), query counts (batch, union)."""
        assert self.columns is not None
        here = moved(unions, self.columns.device)
        total = torch.matmul(here, self.columns).transpose(1, 2)
        return total, self.state.placed("counts", here.device) @ here.T


@dataclass(frozen=True)
class Shape:
    """The size of the capture, known before the first pass."""

    layers: int
    heads: int
    steps: int
    length: int
    readout: Callable[[], AbstractContextManager[Readout]] | None = None
    """Opens the way from states to logits (`floatlens.models.readout`)."""
    mask_id: int | None = None


class Probe:
    """Base class of all probes: a subclass sets `name` and `variables`, and implements the methods that fill them.

    `needs` asks for "columns" (sums per query class and key), "entropy" (of each row), "residual" (the state that
    enters the layer), "output" (the state that leaves it) or "mixers" (layers without attention). The registry
    `floatlens.probes.PROBES`, or the entry-point group "floatlens.probes", gives names.
    """

    name: ClassVar[str]
    variables: ClassVar[tuple[Variable, ...]]
    """What the probe writes into a trace; see `Variable` for which method fills which."""
    needs: ClassVar[frozenset[Need]] = frozenset()
    attention_only: ClassVar[bool] = True
    """Whether it has nothing to say of layers without attention."""
    batched: bool = False
    """Whether its variables of a prompt are the same alone and in a batch, padded on the left; prompts are traced one
    at a time where a probe does not say so."""
    holds_positions: ClassVar[tuple[str, ...]] = ()
    """Its variables of tokens whose values are positions."""

    def prepare(self, shape: Shape) -> None:
        """Before the first pass: check the size of what was asked for, and clear what an earlier capture left."""

    def begin(self, layer: Layer) -> None:
        """Before the layer's first block."""

    def block(self, layer: Layer, block: Block) -> None:
        """Each block of the layer; tensors are reused afterwards, so copy what is kept."""

    def reads_blocks(self, layer: Layer) -> bool:
        """Whether `block` has to be shown every row of this layer; if not, fused passes may replace the rows."""
        return type(self).block is not Probe.block

    def rows_wanted(self, layer: Layer) -> NDArray[np.int64] | None:
        """With fused passes: the rows of the layer that `block` is still shown, sorted. Asked after `begin`."""
        return None

    def averaged(self, layer: Layer) -> Tensor | None:
        """With fused passes: values (batch, n, key) whose mean under the attention of each query is wanted."""
        return None

    def averages(self, layer: Layer, found: Tensor) -> None:
        """With fused passes: the mean of `averaged` for each query, mean over heads, (batch, query, n)."""

    def key_weights(self, layer: Layer) -> Tensor | None:
        """With fused passes: w (batch, head, key), where column sums of A_ij / Σ_k A_ik w_k are wanted."""
        return None

    def weighed_columns(self, layer: Layer, columns: Tensor) -> None:
        """With fused passes: the sums for `key_weights`, (batch, head, class, key)."""

    def layer(self, layer: Layer) -> Mapping[str, Tensor | Mean]:
        """After the layer's last block: variables of this layer, (batch, then the dims after `layer`)."""
        return {}

    def begin_mixer(self, layer: MixerLayer) -> None:
        """Instead of `begin`, for a layer without attention; asked of probes that need "mixers"."""

    def mixer_block(self, layer: MixerLayer, rows: slice, shares: Tensor) -> None:
        """Instead of `block`: contributions (batch, row, key) to a block of rows; they sum to 1 over keys."""

    def mixer(self, layer: MixerLayer) -> Mapping[str, Tensor | Mean]:
        """Instead of `layer`, for a layer without attention."""
        return {}

    def output(self, layer: Layer, states: Tensor) -> None:
        """After a layer: the residual stream that leaves it, (batch, query, width)."""

    def kept(self) -> Mapping[Any, Tensor]:
        """After a step: tensors that the probe wants on the host, fetched with all others in one copy."""
        return {}

    def fetched(self, arrays: Mapping[Any, NDArray[Any]]) -> None:
        """The tensors of `kept`, on the host."""

    def deciding_row(self, layer: int, sample: int, row: int) -> Mapping[str, NDArray[np.generic]]:
        """After a pass, for each token committed: variables of the row (of the pass) that decided it."""
        return {}

    def committed(self, token: Committed) -> None:
        """After a pass, each token that it committed, whether its step is selected or not."""

    def finish(self, length: int) -> Mapping[str, xr.DataArray]:
        """After the last pass: variables of the whole run, with their coordinates; `length` is that of the sequence."""
        return {}


class DecidingRows(Probe):
    """Base class of probes that look at the rows whose logits decided a token (methods §6).

    A subclass implements `rows`; its variables have the dims (token, layer, head), or (token, layer, region) for a mean
    over heads. Which tokens a pass commits is known only after it, so statistics of all candidate rows are kept during
    the pass and picked on commit.
    """

    def __init__(self) -> None:
        self._rows: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self._found: dict[int, dict[str, Tensor]] = {}
        self._placed: tuple[PassState, Tensor] | None = None  # the rows of a pass, on the device
        self._host: Mapping[tuple[int, str], NDArray[np.generic]] = {}  # `_found` on the host, after the pass

    def rows(self, layer: Layer, block: Block, weights: Tensor) -> Mapping[str, Tensor]:
        """The variables (batch, head, row), or (batch, head, row, region), from weights (batch, head, row, key)."""
        raise NotImplementedError

    def prepare(self, shape: Shape) -> None:
        self._found.clear()

    def begin(self, layer: Layer) -> None:
        self.open(layer.index, layer.state, layer.query.shape[1], layer.query.device)

    def open(self, index: int, state: PassState, heads: int, device: torch.device) -> None:
        """Make room for the variables of a layer."""
        self._host = {}
        if self._placed is None or self._placed[0] is not state:
            self._rows = state.candidates()
            self._placed = state, moved(torch.from_numpy(self._rows), device)
        batch, rows = len(state.ids), len(self._rows)
        regions = len(state.layout.regions)
        self._found[index] = {
            one.name: torch.full(shape, blank, dtype=getattr(torch, one.dtype), device=device)
            for one in self.variables
            for shape, blank in [
                ((batch, heads, rows), float("nan") if one.dtype.startswith("float") else -1)
                if "head" in one.dims
                else ((batch, rows, regions), 0.0)  # a sum over blocks of heads
            ]
        }

    def reads_blocks(self, layer: Layer) -> bool:
        return type(self).block is not DecidingRows.block

    def rows_wanted(self, layer: Layer) -> NDArray[np.int64] | None:
        return self._rows

    def inside(self, span: slice, device: torch.device) -> tuple[Tensor, slice]:
        """Which of the candidate rows are in a block: places in it, and their range among the candidates."""
        first, last = np.searchsorted(self._rows, (span.start, span.stop)).tolist()
        assert self._placed is not None
        return moved(self._placed[1][first:last] - span.start, device), slice(first, last)

    def hold(self, index: int, batch: slice, heads: slice, where: slice, found: Mapping[str, Tensor], of: int) -> None:
        """Keep variables of rows; those without heads are a mean over `of` heads."""
        for name, values in found.items():
            held = self._found[index][name]
            if values.ndim == 3:
                held[batch, heads, where] = values.to(held.dtype)
            else:
                held[batch, where] += values.sum(1) / of

    def block(self, layer: Layer, block: Block) -> None:
        rows, where = self.inside(block.queries, block.exp.device)
        if len(rows):
            found = self.rows(layer, block, block.weights(rows))
            self.hold(layer.index, block.batch, block.heads, where, found, layer.query.shape[1])

    def kept(self) -> Mapping[Any, Tensor]:
        return {(layer, name): one for layer, held in self._found.items() for name, one in held.items()}

    def fetched(self, arrays: Mapping[Any, NDArray[Any]]) -> None:
        self._host = arrays

    def deciding_row(self, layer: int, sample: int, row: int) -> Mapping[str, NDArray[np.generic]]:
        if layer not in self._found:  # it has no attention
            return {}
        at = int(np.searchsorted(self._rows, row))
        if at >= len(self._rows) or self._rows[at] != row:
            raise AssertionError(f"row {row} was no candidate of this pass")
        names = {one.name for one in self.variables if "head" in one.dims}
        return {
            name: self._host[layer, name][sample, :, at] if name in names else self._host[layer, name][sample, at]
            for name in self._found[layer]
        }
