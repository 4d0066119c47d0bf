"""Checks of single fields of a record, shared by all formats, so that one mistake has one wording.

Each returns the value in the type that was asked for, or raises with the name of the field and what was found there.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

from floatlens.core.errors import FloatlensError

__all__ = ["answers_in", "bad", "first_given", "kind", "list_in", "rest_of", "text_of"]


def bad(message: str) -> NoReturn:
    """Refuse a record."""
    raise FloatlensError(message)


def kind(value: Any) -> str:
    """What a JSON value is, in words."""
    names = {dict: "an object", list: "a list", str: "a text", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")


def text_of(value: Any, name: str) -> str:
    """A text with something in it."""
    if value is None:
        bad(f"{name} is missing")
    if not isinstance(value, str):
        bad(f"{name}: expected a text, found {kind(value)}")
    if not value.strip():
        bad(f"{name} is empty")
    try:
        value.encode()
    except UnicodeEncodeError:
        bad(f"{name} holds half a character (a lone surrogate), which no tokenizer takes")
    return value


def list_in(record: Mapping[str, Any], name: str, label: str | None = None) -> list[Any]:
    """A list; absent or null is an empty one."""
    given = record.get(name)
    if given is None:
        return []
    if not isinstance(given, list):
        bad(f"{label or name}: expected a list, found {kind(given)}")
    return given


def first_given(record: Mapping[str, Any], names: Iterable[str]) -> str | None:
    """The first of several names under which a record has anything but null or an empty list; empty text counts."""
    return next((name for name in names if record.get(name) not in (None, [])), None)


def answers_in(value: Any, name: str) -> list[str]:
    """Accepted answers from a text, an object with `answer` or `text`, or a list of these; in order, each once."""
    return list(dict.fromkeys(_answers(value, name)))


def _answers(value: Any, name: str) -> list[str]:
    if value is None:
        return []
    if isinstance(value, list):
        return [text for i, item in enumerate(value) for text in _answers(item, f"{name}[{i}]")]
    if not isinstance(value, dict):
        return [text_of(value, name)]
    for key in ("answer", "text"):
        if key in value:
            return _answers(value[key], f"{name}.{key}")
    if "provenance" in value:  # KILT gives evidence without an answer in entries of their own
        return []
    bad(f"{name}: expected an object with answer or text, found only {', '.join(value) or 'an empty one'}")


def rest_of(record: Mapping[str, Any], known: Iterable[str], *, spelling: bool = False) -> dict[str, Any]:
    """What is not a known field; with `spelling` a field that looks like a known one that is missing is refused."""
    known = tuple(known)
    rest = {name: value for name, value in record.items() if name not in known}
    missing = [name for name in known if name not in record] if spelling else []
    for name in rest:
        close = difflib.get_close_matches(name, missing, n=1, cutoff=0.8)
        if close:
            bad(f'unknown field "{name}"; did you mean "{close[0]}"?')
    return rest
