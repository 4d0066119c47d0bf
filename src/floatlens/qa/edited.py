"""Edits by name, as they are written on a command line and sent to a worker, and what an edit does to the first answer.

`drop_anchors:k=1,5,10` is three edits, one per dose. Each has its matched random control. The divergence compares the
distributions of the first token that an edit can reach: in step 0, or in step 1 for edits that look at the step before.
Both runs have the same tokens there, since nothing was changed earlier.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any

import torch
import yaml
from torch import Tensor

from floatlens.analysis.words import STRUCTURAL, classify
from floatlens.capture.edits import AblateHeads, DropAnchors, FreezeLayers, Intervention, PinAnchors, SinkToken
from floatlens.errors import FloatlensError, did_you_mean
from floatlens.prompts import token_pieces

if TYPE_CHECKING:
    from floatlens.models import LanguageModel

__all__ = ["EDITS", "EditSpec", "Tap", "divergence", "parse_edit", "tapped"]


@dataclass(frozen=True)
class EditSpec:
    """An edit by name and settings; with `control`, its matched random control drawn with that seed.

    Example: `EditSpec("drop_anchors", (("k", 5),)).build(model)`
    """

    name: str
    settings: tuple[tuple[str, Any], ...] = ()
    control: int | None = None

    @property
    def label(self) -> str:
        """`drop_anchors k=5`, and for a control `drop_anchors k=5 (random)`."""
        shown = (f"{key}={_shown(value)}" for key, value in self.settings)
        return " ".join([self.name, *shown]) + (" (random)" if self.control is not None else "")

    @property
    def dose(self) -> float | str:
        """What a dose-response curve has on its axis: the first setting that is a number, else all of them in words."""
        numbers = (v for _, v in self.settings if isinstance(v, int | float) and not isinstance(v, bool))
        return next(numbers, " ".join(_shown(value) for _, value in self.settings))

    def build(self, model: LanguageModel) -> Intervention:
        """The edit itself, for this model."""
        made = EDITS[self.name].make(model, dict(self.settings))
        if self.control is None:
            return made
        control = made.control(self.control)
        if control is None:
            raise FloatlensError(f"{self.label}: this edit has no random control")
        return control

    def controlled(self, seed: int) -> EditSpec:
        return replace(self, control=seed)


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return "+".join(f"{layer}.{head}" for layer, head in value)
    return f"{value:g}" if isinstance(value, float) else str(value)


@dataclass(frozen=True)
class _Kind:
    make: Callable[[LanguageModel, dict[str, Any]], Intervention]
    settings: tuple[str, ...]
    default: Mapping[str, Any]
    controlled: bool = True
    about: str = ""


def _freeze(model: LanguageModel, given: dict[str, Any]) -> Intervention:
    first, _, last = str(given.pop("layers")).partition("-")
    tokenizer = model.tokenizer
    assert tokenizer is not None
    special = set(tokenizer.all_special_ids)

    def structural(ids: Sequence[int]) -> list[bool]:
        return [kind in STRUCTURAL for kind in classify(token_pieces(tokenizer, ids), ids, special)]

    return FreezeLayers(range(int(first), int(last or first) + 1), structural, **given)


EDITS: dict[str, _Kind] = {
    "drop_anchors": _Kind(
        lambda model, given: DropAnchors(given.pop("k", None), **given),
        ("k", "rule", "of", "strength"),
        {"k": 1},
        about="keys that received most in the step before are hidden",
    ),
    "pin_anchors": _Kind(
        lambda model, given: PinAnchors(given.pop("to", "step0"), **given),
        ("to", "k", "rule", "strength"),
        {"to": "step0", "k": 5},
        about="what anchors hold goes to those of step 0, or to the first token",
    ),
    "sink_token": _Kind(
        lambda model, given: SinkToken(**given),
        ("token", "logit", "strength"),
        {},
        controlled=False,
        about="a token beside the sequence that every row may look at",
    ),
    "ablate_heads": _Kind(
        lambda model, given: AblateHeads(given.pop("heads"), **given),
        ("top", "heads", "mode", "strength"),
        {"top": 4},
        about="retrieval heads put out of work",
    ),
    "freeze_layers": _Kind(
        _freeze,
        ("layers", "strength"),
        {"layers": "0-1"},
        about="layers look evenly at structural tokens",
    ),
}
"""Edits by name, with their settings, those that hold where none is given, and whether there is a control."""


def parse_edit(text: str, where: str = "--edit") -> list[EditSpec]:
    """`name:key=value,value:key=value` as one edit for every combination of values; errors say `where` it stands."""
    name, *parts = text.strip().split(":")
    if name not in EDITS:
        raise FloatlensError(f'{where} {text}: no edit "{name}"{did_you_mean(name, EDITS)}')
    choices: dict[str, list[Any]] = {}
    for part in parts:
        key, equals, values = part.partition("=")
        if key not in EDITS[name].settings:
            raise FloatlensError(
                f'{where} {text}: {name} has no setting "{key}"{did_you_mean(key, EDITS[name].settings)}'
            )
        choices[key] = [_value(f"{where} {text}", value) for value in values.split(",")] if equals else []
        if not choices[key]:
            raise FloatlensError(f"{where} {text}: {key} has no value; write {key}=…")
    for key, value in EDITS[name].default.items():
        if not choices or (name == "pin_anchors" and key not in choices and "rule" not in choices):
            choices.setdefault(key, [value])
    return [EditSpec(name, tuple(zip(choices, values, strict=True))) for values in product(*choices.values())]


def _value(place: str, value: str) -> Any:
    try:
        read = yaml.safe_load(value)
    except yaml.YAMLError:
        read = None
    if not isinstance(read, str | int | float) or isinstance(read, bool):
        raise FloatlensError(f"{place}: {value!r} is no value; give a number or a word")
    return read


# -- the first answer ---------------------------------------------------------------------------------------------


class Tap:
    """The logits of one pass: of every sample, at the first place that is still to be written."""

    def __init__(self, step: int) -> None:
        self._step, self._passes = step, 0
        self.first: list[Tensor | None] = []

    def see(self, logits: Tensor, wanted: Tensor) -> None:
        if self._passes == self._step:
            counts = wanted.sum(dim=1).tolist()
            starts = torch.tensor([0, *counts]).cumsum(0).tolist()
            rows = logits.detach().float().cpu()
            self.first = [rows[start].clone() if count else None for start, count in zip(starts, counts, strict=False)]
        self._passes += 1


@contextmanager
def tapped(model: LanguageModel, step: int) -> Iterator[Tap]:
    """Listen to the passes of a decoding for as long as the context is open."""
    tap, forward = Tap(step), model.forward

    def listening(*args: Any, **named: Any) -> Tensor:
        logits = forward(*args, **named)
        wanted = named.get("logits_at")
        if named.get("observed", True) and wanted is not None and wanted.ndim == 2:
            tap.see(logits, wanted)
        return logits

    vars(model)["forward"] = listening
    try:
        yield tap
    finally:
        del vars(model)["forward"]


def divergence(plain: Tensor | None, edited: Tensor | None) -> float | None:
    """KL divergence, in nats, of the edited distribution from the plain one; None where one of them was never asked."""
    if plain is None or edited is None:
        return None
    p, q = (torch.log_softmax(x.double(), dim=-1) for x in (plain, edited))
    terms = torch.where(p > -torch.inf, p.exp() * (p - q), torch.zeros_like(p))
    return float(terms.sum().clamp(min=0.0))
