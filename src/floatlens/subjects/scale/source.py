"""The scale world as a question source of `open_data`: `scale:SET`, with settings after colons.

scale:rag:documents=5:gold=2:seed=7, or scale:changing:snapshots=4:seed=7, whose documents change.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from floatlens.core.errors import FloatlensError, did_you_mean
from floatlens.data.sources import Questions
from floatlens.subjects.scale.changing import changing
from floatlens.subjects.scale.examples import questions
from floatlens.subjects.scale.sets import ALL_SETS, known_set
from floatlens.subjects.scale.world import WORLD_VERSION

__all__ = ["DEFAULT_COUNT", "open_questions"]

DEFAULT_COUNT = 500
"""How many questions are drawn without a limit."""
MOST = 100_000
"""How many are drawn at most: they are made before the first is asked."""


def open_questions(rest: str, *, limit: int | None, documents: int | None) -> Questions:
    """Questions of the world. Example: `open_questions("rag:seed=7", limit=4, documents=None).examples[0].question`"""
    which, *given = rest.split(":")
    if limit is not None and limit > MOST:
        raise FloatlensError(f"limit={limit}: at most {MOST:,} questions are drawn")
    if which == "changing":
        return _changing(given, limit, documents)
    if which not in ALL_SETS:
        raise FloatlensError(f'no question set "{which}"{did_you_mean(which, [*ALL_SETS, "changing"])}')
    settings = _settings(given, {"documents": 10 if documents is None else documents, "gold": None, "seed": 0})
    if documents not in (None, settings["documents"]):
        raise FloatlensError(
            f"it says {settings['documents']} documents, and documents={documents} was given; give one"
        )
    return Questions(
        questions(known_set(which), limit or DEFAULT_COUNT, **settings),
        title=f"scale world, {which}",
        version=WORLD_VERSION,
        identity=f"{which} {sorted(settings.items())} world {WORLD_VERSION}",
    )


def _changing(given: Sequence[str], limit: int | None, documents: int | None) -> Questions:
    if documents is not None:
        raise FloatlensError("documents are retrieved from the collection; leave documents out, or set collection:top")
    settings = _settings(given, {"snapshots": 4, "seed": 0}, "changing")
    examples, collection = changing(limit, **settings)
    return Questions(
        examples,
        title="scale world, changing",
        version=WORLD_VERSION,
        identity=f"changing {sorted(settings.items())} world {WORLD_VERSION}",
        collection=collection,
    )


def _settings(given: Sequence[str], defaults: dict[str, Any], which: str = "rag") -> dict[str, Any]:
    """All settings, so a default that is written out is the same data."""
    settings = dict(defaults)
    for item in given:
        key, _, value = item.partition("=")
        if key not in settings:
            raise FloatlensError(f'no setting "{key}"{did_you_mean(key, settings)}')
        if not value.isascii() or not value.isdigit():
            raise FloatlensError(f'{key} is "{value}"; expected a whole number, as in scale:{which}:{key}=3')
        settings[key] = _within(key, value)
    return settings


def _within(key: str, value: str) -> int:
    """The number, if questions can be drawn with it in reasonable time."""
    most = 2**32 - 1 if key == "seed" else 1000
    if len(value) > 10 or int(value) > most:
        raise FloatlensError(f"{key} is {value[:20]}; expected at most {most}")
    return int(value)
