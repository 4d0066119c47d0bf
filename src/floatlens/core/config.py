"""The base class of everything that can be configured: immutable, and unknown keys are refused."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

__all__ = ["Config"]


class Config(BaseModel):
    """Settings that come from the command line, a study or a manifest. They are checked for form where they enter.

    Example: `class PromptConfig(Config): template: str = "default"`
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
