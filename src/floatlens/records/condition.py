"""Conditions: how a question is put to a model. A small tagged union, stored in records as structured JSON.

`label` is for people. Nothing is ever read back out of a label: code looks at the fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_serializer, field_validator

from floatlens.attention.setting import ControlKind, RowGroup

__all__ = [
    "CLOSED",
    "RAG",
    "Closed",
    "Condition",
    "Edited",
    "Patched",
    "PatchedKeys",
    "PatchedStates",
    "Rag",
    "Stressed",
]

PatchedStates = Literal["kv", "residual"]
"""What is exchanged: keys and values in a layer's attention, or the states that enter the layer."""
PatchedKeys = Literal["anchors", "control"]
"""At which positions: the strongest keys of the layer, or random others that receive as much attention."""


class _Condition(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")
    kind: str
    __iter__ = None  # type: ignore[assignment]  # pandas takes what can be iterated for a list of values

    @property
    def label(self) -> str:
        return self.kind

    def __str__(self) -> str:
        return self.label

    def __lt__(self, other: _Condition) -> bool:
        """By label: pandas sorts the columns of a pivot."""
        return self.label < other.label


class Closed(_Condition):
    """The question alone: closed book."""

    kind: Literal["closed"] = "closed"


class Rag(_Condition):
    """The question with its documents, as the data has them or as retrieved. The baseline of every edit."""

    kind: Literal["rag"] = "rag"


class Stressed(_Condition):
    """One point of a stress test: the test, its series (a kind of distractor, say) and the place on the axis."""

    kind: Literal["stress"] = "stress"
    test: str
    series: str
    x: float
    point: str = Field(description="the point in words: a layout's name, 4, 5 of 10")

    @property
    def label(self) -> str:
        return " ".join(filter(None, [self.test, self.series if self.series != self.test else "", self.point]))


class Edited(_Condition):
    """The documents of `rag`, decoded under an edit of attention, or under one draw of a random control of that edit.

    A "count" control changes as many keys or heads as the edit, a "mass" control moves as much attention.
    """

    kind: Literal["edit"] = "edit"
    name: str
    settings: tuple[tuple[str, Any], ...] = ()
    control: ControlKind | None = None
    seed: int | None = Field(None, description="of a control's draw")

    @field_validator("settings", mode="before")
    @classmethod
    def _pairs(cls, given: Any) -> Any:
        pairs = given.items() if isinstance(given, Mapping) else given
        return tuple((str(key), _frozen(value)) for key, value in pairs)

    @field_serializer("settings")
    def _mapping(self, settings: tuple[tuple[str, Any], ...]) -> dict[str, Any]:
        return dict(settings)

    @property
    def settings_label(self) -> str:
        """`k=5 to=step0`; "" without settings."""
        return " ".join(f"{key}={_shown(value)}" for key, value in self.settings)

    @property
    def label(self) -> str:
        """`drop_anchors k=5`; of a control `drop_anchors k=5 (mass control)`, with its seed unless that is 0."""
        drawn = f"({self.control} control{f', seed {self.seed}' if self.seed else ''})" if self.control else ""
        return " ".join(filter(None, [self.name, self.settings_label, drawn]))

    @property
    def edited(self) -> Edited:
        """The edit itself, of its control or of itself."""
        return self.model_copy(update={"control": None, "seed": None})

    @property
    def pooled(self) -> Edited:
        """The same without the seed: all draws of a control together."""
        return self.model_copy(update={"seed": None})


class Patched(_Condition):
    """The documents of `rag`; in the pass that decides the first token of the answer, states of the `k` strongest keys
    of each layer in turn are replaced by those of a counterfactual prompt. Beside it, `draws` random controls."""

    kind: Literal["patch"] = "patch"
    what: tuple[PatchedStates, ...] = Field(("kv", "residual"), min_length=1)
    k: int = Field(1, ge=1)
    rows: RowGroup = "all"
    draws: int = Field(1, ge=1)
    seed: int = Field(0, ge=0, description="of the draws")

    @property
    def label(self) -> str:
        """`patching k=1`."""
        return f"patching k={self.k}"


Condition = Annotated[Closed | Rag | Stressed | Edited | Patched, Field(discriminator="kind")]
"""How a question is put; `kind` says which."""
CLOSED, RAG = Closed(), Rag()


def _frozen(value: Any) -> Any:
    return tuple(_frozen(one) for one in value) if isinstance(value, list | tuple) else value


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return "+".join(".".join(map(str, one)) if isinstance(one, tuple) else str(one) for one in value)
    return f"{value:.12g}" if isinstance(value, float) else str(value)
