"""Edits by name, as they are written on a command line or in a study and sent to a worker.

`drop_anchors:k=1,5,10` is three edits, one per dose. `on=0-3` limits an edit to layers, `steps=1-2` to steps. A spec is
plain data; importing this module loads no torch.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any

from floatlens.attention.setting import ControlKind, Setting, read_span, span
from floatlens.core.errors import FloatlensError, did_you_mean
from floatlens.core.registry import Registry

if TYPE_CHECKING:
    from floatlens.attention.edit import Edit
    from floatlens.models.facts import Facts

__all__ = ["EDITS", "FROM_TRACES", "EditSpec", "Setting", "parse_edit", "settings_of", "shown"]

EDITS: Registry[type[Edit]] = Registry(
    "edit",
    "floatlens.edits",
    {
        "drop_anchors": "floatlens.edits.drop:DropAnchors",
        "pin_anchors": "floatlens.edits.pin:PinAnchors",
        "swap_anchors": "floatlens.edits.pin:SwapAnchors",
        "sink_token": "floatlens.edits.sink:SinkToken",
        "ablate_heads": "floatlens.edits.ablate:AblateHeads",
        "freeze_layers": "floatlens.edits.freeze:FreezeLayers",
        "boost": "floatlens.edits.boost:Boost",
        "stale": "floatlens.edits.stale:Stale",
        "drop_inputs": "floatlens.edits.drop_inputs:DropInputs",
        "pin_inputs": "floatlens.edits.pin_inputs:PinInputs",
        "zero_mixers": "floatlens.edits.zero_mixers:ZeroMixers",
    },
)

FROM_TRACES = frozenset({"retrieval scores", "refresh schedule"})
"""What an edit may need (`Edit.needs`) that is taken from the traces of a study, model by model."""
_LAYERS = Setting("on", read_span, about="only these layers, such as 0-3")
_STEPS = Setting("steps", read_span, about="only these steps, such as 1-2")


@dataclass(frozen=True)
class EditSpec:
    """An edit by name and settings; with `control`, its random control of that kind, drawn with `seed`.

    Example: `EditSpec("drop_anchors", (("k", 5),)).build()`
    """

    name: str
    settings: tuple[tuple[str, Any], ...] = ()
    control: ControlKind | None = None
    seed: int | None = None

    @property
    def label(self) -> str:
        """`drop_anchors k=5`, and for a control `drop_anchors k=5 (mass control)`; for people, never read back."""
        words = [self.name, *(f"{key}={shown(value)}" for key, value in self.settings)]
        return " ".join(words) + (f" ({self.control} control)" if self.control else "")

    @property
    def controls(self) -> tuple[ControlKind, ...]:
        """The kinds of random controls that the edit has."""
        return EDITS[self.name].from_settings(dict(self.settings)).controls

    @property
    def waits_for_traces(self) -> bool:
        """Whether it needs what only traces can tell: which heads retrieve, or how the keys of each layer turn."""
        return bool(self.build().needs & FROM_TRACES)

    @property
    def earliest_step(self) -> int:
        """The first step in which it can change anything."""
        steps = dict(self.settings).get("steps")
        return max(self.build().earliest_step, 0 if steps is None else span(steps).start)

    def with_control(self, seed: int, kind: ControlKind) -> EditSpec:
        """The random control of this edit, of one of its kinds."""
        return replace(self, control=kind, seed=seed)

    def build(self) -> Edit:
        """The edit itself. One that waits for traces can be built and checked without them, but not run."""
        made = EDITS[self.name].from_settings(dict(self.settings))
        if self.control is None:
            return made
        control = made.control(self.seed or 0, self.control) if self.control in made.controls else None
        if control is None:
            raise FloatlensError(f"{self.label}: this edit has no such control")
        return control

    def check(self, facts: Facts, where: str) -> None:
        """Refuse layers, heads and tokens that the model does not have; also of the control, which may need more."""
        kinds = self.controls if self.control is None else ()
        try:
            for spec in (self, *(self.with_control(0, kind) for kind in kinds)):
                spec.build().check(facts)
        except FloatlensError as error:
            raise FloatlensError(f"{where} {self.label}: {error}") from None


def shown(value: Any) -> str:
    """A setting's value as it is written: `5`, `0.5`, `5.3+7.0`."""
    if isinstance(value, tuple | list):
        return "+".join(f"{layer}.{head}" for layer, head in value)
    return f"{value:.12g}" if isinstance(value, float) else str(value)


def settings_of(name: str) -> dict[str, Setting]:
    """Every setting of an edit, with those that all edits share."""
    edit = EDITS[name]
    shared = (_STEPS, _LAYERS) if edit.selects_layers else (_STEPS,)
    return {setting.name: setting for setting in (*edit.settings, *shared)}


def parse_edit(text: str, where: str = "--edit") -> list[EditSpec]:
    """`name:key=value,value:key=value` as one edit for every combination of values; errors begin with `where`.

    Example: `[spec.label for spec in parse_edit("drop_anchors:k=1,5")]  # ["drop_anchors k=1", "drop_anchors k=5"]`
    """
    name, *parts = (piece.strip() for piece in text.split(":"))
    if name not in EDITS:
        raise FloatlensError(f'{where} {text}: no edit "{name}"{did_you_mean(name, EDITS)}')
    try:
        choices = _choices(name, parts)
        specs = [EditSpec(name, tuple(zip(choices, values, strict=True))) for values in product(*choices.values())]
        for spec in specs:
            spec.build()
    except FloatlensError as error:
        raise FloatlensError(f"{where} {text}: {error}") from None
    return specs


def _choices(name: str, parts: list[str]) -> dict[str, list[Any]]:
    """The values of each setting that is given or has a default, in the order given, defaults last."""
    known = settings_of(name)
    choices: dict[str, list[Any]] = {}
    for part in parts:
        key, equals, values = (piece.strip() for piece in part.partition("="))
        if key in choices:
            raise FloatlensError(f"{key} is given twice; write {key}=A,B for several doses")
        if key not in known:
            raise FloatlensError(f'{name} has no setting "{key}"; its settings: {", ".join(known)}')
        if not equals:
            raise FloatlensError(f"{key} has no value; write {key}=…")
        try:
            choices[key] = [known[key].read(value.strip()) for value in values.split(",")]
        except FloatlensError as error:
            raise FloatlensError(f"{key} {error}") from None
    for key, setting in known.items():
        instead = (setting.instead,) if isinstance(setting.instead, str) else setting.instead
        if setting.default is not None and not set(instead) & set(choices):
            choices.setdefault(key, [setting.default])
    return choices
