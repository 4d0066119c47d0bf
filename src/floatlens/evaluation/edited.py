"""Edits by name, as they are written on a command line and sent to a worker, and what an edit does to the first answer.

`drop_anchors:k=1,5,10` is three edits, one per dose. Each has its matched random control; `on=0-3` limits one to
layers, `steps=1-2` to steps. The divergence compares the
distributions of the first token that an edit can reach: in step 0, or in step 1 for edits that look at the step before.
Both runs have the same tokens there, since nothing was changed earlier.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import product
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from floatlens.analysis.words import STRUCTURAL, classify
from floatlens.attention.select import Select
from floatlens.core.errors import FloatlensError, did_you_mean
from floatlens.edits import (
    AblateHeads,
    DropAnchors,
    FreezeLayers,
    Intervention,
    PinAnchors,
    SinkToken,
    SwapAnchors,
)
from floatlens.prompts import token_pieces

if TYPE_CHECKING:
    from floatlens.models import LanguageModel
    from floatlens.models.facts import Facts

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

    def build(self, model: LanguageModel | None = None) -> Intervention:
        """The edit itself, for this model; without one it can be checked and asked what it needs, but not run."""
        given = dict(self.settings)
        steps = _span(given.pop("steps", None))  # as a slice: how many there will be is not known
        some = None if steps is None else slice(steps.start, steps.stop)
        select = Select(layers=_span(given.pop("on", None)), steps=some)
        made = EDITS[self.name].make(model, given | {"select": select})
        if self.control is None:
            return made
        control = made.control(self.control)
        if control is None:
            raise FloatlensError(f"{self.label}: this edit has no random control")
        return control

    @property
    def waits(self) -> bool:
        """Whether it needs what only traces can tell: which heads retrieve."""
        return "retrieval scores" in self.build().needs

    @property
    def reaches(self) -> int:
        """The first step in which it can change anything."""
        steps = _span(dict(self.settings).get("steps"))
        return max(self.build().first_step, steps.start if steps is not None else 0)

    def check(self, facts: Facts, where: str) -> None:
        """Refuse, before weights are read, layers, heads and tokens that the model does not have; so of its control."""
        seeds = (None, 0) if EDITS[self.name].controlled and self.control is None else (self.control,)
        try:
            for seed in seeds:
                replace(self, control=seed).build().check(facts)
        except FloatlensError as error:
            raise FloatlensError(f"{where} {self.label}: {error}") from None

    def controlled(self, seed: int) -> EditSpec:
        return replace(self, control=seed)


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return "+".join(f"{layer}.{head}" for layer, head in value)
    return f"{value:.12g}" if isinstance(value, float) else str(value)


Reader = Callable[[str], Any]


def _whole(text: str) -> int:
    return int(_matched(text, r"-?\d+", "a whole number"))


def _number(text: str) -> float:
    return float(_matched(text, r"-?(\d+\.?\d*|\.\d+)(e-?\d+)?", "a number"))


def _word(text: str) -> str:
    return _matched(text, r"\S+", "a word")


def _range(text: str) -> str:
    wanted = "a number or a range, such as 0-3"
    if not _span(_matched(text, r"\d+(-\d+)?", wanted)):
        raise FloatlensError(f"{text!r} is not {wanted}")
    return text


def _heads(text: str) -> tuple[tuple[int, int], ...]:
    pairs = _matched(text, r"\d+\.\d+(\+\d+\.\d+)*", "layer.head, several with +, such as 5.3+7.0").split("+")
    return tuple((int(layer), int(head)) for layer, head in (pair.split(".") for pair in pairs))


def _matched(text: str, pattern: str, wanted: str) -> str:
    if re.fullmatch(pattern, text, re.ASCII) is None:
        raise FloatlensError(f"{text!r} is not {wanted}")
    return text


def _span(written: str | None) -> range | None:
    """`2` or `0-3`, both ends counted; None stays None."""
    if written is None:
        return None
    first, _, last = written.partition("-")
    return range(int(first), int(last or first) + 1)


@dataclass(frozen=True)
class _Kind:
    make: Callable[[LanguageModel | None, dict[str, Any]], Intervention]
    settings: Mapping[str, Reader]
    default: Mapping[str, Any]
    instead: Mapping[str, str] = field(default_factory=dict)
    """Of two settings that say the same in two ways: the one with a default, and the other."""
    controlled: bool = True
    about: str = ""


def _freeze(model: LanguageModel | None, given: dict[str, Any]) -> Intervention:
    layers = _span(given.pop("layers"))
    assert layers is not None
    tokenizer = None if model is None else model.tokenizer
    special = set() if tokenizer is None else set(tokenizer.all_special_ids)

    def structural(ids: Sequence[int]) -> list[bool]:
        assert tokenizer is not None, "built without a model, to be checked and not run"
        return [kind in STRUCTURAL for kind in classify(token_pieces(tokenizer, ids), ids, special)]

    return FreezeLayers(layers, structural, **given)


def _ablate(model: LanguageModel | None, given: dict[str, Any]) -> Intervention:
    return AblateHeads(given.pop("heads", "retrieval"), **given)


_ALL: dict[str, Reader] = {"strength": _number, "steps": _range}
_KEYS: dict[str, Reader] = {**_ALL, "on": _range}
_ANCHORS: dict[str, Reader] = {"k": _whole, "rule": _word, **_KEYS}

EDITS: dict[str, _Kind] = {
    "drop_anchors": _Kind(
        lambda model, given: DropAnchors(given.pop("k", None), **given),
        {"of": _word, **_ANCHORS},
        {"k": 1},
        {"k": "rule"},
        about="keys that received most in the step before are hidden",
    ),
    "pin_anchors": _Kind(
        lambda model, given: PinAnchors(given.pop("to", "step0"), **given),
        {"to": _word, **_ANCHORS},
        {"to": "step0", "k": 5},
        {"k": "rule"},
        about="what anchors hold goes to those of step 0, or to the first token",
    ),
    "swap_anchors": _Kind(
        lambda model, given: SwapAnchors(given.pop("like", "step0"), **given),
        {"like": _word, "seed": _whole, **_ANCHORS},
        {"like": "step0", "k": 5},
        {"k": "rule"},
        controlled=False,
        about="what anchors hold goes to random keys: the control of pin_anchors, by itself",
    ),
    "sink_token": _Kind(
        lambda model, given: SinkToken(given.pop("token", None), **given),
        {"token": _whole, "logit": _number, **_KEYS},
        {},
        controlled=False,
        about="a token beside the sequence that every row may look at",
    ),
    "ablate_heads": _Kind(
        _ablate,
        {"top": _whole, "heads": _heads, "mode": _word, **_ALL},
        {"top": 4},
        {"top": "heads"},
        about="retrieval heads put out of work",
    ),
    "freeze_layers": _Kind(
        _freeze,
        {"layers": _range, **_ALL},
        {"layers": "0-1"},
        about="layers look evenly at structural tokens",
    ),
}
"""Edits by name, with their settings, those that hold where none is given, and whether there is a control."""


def parse_edit(text: str, where: str = "--edit") -> list[EditSpec]:
    """`name:key=value,value:key=value` as one edit for every combination of values; errors say `where` it stands."""
    name, *parts = (piece.strip() for piece in text.split(":"))
    if name not in EDITS:
        raise FloatlensError(f'{where} {text}: no edit "{name}"{did_you_mean(name, EDITS)}')
    kind = EDITS[name]
    choices: dict[str, list[Any]] = {}
    for part in parts:
        key, equals, values = (piece.strip() for piece in part.partition("="))
        if key in choices:
            raise FloatlensError(f"{where} {text}: {key} is given twice; write {key}=A,B for several doses")
        if key not in kind.settings:
            raise FloatlensError(f'{where} {text}: {name} has no setting "{key}"{did_you_mean(key, kind.settings)}')
        if not equals:
            raise FloatlensError(f"{where} {text}: {key} has no value; write {key}=…")
        try:
            choices[key] = [kind.settings[key](value.strip()) for value in values.split(",")]
        except FloatlensError as error:
            raise FloatlensError(f"{where} {text}: {key}: {error}") from None
    for key, value in kind.default.items():
        if kind.instead.get(key) not in choices:
            choices.setdefault(key, [value])
    specs = [EditSpec(name, tuple(zip(choices, values, strict=True))) for values in product(*choices.values())]
    for spec in specs:
        try:
            spec.build()
        except FloatlensError as error:
            raise FloatlensError(f"{where} {text}: {error}") from None
    return specs


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
