"""Records, the JSON objects of data files, with checked access to their fields, so each mistake has one wording.

Each method returns the type it promises, or raises with the name of the field and what was found.
"""

from __future__ import annotations

import difflib
import itertools
import math
from collections.abc import Mapping
from typing import Any, Literal, NoReturn, TypeAlias

from floatlens.core.errors import FloatlensError
from floatlens.prompts import Document

__all__ = [
    "LONGEST_NAME",
    "MOST_NAMES",
    "Record",
    "Unit",
    "answers_of",
    "bad",
    "in_short",
    "kind",
    "list_of",
    "parts_of",
    "text_of",
]

LONGEST_NAME, MOST_NAMES = 100, 200
"""Characters and number of the field names that are compared with known ones, as this takes time."""
_MOST_COMBINATIONS = 1000
_LONGEST = 400
"""Characters of a message about one record."""

Unit: TypeAlias = Literal["line", "record", "row", "paragraph"]
"""What a file counts its records in: lines, records of a JSON document, rows of a table, paragraphs of plain text."""


class Record(dict[str, Any]):
    """One JSON object; `at` is its place in the line, for messages. Example: `Record({"id": 7}).id(1)  # "7"`"""

    def __init__(self, fields: Mapping[str, Any], at: str = "", unit: Unit = "line") -> None:
        super().__init__(fields)
        self.prefix = f"{at}." if at else ""
        self.unit: Unit = unit

    def text(self, name: str) -> str:
        """A text that must be there."""
        return text_of(self.get(name), self.prefix + name)

    def elements(self, name: str) -> list[Any]:
        """A list; absent or null is an empty one."""
        return list_of(self.get(name), self.prefix + name)

    def texts(self, name: str) -> list[str]:
        """A list of texts; absent or null is an empty one."""
        return [text_of(item, f"{self.prefix}{name}[{i}]") for i, item in enumerate(self.elements(name))]

    def flag(self, name: str) -> bool:
        """True or false; absent is false."""
        given = self.get(name, False)
        if not isinstance(given, bool):
            bad(f"{self.prefix}{name}: expected true or false, found {kind(given)}")
        return given

    def child(self, name: str) -> Record:
        """An object; absent or null is an empty one."""
        given = self.get(name)
        if given is not None and not isinstance(given, dict):
            bad(f"{self.prefix}{name}: expected an object, found {kind(given)}")
        return Record(given or {}, self.prefix + name)

    def children(self, name: str, wanted: str) -> list[Record]:
        """A list of objects; `wanted` names their fields in messages."""
        made = []
        for i, item in enumerate(self.elements(name)):
            if not isinstance(item, dict):
                bad(f"{self.prefix}{name}[{i}]: expected an object with {wanted}, found {kind(item)}")
            made.append(Record(item, f"{self.prefix}{name}[{i}]"))
        return made

    def id(self, line: int, name: str = "id") -> str:
        """The field `id`, or another one; a text or a whole number; without one, `line-N`, `record-N` or `row-N`."""
        given = self.get(name)
        if given is None:
            return f"{self.unit}-{line}"
        return str(given) if type(given) is int else self.text(name)

    def title(self) -> str:
        """The field `title`; absent, null or "" is none."""
        return "" if self.get("title") in (None, "") else self.text("title")

    def document(self, text: str = "text", *, is_gold: bool = False) -> Document:
        """The document that this object is; `text` is the field of its text."""
        return Document(title=self.title(), text=self.text(text), is_gold=is_gold)

    def first_given(self, *names: str) -> str | None:
        """The first name under which there is anything but null or an empty list; empty text counts."""
        return next((name for name in names if self.get(name) not in (None, [])), None)

    def rest(self, *known: str, spelling: bool = False) -> dict[str, Any]:
        """The fields that are not known; with `spelling`, a field that looks like a missing known one is refused."""
        rest = {name: value for name, value in self.items() if name not in known}
        missing = [name for name in known if name not in self] if spelling else []
        for name in itertools.islice(rest, MOST_NAMES) if missing else ():
            close = difflib.get_close_matches(name, missing, n=1, cutoff=0.8) if len(name) <= LONGEST_NAME else []
            if close:
                bad(f'unknown field "{name}"; did you mean "{close[0]}"?')
        return rest

    def meta(self, *known: str, spelling: bool = False) -> dict[str, Any]:
        """The fields that are not known, and what is inside `meta`."""
        return self.rest(*known, "meta", spelling=spelling) | self.child("meta")


def bad(message: str) -> NoReturn:
    """Refuse a record."""
    raise FloatlensError(message)


def in_short(message: str) -> str:
    """A message as one line that can be printed, whatever names and values of a record it quotes."""
    said = " ".join(message[: 4 * _LONGEST].encode(errors="backslashreplace").decode().split())
    return said if len(said) <= _LONGEST else f"{said[:_LONGEST]}…"


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


def list_of(value: Any, name: str) -> list[Any]:
    """A list; null is an empty one."""
    if value is not None and not isinstance(value, list):
        bad(f"{name}: expected a list, found {kind(value)}")
    return value or []


def answers_of(value: Any, name: str) -> list[str]:
    """Accepted answers from a text, an object with `answer` or `text`, or a list of these; in order, each once."""
    if value is None:
        return []
    if isinstance(value, list):
        found = (text for i, item in enumerate(value) for text in answers_of(item, f"{name}[{i}]"))
        return list(dict.fromkeys(found))
    if not isinstance(value, dict):
        return [text_of(value, name)]
    for key in ("answer", "text"):
        if key in value:
            return answers_of(value[key], f"{name}.{key}")
    if "provenance" in value:  # KILT has entries with evidence and no answer
        return []
    bad(f"{name}: expected an object with answer or text, found only {', '.join(value) or 'an empty one'}")


def parts_of(given: Any, name: str) -> tuple[list[str], list[list[str]]]:
    """Accepted answers, and the parts they are made of, as RGB writes them.

    A list is parts that must all be named, a list within it alternatives of one part. An accepted answer names every
    part. Example: `parts_of([["Hest", "land of Hest"], "1402"], "answer")[0][0]  # "Hest and 1402"`
    """
    items = given if isinstance(given, list) else [given]
    parts = [answers_of(item, f"{name}[{i}]" if isinstance(given, list) else name) for i, item in enumerate(items)]
    parts = [part for part in parts if part]
    if not parts:
        return [], []
    combinations = math.prod(len(part) for part in parts)
    if combinations > _MOST_COMBINATIONS:
        bad(f"{name}: {len(parts)} parts with {combinations} combinations; at most {_MOST_COMBINATIONS}")
    return [" and ".join(chosen) for chosen in itertools.product(*parts)], parts
