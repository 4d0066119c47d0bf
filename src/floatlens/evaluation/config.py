"""How questions are put to a model and its answers scored, as a study or a manifest holds it."""

from __future__ import annotations

from pydantic import Field

from floatlens.core.config import Config
from floatlens.decoding.settings import DecodingConfig
from floatlens.prompts.types import PromptConfig

__all__ = ["AskConfig"]


class AskConfig(Config):
    """The same for every model of a run: a sampler applies to the models of its kind, a setting to those that have it.

    Example: `AskConfig(decoding=DecodingConfig(settings={"gen_length": 16}), first_line=True)`
    """

    prompt: PromptConfig = PromptConfig()
    decoding: DecodingConfig = DecodingConfig()
    first_line: bool = Field(False, description="score an answer only up to its first line break")
