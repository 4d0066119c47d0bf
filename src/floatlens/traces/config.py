"""What is recorded in a trace and how its prompt is decoded, as a study or a manifest holds it."""

from __future__ import annotations

from typing import Literal

from floatlens.core.config import Config
from floatlens.decoding.config import DecodingConfig
from floatlens.models.config import ModelConfig
from floatlens.prompts.config import PromptConfig

__all__ = ["CaptureConfig", "TraceConfig"]


class CaptureConfig(Config):
    """What is recorded; None means the default probes, and all layers. Example: `CaptureConfig(layers=(0, -1))`"""

    probes: tuple[str, ...] | None = None
    heads: Literal["all", "mean"] = "all"
    layers: tuple[int, ...] | None = None


class TraceConfig(Config):
    """Everything that decides what a trace of one prompt holds."""

    model: ModelConfig
    prompt: PromptConfig = PromptConfig()
    decoding: DecodingConfig = DecodingConfig()
    capture: CaptureConfig = CaptureConfig()
