"""Base classes of edits of layers without attention: when they act, which positions they change, and their report.

Positions are given, or they are anchors: those with the most received contribution (methods §15). A layer counts as one
head, and a position's input is one for all rows, so rows cannot be edited one by one as in attention. Layers with
attention stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, get_args

import numpy as np
import torch
from torch import Tensor

from floatlens.attention.edit import Change, ChangeTotals, Edit
from floatlens.attention.mixing import InputChange, MixerLayer, inner_mixers, mixers_of
from floatlens.attention.probe import Layer, PassState, Shape
from floatlens.attention.run_tracker import DecodingRun, PassPosition
from floatlens.attention.select import Select
from floatlens.attention.setting import ControlKind, Setting, read_span, read_whole, read_word, span
from floatlens.core.errors import FloatlensError, did_you_mean
from floatlens.edits.rules import AnchorRule, check_seed, largest, random_scores
from floatlens.models.base import LanguageModel

__all__ = ["INPUT_SETTINGS", "InputEdit", "MixerEdit", "fill_up", "pass_position"]

INPUT_SETTINGS = (
    Setting("k", read_whole, 1, instead=("rule", "positions"), about="the k positions that contribute most in a layer"),
    Setting("rule", read_word, about="another anchor rule: top1, topk(5) or zscore(3)"),
    Setting("positions", read_span, about="these positions, such as 0 or 0-3", argument=span),
)
_ROUNDING = 1e-6


def pass_position(state: PassState) -> PassPosition:
    assert state.position is not None, "the session tracks the run while edits are active"
    return state.position


class MixerEdit(Edit):
    """An edit of layers without attention, with a report of how much contribution it changed."""

    edits_mixers: ClassVar[bool] = True

    def __init__(self, select: Select | None, **given: Any) -> None:
        self.select = select if select is not None else Select()
        self.given = given
        self._totals = ChangeTotals()
        self._shares: list[tuple[Tensor, Tensor]] = []
        self._run: DecodingRun | None = None
        self._steps = 0

    def __repr__(self) -> str:
        given = self.given | {f"select.{name}": value for name, value in vars(self.select).items()}
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in given.items() if v is not None)})"

    def prepare(self, model: LanguageModel, shape: Shape) -> None:
        super().prepare(model, shape)
        self._steps = shape.steps

    def acts(self, layer: Layer) -> bool:
        return False  # on attention

    def acts_in(self, step: int) -> bool:
        """Whether the selected layers are changed in this step."""
        return step >= self.earliest_step and self.select.has_step(step, self._steps)

    def change_inputs(self, layer: MixerLayer) -> InputChange | None:
        position = pass_position(layer.state)
        if position.run is not self._run:
            self._run = position.run
            self._shares.clear()
            self.forget()
        return self.changed(layer, position.step)

    def changed(self, layer: MixerLayer, step: int) -> InputChange | None:
        """What is done to the inputs of a selected layer in this step; shown every step, also where nothing is done."""
        raise NotImplementedError

    def forget(self) -> None:
        """A new run begins: clear everything noted in an earlier one."""

    def count(self, layer: MixerLayer, moved: Tensor) -> None:
        """Add to the report what was changed: (batch,), the mean over the real rows of each sample."""
        real = torch.from_numpy(layer.state.real).to(moved.device)
        of_rows = moved[:, None] * real
        self._totals.add(pass_position(layer.state).step, layer.index, of_rows, int(real.sum()))
        self._shares.append((of_rows.sum(1, dtype=torch.float64), real.sum(1)))

    def report(self) -> list[Change]:
        return self._totals.changes(repr(self))

    def reset(self) -> None:
        """Clear the report."""
        self._totals.clear()
        self._shares.clear()

    def moved_shares(self) -> list[float]:
        if not self._shares:
            return [float("nan")] * (0 if self._run is None else len(self._run.fingerprints))
        mass, rows = (torch.stack([one.cpu() for one in some]).sum(0) for some in zip(*self._shares, strict=True))
        return [float(m / n) if n else float("nan") for m, n in zip(mass, rows, strict=True)]


class InputEdit(MixerEdit):
    """An edit of the inputs of some positions; `matched` makes it a control, which draws other positions at random.

    Subclasses give the positions (`targets`) and what becomes of them (`applied`). A control by "count" draws as many
    others, one by "mass" others in random order until they contribute as much in this pass.
    """

    controls: tuple[ControlKind, ...] = ("count", "mass")

    def __init__(
        self,
        positions: Sequence[int] | None,
        k: int | None,
        rule: str | None,
        select: Select | None,
        matched: ControlKind | None,
        seed: int,
        **given: Any,
    ) -> None:
        name = type(self).__name__
        self.positions = None if positions is None else _checked(name, positions)
        if self.positions is not None and (k is not None or rule is not None):
            raise FloatlensError(f"{name}: positions and {'k' if rule is None else 'rule'} both say which; give one")
        self.rule = AnchorRule.read(name, k, rule) if positions is None else None
        if matched is not None and matched not in get_args(ControlKind):
            raise FloatlensError(f'{name}(matched="{matched}"){did_you_mean(str(matched), get_args(ControlKind))}')
        which: dict[str, Any] = {"positions": None if self.positions is None else list(self.positions)}
        if self.rule is not None:
            which |= {"k": int(self.rule.value)} if rule is None else {"rule": str(self.rule)}
        drawn = {} if matched is None else {"matched": matched, "seed": seed}
        super().__init__(select, **{key: value for key, value in (which | given | drawn).items() if value is not None})
        self.matched, self.seed = matched, check_seed(self, seed)
        self._unmatched: list[Tensor] = []

    def control(self, seed: int = 0, kind: ControlKind = "count") -> Edit:
        if self.matched is not None:
            raise FloatlensError(f"this {type(self).__name__} is itself a control")
        return type(self)(**self.given, select=self.select, matched=kind, seed=seed)

    def prepare(self, model: LanguageModel, shape: Shape) -> None:
        super().prepare(model, shape)
        chosen = self.select.layer_ids(shape.layers)
        for mixer in mixers_of(model.module):
            index: Any = mixer.layer_idx
            if index in chosen:
                inner_mixers(mixer)  # refuses kinds of layers whose inputs cannot be changed
        if self.positions is not None and shape.length and max(self.positions) >= shape.length:
            raise FloatlensError(f"{self!r}: the sequence has {shape.length} positions")

    def numbers(self) -> dict[str, float]:
        """ "unmatched": of a control by mass, the share of choices in which all other positions have too little."""
        if not self._unmatched:
            return {}
        return {"unmatched": float(torch.cat([one.cpu() for one in self._unmatched]).double().mean())}

    def changed(self, layer: MixerLayer, step: int) -> InputChange | None:
        found = None
        if self.acts_in(step):
            targets = self.targets(layer)
            found = self.applied(layer, targets.float() if self.matched is None else self._drawn(layer, targets))
        self.note(layer, step)
        return found

    def targets(self, layer: MixerLayer) -> Tensor:
        """(batch, position) bool: the positions that the edit itself changes in this pass."""
        raise NotImplementedError

    def applied(self, layer: MixerLayer, chosen: Tensor) -> InputChange:
        """The change, and its report, from how far each position is changed, (batch, position) from 0 to 1."""
        raise NotImplementedError

    def note(self, layer: MixerLayer, step: int) -> None:
        """After the choice of this step: what later steps need to know of it."""

    def anchors(self, layer: MixerLayer) -> Tensor:
        """(batch, position) bool: the anchors of the layer in this pass, as it is without the edit."""
        assert self.rule is not None
        real = torch.from_numpy(layer.state.real).to(layer.received.device)
        return self.rule.find(self, layer.received[:, None], real)[:, 0]

    def given_positions(self, layer: MixerLayer) -> Tensor:
        """(batch, position) bool: the given positions; padding is not counted."""
        assert self.positions is not None
        real = layer.state.real
        shortest = int(real.sum(1).min())
        if max(self.positions) >= shortest:
            raise FloatlensError(f"{self!r}: the sequence has {shortest} positions")
        found = real & np.isin(real.cumsum(1) - 1, self.positions)
        return torch.from_numpy(found).to(layer.received.device)

    def _drawn(self, layer: MixerLayer, targets: Tensor) -> Tensor:
        """(batch, position), 0 to 1: the random positions of a control. Given positions are replaced by the same ones
        in every layer and step, anchors by others in each."""
        position = pass_position(layer.state)
        key = () if self.positions is not None else (layer.index, position.step)
        free = torch.from_numpy(layer.state.real).to(targets.device) & ~targets
        drawn = random_scores(position, self.seed, 1, *key)[:, 0].to(targets.device).masked_fill(~free, -torch.inf)
        if self.matched == "count":
            if bool((free.sum(-1) < targets.sum(-1)).any()):
                raise FloatlensError(f"{self!r}: too few positions are left beside these; give fewer")
            return largest(drawn, targets.sum(-1)).float()
        wanted = (layer.received * targets).sum(-1)
        found, short = fill_up(layer.received * free, drawn, wanted)
        self._unmatched.append(short)
        return found


def fill_up(mass: Tensor, order: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor]:
    """(batch, position), 0 to 1: how much of each position is taken, from the highest `order` on, until they hold as
    much `mass` (batch, position) as `wanted` (batch,); the last in part. And (batch,) bool: all have too little."""
    at = order.argsort(dim=-1, descending=True, stable=True)
    held = mass.gather(-1, at)
    before = torch.nn.functional.pad(held.cumsum(-1)[:, :-1], (1, 0))
    part = ((wanted[:, None] - before) / held.clamp(min=torch.finfo(held.dtype).tiny)).clamp(0, 1)
    taken = torch.zeros_like(mass).scatter_(-1, at, torch.where(held > 0, part, 0.0))
    return taken, wanted > held.sum(-1) + _ROUNDING


def _checked(name: str, positions: Sequence[int]) -> tuple[int, ...]:
    found = tuple(positions)
    if not found or any(isinstance(one, bool) or not isinstance(one, int) or one < 0 for one in found):
        raise FloatlensError(f"{name}(positions={list(found)}): give positions in the sequence, counted from 0")
    return found
