"""Which model, and how it is loaded: the arguments of `floatlens.load` as a study or a manifest holds them."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from floatlens.core.config import Config

__all__ = ["ModelConfig"]


class ModelConfig(Config):
    """Arguments of `floatlens.load`. Example: `ModelConfig(ref="scale:llada", dtype="float32")`"""

    ref: str = Field(min_length=1, description="hub id, local folder, .gguf file or registered name")
    family: str | None = None
    revision: str | None = None
    dtype: str | None = None
    device: str | None = None
    device_map: str | dict[str, int | str] | None = Field(
        None, description="instead of device, as in transformers: auto spreads a model over all GPUs"
    )

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if self.device is not None and self.device_map is not None:
            raise ValueError("give device or device_map, not both")
        return self
