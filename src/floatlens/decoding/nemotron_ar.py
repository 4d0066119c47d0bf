"""Nemotron's weights read as an autoregressive model: greedy or sampled, with a cache, until EOS.

The sampler `ar` under the published names of its settings.
"""

from __future__ import annotations

from typing import Any

from pydantic import Field, model_validator

from floatlens.decoding.ar import ArSettings, run
from floatlens.decoding.block_settings import one_length
from floatlens.decoding.nemotron_board import FAMILIES
from floatlens.decoding.registry import Sampler
from floatlens.models.base import LanguageModel

__all__ = ["SAMPLER", "NemotronArSettings"]


class NemotronArSettings(ArSettings):
    """Settings of the sampler `nemotron_ar`."""

    max_new_tokens: int | None = Field(None, description="the published name of gen_length")
    eos_token_id: int | None = Field(None, ge=0, description="the id that ends an answer (default: the model's EOS)")

    @model_validator(mode="before")
    @classmethod
    def _one_length(cls, data: Any) -> Any:
        return one_length(data)

    def ends(self, model: LanguageModel, known: tuple[int, ...]) -> tuple[int, ...]:
        return known if self.eos_token_id is None else (self.eos_token_id,)


_ABOUT = "one token after another until EOS (Nemotron in mode ar)"
SAMPLER = Sampler("nemotron_ar", "arm", NemotronArSettings, run, _ABOUT, families=FAMILIES)
