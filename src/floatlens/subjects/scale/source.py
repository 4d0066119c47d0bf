"""The scale world as a question source of `open_data`: `scale:SET`, with settings after colons.

scale:rag:documents=5:gold=2:seed=7
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from floatlens.core.errors import FloatlensError, did_you_mean
from floatlens.data.sources import Questions
from floatlens.subjects.scale.examples import questions
from floatlens.subjects.scale.sets import known_set
from floatlens.subjects.scale.world import WORLD_VERSION

__all__ = ["DEFAULT_COUNT", "open_questions"]

DEFAULT_COUNT = 500
"""How many questions are drawn without a limit."""


def open_questions(rest: str, *, limit: int | None, documents: int | None) -> Questions:
    """Questions of the world. Example: `open_questions("rag:seed=7", limit=4, documents=None).examples[0].question`"""
    which, *given = rest.split(":")
    settings = _settings(given, documents)
    return Questions(
        questions(known_set(which), limit or DEFAULT_COUNT, **settings),
        title=f"scale world, {which}",
        version=WORLD_VERSION,
        identity=f"{which} {sorted(settings.items())} world {WORLD_VERSION}",
    )


def _settings(given: Sequence[str], documents: int | None) -> dict[str, Any]:
    """All settings, so a default that is written out is the same data."""
    settings: dict[str, Any] = {"documents": 10 if documents is None else documents, "gold": None, "seed": 0}
    for item in given:
        key, _, value = item.partition("=")
        if key not in settings:
            raise FloatlensError(f'no setting "{key}"{did_you_mean(key, settings)}')
        if not value.isascii() or not value.isdigit():
            raise FloatlensError(f'{key} is "{value}"; expected a whole number, as in scale:rag:{key}=3')
        if key == "documents" and documents not in (None, int(value)):
            raise FloatlensError(f"it says {value} documents, and documents={documents} was given; give one")
        settings[key] = int(value)
    return settings
