"""What is recorded in a trace, as a study or a manifest holds it."""

from __future__ import annotations

from typing import Literal

from floatlens.attention.setting import BackendName
from floatlens.core.config import Config

__all__ = ["CaptureConfig"]


class CaptureConfig(Config):
    """What is recorded; None means the default probes, and all layers. Example: `CaptureConfig(layers=(0, -1))`"""

    probes: tuple[str, ...] | None = None
    heads: Literal["all", "mean"] = "all"
    layers: tuple[int, ...] | None = None
    backend: BackendName = "auto"
