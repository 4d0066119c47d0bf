"""How a question and its documents become a prompt, as a study or a manifest holds it."""

from __future__ import annotations

from pydantic import Field

from floatlens.core.config import Config

__all__ = ["PromptConfig"]


class PromptConfig(Config):
    """Template and form of a prompt. Example: `PromptConfig(template="mine.yaml", chat=False)`"""

    template: str = Field("default", description="name of a template, or path of a .yaml file")
    chat: bool | None = Field(None, description="as a chat message; None: if the tokenizer has a chat template")
