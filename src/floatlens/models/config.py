"""Which model, and how it is loaded: the arguments of `floatlens.load` as a study or a manifest holds them."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from floatlens.core.config import Config
from floatlens.models.told import Told

__all__ = ["ModelConfig", "Placement"]


class Placement(Config):
    """In which precision weights are loaded, and to which device."""

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


class ModelConfig(Placement):
    """Arguments of `floatlens.load`. Example: `ModelConfig(ref="scale:llada", dtype="float32")`"""

    ref: str = Field(min_length=1, description="hub id, local folder, .gguf file or registered name")
    family: str | None = None
    revision: str | None = None
    attention: Literal["full", "block_causal"] | None = Field(
        None, description="attention mask, where the checkpoint does not say it"
    )
    block_size: int | None = Field(None, ge=1, description="positions per block of block-causal attention")
    mask_id: int | None = Field(None, ge=0, description="id of the mask token, where the checkpoint does not say it")
    mode: str | None = Field(None, description="ar or diffusion, for weights that run in both ways")

    @property
    def told(self) -> Told:
        """What is said of the checkpoint that its files do not say."""
        return Told(self.attention, self.block_size, self.mask_id, self.mode)
