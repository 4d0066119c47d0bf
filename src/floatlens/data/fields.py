"""Fields of a record, read and checked the same way in all formats, so each mistake has one wording.

Each function returns the value in the type it is named after, or raises with the name of the field and what was found.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn, TypeAlias

from floatlens.core.errors import FloatlensError
from floatlens.prompts import Document, as_documents

__all__ = [
    "Record",
    "answers_in",
    "bad",
    "documents_in",
    "first_given",
    "id_in",
    "kind",
    "list_in",
    "meta_in",
    "object_in",
    "objects_in",
    "rest_of",
    "text_in",
    "text_of",
    "texts_in",
    "title_in",
]

Record: TypeAlias = dict[str, Any]


def bad(message: str) -> NoReturn:
    """Refuse a record."""
    raise FloatlensError(message)


def kind(value: Any) -> str:
    """What a JSON value is, in words."""
    names = {dict: "an object", list: "a list", str: "a text", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")


def text_of(value: Any, name: str) -> str:
    """A text that is not blank."""
    if value is None:
        bad(f"{name} is missing")
    if not isinstance(value, str):
        bad(f"{name}: expected a text, found {kind(value)}")
    if not value.strip():
        bad(f"{name} is empty")
    try:
        value.encode()
    except UnicodeEncodeError:
        bad(f"{name} holds half a character (a lone surrogate), which no tokenizer accepts")
    return value


def text_in(record: Mapping[str, Any], name: str) -> str:
    """A text that must be there."""
    return text_of(record.get(name), name)


def list_in(record: Mapping[str, Any], name: str, label: str | None = None) -> list[Any]:
    """A list; absent or null is an empty one."""
    given = record.get(name)
    if given is None:
        return []
    if not isinstance(given, list):
        bad(f"{label or name}: expected a list, found {kind(given)}")
    return given


def texts_in(record: Mapping[str, Any], name: str) -> list[str]:
    """A list of texts; absent or null is an empty one."""
    return [text_of(item, f"{name}[{i}]") for i, item in enumerate(list_in(record, name))]


def object_in(record: Mapping[str, Any], name: str, label: str | None = None) -> Record:
    """An object; absent or null is an empty one."""
    given = record.get(name)
    if given is not None and not isinstance(given, dict):
        bad(f"{label or name}: expected an object, found {kind(given)}")
    return given or {}


def objects_in(record: Mapping[str, Any], name: str, wanted: str, label: str | None = None) -> list[Record]:
    """A list of objects; `wanted` names their fields in messages."""
    given = list_in(record, name, label)
    for i, item in enumerate(given):
        if not isinstance(item, dict):
            bad(f"{label or name}[{i}]: expected an object with {wanted}, found {kind(item)}")
    return given


def first_given(record: Mapping[str, Any], names: Iterable[str]) -> str | None:
    """The first of several names under which a record has anything but null or an empty list; empty text counts."""
    return next((name for name in names if record.get(name) not in (None, [])), None)


def id_in(record: Mapping[str, Any], line: int) -> str:
    """The field `id`, a text or a whole number; without one, `line-N`."""
    given = record.get("id")
    if given is None:
        return f"line-{line}"
    if isinstance(given, int) and not isinstance(given, bool):
        return str(given)
    return text_of(given, "id")


def meta_in(record: Mapping[str, Any], known: Iterable[str], *, spelling: bool = False) -> Record:
    """The fields that are not known, and what is inside `meta`."""
    return rest_of(record, (*known, "meta"), spelling=spelling) | object_in(record, "meta")


def rest_of(record: Mapping[str, Any], known: Iterable[str], *, spelling: bool = False) -> Record:
    """The fields that are not known; with `spelling`, a field that looks like a missing known one is refused."""
    known = tuple(known)
    rest = {name: value for name, value in record.items() if name not in known}
    missing = [name for name in known if name not in record] if spelling else []
    for name in rest:
        close = difflib.get_close_matches(name, missing, n=1, cutoff=0.8)
        if close:
            bad(f'unknown field "{name}"; did you mean "{close[0]}"?')
    return rest


def documents_in(given: list[Record], name: str, *, text: str = "text") -> list[Document]:
    """Documents from objects with the fields of `Document`; `name` and `text` are what the record calls them."""
    for i, document in enumerate(given):
        if document.get("title"):
            text_of(document["title"], f"{name}[{i}].title")
        text_of(document.get("text"), f"{name}[{i}].{text}")
    return list(as_documents(given))


def title_in(passage: Mapping[str, Any]) -> Any:
    """The title as it is, checked by `documents_in`; null is none."""
    return "" if passage.get("title") is None else passage["title"]


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
    if "provenance" in value:  # KILT has entries with evidence and no answer
        return []
    bad(f"{name}: expected an object with answer or text, found only {', '.join(value) or 'an empty one'}")
