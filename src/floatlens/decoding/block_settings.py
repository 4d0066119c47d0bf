"""Settings that the samplers of block-diffusion models share."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor

from floatlens.decoding.settings import Settings
from floatlens.models.base import LanguageModel

__all__ = ["BlockDiffusionSettings", "MaxNewTokens", "has_any", "one_length", "quota"]


class BlockDiffusionSettings(Settings):
    """Settings of the samplers that write a block after another, each with its own mask and never again."""

    size_name: ClassVar[str]
    """The setting that is the number of positions per block."""

    gen_length: int = Field(32, ge=1, description="how many tokens to write after the prompt")
    temperature: float = Field(0.0, ge=0, description="weight of the Gumbel noise; 0 takes the most likely token")
    use_cache: bool = Field(
        True, description="keep keys and values of finished blocks between passes; the tokens are the same without"
    )

    @property
    def size(self) -> int:
        """Positions per block."""
        found: int | None = getattr(self, self.size_name)
        assert found is not None  # settled by `resolved`
        return found

    def resolved(self, model: LanguageModel) -> Self:
        """These settings with the model's block size where none was given."""
        if getattr(self, self.size_name) is not None:
            return self
        return self.model_validate(self.model_dump() | {self.size_name: model.block_size})

    def number_blocks(self, length: int, first: int) -> Tensor:
        """By absolute position, or, for prompts that end in one column, so a block begins with the answer."""
        before = -first % self.size if self.align == "end" else 0
        return (torch.arange(length) + before) // self.size

    def max_steps(self, masks: int) -> int:
        return masks


class MaxNewTokens(BlockDiffusionSettings):
    """The same for samplers whose published name of `gen_length` is `max_new_tokens`."""

    max_new_tokens: int | None = Field(None, description="the published name of gen_length")

    @model_validator(mode="before")
    @classmethod
    def _one_length(cls, data: Any) -> Any:
        return one_length(data)


def one_length(data: Any) -> Any:
    """Settings in which `max_new_tokens`, if given, is read as `gen_length`."""
    if not isinstance(data, dict) or data.get("max_new_tokens") is None:
        return data
    if data.get("gen_length") not in (None, data["max_new_tokens"]):
        raise ValueError("max_new_tokens and gen_length are the same; give one of them")
    return {**data, "gen_length": data["max_new_tokens"], "max_new_tokens": None}


def quota(block: int, steps: int, turn: int) -> int:
    """How many tokens pass `turn` of a block commits: block // steps, and one more in the first block % steps."""
    return block // steps + (turn < block % steps)


def has_any(ids: Tensor, wanted: tuple[int, ...], where: Tensor) -> Tensor:
    """(batch,) bool: whether a sample has one of the ids at the places `where` (batch, length)."""
    return (torch.isin(ids, torch.tensor(wanted, dtype=torch.long)) & where).any(dim=1)
