"""The sampler and its settings, as a study or a manifest holds them."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from floatlens.core.config import Config

__all__ = ["DecodingConfig"]


class DecodingConfig(Config):
    """A sampler (None: the default of the model's family) and its settings.

    Example: `DecodingConfig(sampler="llada", settings={"gen_length": 32})`
    """

    sampler: str | None = None
    settings: dict[str, Any] = Field(default_factory=dict)
