"""What each position adds to the output of a layer without attention (methods §15): Mamba, Mamba-2, short convolutions.

Terms are computed for a block of rows at a time. Positions are those of the scan or convolution; the short convolution
inside a Mamba mixer, before its scan, is not unfolded. No (query, key, channel) array outlives its block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from floatlens.core.errors import FloatlensError

if TYPE_CHECKING:
    from floatlens.attention.probe import PassState
    from floatlens.models.base import LanguageModel
    from floatlens.models.bimamba import Scan

__all__ = [
    "BothWays",
    "ConvTerms",
    "HeadScanTerms",
    "InputChange",
    "MixerLayer",
    "ScanTerms",
    "Strands",
    "Terms",
    "Written",
    "change_inputs",
    "inner_mixers",
    "mixers_of",
    "reach_by_layer",
    "release_mixers",
    "terms_of",
    "written_of",
]

Written = tuple[Tensor, ...]

_ROWS = 16
"""Rows of a block at most: pairs of rows inside a block are computed one state at a time."""


class Terms:
    """The terms of one layer in one pass. Their sum over keys is the layer's output, but for a bias."""

    positions: int
    size: int
    """Numbers that a (row, key) pair needs while it is computed."""
    device: torch.device

    def rows(self, start: int, stop: int) -> Tensor:
        """(batch, row, key, width): what each key adds to the output at rows `start` to `stop`."""
        raise NotImplementedError

    def norms(self, start: int, stop: int) -> Tensor:
        """(batch, row, key): the length of each term."""
        norms: Tensor = torch.linalg.vector_norm(self.rows(start, stop), dim=-1)
        return norms


@dataclass
class ScanTerms(Terms):
    """A selective scan (Mamba) from the left, with its gate and skip; `weight` (width, channel) projects the output."""

    scan: Scan
    weight: Tensor

    def __post_init__(self) -> None:
        self.positions, self.size = self.scan.inputs.shape[1], self.scan.inputs.shape[2]
        self.device = self.scan.inputs.device
        self._time = self.scan.delta.double().cumsum(1)  # differences of float32 sums would lose what is compared

    def channels(self, start: int, stop: int) -> Tensor:
        """(batch, channel, row, key): Σ_n C_i[n] exp(A[n] Σ_{j<k≤i} Δ_k) Δ_j B_j[n], for keys before `stop`."""
        scan, inside = self.scan, self._block(start, stop)
        if not start:
            return inside
        edge = self._time[:, start - 1 : start]
        later = self._decayed(self._time[:, start:stop] - edge) * scan.after[:, start:stop, None]
        before = scan.delta[:, :start, :, None] * scan.before[:, :start, None]
        earlier = self._decayed(edge - self._time[:, :start]) * before
        across = later.transpose(1, 2) @ earlier.permute(0, 2, 3, 1)  # both factors are at most 1: nothing overflows
        return torch.cat([across, inside], dim=-1)

    def _block(self, start: int, stop: int) -> Tensor:
        """(batch, channel, row, row): the same between the rows of a block, by the recurrence."""
        scan, inside = self.scan, slice(start, stop)
        fading, held = (
            self._decayed(scan.delta[:, inside]),
            scan.delta[:, inside, :, None] * scan.before[:, inside, None],
        )
        found = held.new_zeros(len(held), held.shape[2], stop - start, stop - start)
        for row in range(stop - start):
            held[:, :row] *= fading[:, row, None]
            read = held[:, : row + 1] @ scan.after[:, start + row, None, :, None]  # (batch, key, channel, 1)
            found[:, :, row, : row + 1] = read[..., 0].transpose(1, 2)
        return found

    def _decayed(self, time: Tensor) -> Tensor:
        return (time.float()[..., None] * self.scan.decay).exp()

    def rows(self, start: int, stop: int) -> Tensor:
        scan, found = self.scan, self.channels(start, stop)
        own = torch.arange(stop - start, device=found.device)
        found = found * scan.inputs[:, :stop].transpose(1, 2)[:, :, None]
        found[:, :, own, own + start] += scan.own[:, start:stop].transpose(1, 2)
        found = found * scan.gate[:, start:stop].transpose(1, 2)[..., None]
        return torch.einsum("bcij,wc->bijw", found, self.weight)


@dataclass
class HeadScanTerms(Terms):
    """A scan with one decay per head (Mamba-2): M = L ∘ (C Bᵀ), inputs Δ_j x_j.

    `inputs` are (batch, position, head, dim), `delta` (batch, position, head), `before` and `after` (batch, position,
    state), `decay` and `skip` (head,). `scale` (batch, position, head × dim) is what multiplies a row before `weight`.
    """

    inputs: Tensor
    delta: Tensor
    before: Tensor
    after: Tensor
    decay: Tensor
    skip: Tensor
    scale: Tensor
    weight: Tensor

    def __post_init__(self) -> None:
        self.positions, self.size = self.inputs.shape[1], self.inputs.shape[2] * self.inputs.shape[3]
        self.device = self.inputs.device
        self._time = self.delta.double().cumsum(1)

    def rows(self, start: int, stop: int) -> Tensor:
        apart = (self._time[:, start:stop, None] - self._time[:, None, :stop]).clamp(min=0).float()
        read = self.after[:, start:stop] @ self.before[:, :stop].transpose(1, 2)
        mix = (apart * self.decay).exp() * read[..., None] * self.delta[:, None, :stop]  # (batch, row, key, head)
        mix = mix.permute(0, 3, 1, 2).tril(start)
        own = torch.arange(stop - start, device=mix.device)
        mix[:, :, own, own + start] += self.skip[:, None]
        found = (mix.permute(0, 2, 3, 1)[..., None] * self.inputs[:, None, :stop]).flatten(3)
        return (found * self.scale[:, start:stop, None]) @ self.weight.T


@dataclass
class BothWays(Terms):
    """A mixer from the left plus one from the right; a position's own terms of both directions are added."""

    forward: Terms
    reverse: Terms

    def __post_init__(self) -> None:
        self.positions, self.size, self.device = self.forward.positions, self.forward.size, self.forward.device

    def rows(self, start: int, stop: int) -> Tensor:
        left = self.forward.rows(start, stop)
        right = self.reverse.rows(self.positions - stop, self.positions - start).flip(1, 2)
        found = left.new_zeros(*left.shape[:2], self.positions, left.shape[3])
        found[:, :, :stop] = left
        found[:, :, start:] += right
        return found


@dataclass
class Strands(Terms):
    """Two mixers over the two halves of the channels, of which the second reads positions and channels reversed."""

    own: Terms
    other: Terms

    def __post_init__(self) -> None:
        self.positions, self.size, self.device = self.own.positions, 2 * self.own.size, self.own.device

    def rows(self, start: int, stop: int) -> Tensor:
        turned = self.other.rows(self.positions - stop, self.positions - start).flip(1, 2, 3)
        return torch.cat([self.own.rows(start, stop), turned], dim=-1)


@dataclass
class ConvTerms(Terms):
    """A gated short convolution: gate_i ∘ taps_{j−i} ∘ inputs_j, projected by `weight` (width, channel).

    `inputs` and `gate` are (batch, position, channel), `taps` (channel, tap); a row sees `back` positions before it.
    """

    inputs: Tensor
    gate: Tensor
    taps: Tensor
    weight: Tensor
    back: int

    def __post_init__(self) -> None:
        self.positions, self.size, self.device = self.inputs.shape[1], self.taps.shape[1], self.inputs.device

    def _taps(self, start: int, stop: int) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Of each tap: rows of the block, their keys, and the terms (batch, row, width)."""
        for tap in range(self.taps.shape[1]):
            rows = torch.arange(start, stop, device=self.inputs.device)
            keys = rows + tap - self.back
            kept = (keys >= 0) & (keys < self.positions)
            rows, keys = rows[kept], keys[kept]
            yield rows - start, keys, (self.gate[:, rows] * self.taps[:, tap] * self.inputs[:, keys]) @ self.weight.T

    def rows(self, start: int, stop: int) -> Tensor:
        shape = (len(self.inputs), stop - start, self.positions, self.weight.shape[0])
        found = torch.zeros(shape, device=self.inputs.device)
        for rows, keys, terms in self._taps(start, stop):
            found[:, rows, keys] = terms
        return found

    def norms(self, start: int, stop: int) -> Tensor:
        found = torch.zeros(len(self.inputs), stop - start, self.positions, device=self.inputs.device)
        for rows, keys, terms in self._taps(start, stop):
            found[:, rows, keys] = torch.linalg.vector_norm(terms, dim=-1)
        return found


@dataclass(frozen=True)
class InputChange:
    """What an edit does to the inputs of a layer without attention. Arrays are (batch, position).

    `kept` is what is left of each input, 0 to 1. At the positions `held` the layer writes what is in `written` instead
    of its own: for each of `inner_mixers` the tensors of `written_of`, as they were in an earlier pass.
    """

    kept: Tensor | None = None
    held: Tensor | None = None
    written: Sequence[Written] = ()


@dataclass
class MixerLayer:
    """One layer without attention in one pass, as probes and edits see it; it counts as one map for all `heads`.

    Probes are shown it after all edits, edits before any. Its terms are computed when they are first asked for.
    """

    index: int
    state: PassState
    find: Callable[[], Terms]
    heads: int
    block_bytes: int = 8 << 20
    zeroed: bool = False
    """Whether an edit replaces its output by zeros: then no key contributes."""

    @cached_property
    def terms(self) -> Terms:
        return self.find()

    @cached_property
    def received(self) -> Tensor:
        """(batch, key): the mean contribution of each key to the real rows; sums to 1."""
        real = self.state.placed("real", self.terms.device)
        total = torch.zeros(len(real), self.terms.positions, device=real.device)
        for rows, shares in self.blocks():
            total += (real[:, None, rows] @ shares)[:, 0]
        return total / real.sum(1, keepdim=True).clamp(min=1)

    def blocks(self) -> Iterator[tuple[slice, Tensor]]:
        """Rows, and their contributions (batch, row, key) that sum to 1 over keys (0 for padding, and where the output
        is zero)."""
        length, batch = self.terms.positions, len(self.state.ids)
        rows = max(1, min(_ROWS, self.block_bytes // (4 * batch * length * self.terms.size)))
        for start in range(0, length, rows):
            stop = min(start + rows, length)
            norms = self.terms.norms(start, stop)
            norms = torch.zeros_like(norms) if self.zeroed else norms
            total = norms.sum(-1, keepdim=True)
            yield slice(start, stop), norms / total.clamp(min=torch.finfo(torch.float32).tiny)


def mixers_of(root: nn.Module) -> list[nn.Module]:
    """The mixers without attention whose terms are known, from outside in."""
    if _kind(root) is not None:
        return [root]
    return [found for child in root.children() for found in mixers_of(child)]


def _kind(module: nn.Module) -> str | None:
    names = {one.__name__ for one in type(module).__mro__}
    known = ("StrandsMixer", "BiMamba", "CentredShortConv", "Lfm2ShortConv")
    return next((name for name in known if name in names), None)


def inner_mixers(module: Any, turned: bool = False) -> list[tuple[Any, bool]]:
    """The scans and convolutions of a mixer that can leave out inputs, and whether each reads from the end."""
    kind = _kind(module)
    if kind == "BiMamba":
        return [(module.mamba_fwd, turned), (module.mamba_rev, not turned)]
    if kind == "CentredShortConv":
        return [(module, turned)]
    raise FloatlensError(f"{type(module).__name__}: edits of the inputs of this kind of layer are not supported")


def written_of(terms: Terms) -> list[Written]:
    """What each of the `inner_mixers` writes at each position, in the order in which it reads them."""
    if isinstance(terms, BothWays):
        return [*written_of(terms.forward), *written_of(terms.reverse)]
    if isinstance(terms, ScanTerms):
        return [terms.scan.written]
    if isinstance(terms, ConvTerms):
        return [(terms.inputs,)]
    raise FloatlensError(f"{type(terms).__name__}: what positions write in this kind of layer is not known")


def change_inputs(module: nn.Module, changes: Sequence[InputChange], device: torch.device) -> None:
    """Let a mixer run with other inputs, until `release_mixers`. Of two that hold a position, the later counts."""
    parts: list[tuple[Any, bool]] = inner_mixers(module) if changes else []
    for number, (part, turned) in enumerate(parts):

        def placed(mask: Tensor, turned: bool = turned) -> Tensor:
            return (mask.flip(1) if turned else mask).to(device)

        for one in changes:
            if one.kept is not None:
                part.kept = placed(one.kept) if part.kept is None else part.kept * placed(one.kept)
            if one.held is None:
                continue
            at, written = placed(one.held), one.written[number]
            if part.held is not None:
                before, earlier = part.held
                pairs = zip(written, earlier, strict=True)
                written = tuple(torch.where(at[..., None], new, old) for new, old in pairs)
                at = at | before
            part.held = at, written


def release_mixers(module: nn.Module) -> None:
    """Every position adds its own input again."""
    for part in module.modules():
        for name in ("kept", "held"):
            if getattr(part, name, None) is not None:
                setattr(part, name, None)


def reach_of(module: Any) -> str | list[int]:
    """What a row of a mixer sees: "all" positions, or so many [before, after] itself."""
    kind = _kind(module)
    if kind not in ("CentredShortConv", "Lfm2ShortConv"):
        return "all"
    size = int(module.conv.weight.shape[-1])
    return [size // 2, size - 1 - size // 2] if kind == "CentredShortConv" else [size - 1, 0]


def reach_by_layer(model: LanguageModel) -> list[str | list[int]]:
    """For each layer "mask" where it has attention, otherwise its reach; "unknown" for other kinds of layers."""
    of: dict[Any, str | list[int]] = {getattr(one, "layer_idx", None): reach_of(one) for one in mixers_of(model.module)}
    own = model.attention_layers
    return ["mask" if layer in own else of.get(layer, "unknown") for layer in range(model.num_layers)]


def terms_of(module: Any, states: Tensor, mask: Tensor | None) -> Terms:
    """The terms of a mixer for states (batch, position, width) that enter it."""
    kind = _kind(module)
    back = None if mask is None else mask.flip(1)
    if kind == "StrandsMixer":
        own, other = states.chunk(2, dim=-1)
        return Strands(terms_of(module.submodule, own, mask), terms_of(module.submodule, other.flip(1, 2), back))
    if kind == "BiMamba":
        forward, reverse = module.mamba_fwd, module.mamba_rev
        left = ScanTerms(forward.scan(states, mask), forward.out_proj.weight.float())
        right = ScanTerms(reverse.scan(states.flip(1), back), reverse.out_proj.weight.float())
        return BothWays(left, right)
    if kind is None:
        raise FloatlensError(f"{type(module).__name__}: contributions of this kind of layer are not covered")
    if mask is not None:
        states = states * mask[..., None].to(states.dtype)
    before, gate, inputs = module.in_proj(states).float().chunk(3, dim=-1)
    gated = before * inputs
    if getattr(module, "held", None) is not None:
        at, (read,) = module.held
        gated = torch.where(at[..., None], read, gated)
    if getattr(module, "kept", None) is not None:
        gated = gated * module.kept[..., None]
    reach = reach_of(module)
    assert not isinstance(reach, str)
    return ConvTerms(gated, gate, module.conv.weight[:, 0].float(), module.out_proj.weight.float(), reach[0])
