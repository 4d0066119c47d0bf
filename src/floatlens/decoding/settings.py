"""Settings of samplers; what depends on the model or the prompt is checked by `plan`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from floatlens.core.config import Config

if TYPE_CHECKING:
    from torch import Tensor

    from floatlens.models.base import LanguageModel

__all__ = ["Align", "BlockSettings", "DecodingConfig", "Settings", "require_divisor"]

Align = Literal["start", "end"]

_Seed = Annotated[int, Field(ge=0, lt=2**63)]


class DecodingConfig(Config):
    """A sampler (None: the family's own). Example: `DecodingConfig(sampler="llada", settings={"gen_length": 32})`"""

    sampler: str | None = None
    settings: dict[str, Any] = Field(default_factory=dict)


class Settings(BaseModel):
    """Base class of every sampler's settings. A setting given as None takes its default."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    align: ClassVar[Align | None] = None
    """Where the prompts of a batch begin or end in one column, whatever the padding; None: as the padding says."""

    seed: _Seed | tuple[_Seed, ...] = Field(
        0,
        description="one number for all samples, so a sample gives the same tokens alone and in a batch; "
        "or a list with one number per sample",
    )
    gen_length: int = Field(32, description="how many tokens to write after the prompt")

    @model_validator(mode="before")
    @classmethod
    def _none_is_not_given(cls, data: Any) -> Any:
        return {name: value for name, value in data.items() if value is not None} if isinstance(data, dict) else data

    def check(self, model: LanguageModel) -> None:
        """Raise a FloatlensError if these settings ask for something `model` does not have."""

    def resolved(self, model: LanguageModel) -> Self:
        """These settings with the model's own values where nothing was given."""
        return self

    def masks(self, prompt: int) -> int:
        """How many masks are appended to a prompt of this length; `gen_length` unless blocks are filled up."""
        return self.gen_length

    def number_blocks(self, length: int, first: int) -> Tensor | None:
        """(length,) block numbers of the columns, if passes are masked by them; the first answer begins at `first`."""
        return None

    def most_written(self) -> int:
        """The most masks that any prompt gets."""
        return self.gen_length

    def ends(self, model: LanguageModel, known: tuple[int, ...]) -> tuple[int, ...]:
        """The ids that end an answer; `known` are the model's."""
        return known

    def seeds(self, offset: int) -> bool:
        """Whether the answer's column number `offset` is decided by the row before it, though logits are unshifted."""
        return False

    def kept(self, answer: Tensor) -> Tensor:
        """(batch, length) bool: the columns that count as answer, of those that are written."""
        return answer

    def columns(self, sequence: Tensor, answer: Tensor, written: int) -> int:
        """How many columns the finished batch has; `written` of them were reached."""
        return int(sequence.shape[1])

    def check_masks(self, masks: Sequence[int]) -> None:
        """Raise a ValueError if they do not fit samples with these numbers of positions to fill."""

    def check_steps(self, masks: int) -> None:
        """Raise a ValueError if they ask for more steps than `masks` positions can take."""

    def max_steps(self, masks: int) -> int:
        """The largest number of steps a sample with `masks` positions to fill can take."""
        raise NotImplementedError


class BlockSettings(Settings):
    """Settings of the samplers that fill the answer block by block, from left to right."""

    gen_length: int = Field(32, ge=0, description="how many masks to append to the prompt (0: only fill its own masks)")
    block_length: int = Field(
        default_factory=lambda data: data.get("gen_length", 1),
        ge=1,
        description="masks per block, a divisor of gen_length (where that is 0, of the number of masks); a block is "
        "finished before the next begins (default: one block)",
    )

    @model_validator(mode="after")
    def _whole_blocks(self) -> BlockSettings:
        if self.gen_length:
            require_divisor("gen_length", self.gen_length, "block_length", self.block_length)
        return self

    def check_masks(self, masks: Sequence[int]) -> None:
        if not self.gen_length and self.block_length:
            for count in masks:
                require_divisor("the number of masks", count, "block_length", self.block_length)

    @property
    def blocks(self) -> int:
        return self.gen_length // self.block_length if self.gen_length else 1


def require_divisor(name: str, value: int, part: str, divisor: int) -> None:
    """Raise a ValueError that suggests the nearest valid values."""
    if value % divisor:
        below = value - value % divisor
        near = f"{below} or {below + divisor}" if below else f"{divisor}"
        raise ValueError(f"{name}={value} is not a multiple of {part}={divisor}; use {name}={near}")
