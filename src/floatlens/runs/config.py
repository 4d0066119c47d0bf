"""A run of traces over a file of questions, as a manifest holds it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from floatlens.core.config import Config
from floatlens.traces.config import TraceConfig

__all__ = ["DataConfig", "TraceRunConfig"]


class DataConfig(Config):
    """Which questions."""

    path: str
    limit: int | None = Field(None, ge=1, description="use only the first N questions")
    skip_bad: bool = False
    target: Literal["field", "answer"] | None = Field(
        None, description="force the record's own `target`, or its first accepted answer; None: nothing"
    )


class TraceRunConfig(TraceConfig):
    """A whole run of traces over a file of questions."""

    data: DataConfig
