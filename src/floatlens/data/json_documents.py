"""Records of one JSON document, decoded one at a time: a list, a mapping from ids to records, or a list under a key.

Only the record being decoded is in memory. A document that breaks off or is not JSON is an error of the whole file:
what follows cannot be read, so it is never left out silently.
"""

from __future__ import annotations

import codecs
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, NoReturn, TypeAlias

from floatlens.core.errors import FloatlensError
from floatlens.data.compression import BOM, LONGEST, open_bytes
from floatlens.data.fields import in_short, kind

__all__ = ["LIST_KEYS", "Kind", "as_fields", "document_kind", "no_constant", "no_pair_twice", "read_document"]

Kind: TypeAlias = Literal["list", "mapping", "under a key", "record"]
LIST_KEYS = ("data", "questions", "examples", "records", "instances", "items", "rows", "dev", "test", "train")
"""Keys under which a document keeps its records."""
_CHUNK = 1 << 16
_NEAR_END = 16  # an error this close to the end of the buffer may only mean that more has to be read


def no_constant(name: str) -> NoReturn:
    """Refuse NaN and Infinity, which Python's json module accepts."""
    raise ValueError(f"{name} is not JSON")


def no_pair_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse an object with a field twice, of which Python's json module keeps the last without a word."""
    made = dict(pairs)
    if len(made) < len(pairs):
        twice = next(name for name, times in Counter(name for name, _ in pairs).items() if times > 1)
        raise ValueError(f'the field "{twice}" is there twice')
    return made


class _Scanner:
    """A position in a JSON text that is read in pieces."""

    def __init__(self, stream: Any) -> None:
        self._stream, self._text, self._at, self._ended = stream, "", 0, False
        self._decode = codecs.getincrementaldecoder("utf-8")()
        self._json = json.JSONDecoder(parse_constant=no_constant, object_pairs_hook=no_pair_twice)
        self._started = False

    def _more(self) -> bool:
        """Read on; false at the end."""
        if self._ended:
            return False
        size = max(_CHUNK, len(self._text) - self._at)  # doubles, so a long record is not decoded too often
        if size > LONGEST:
            raise FloatlensError(f"a record of more than {LONGEST >> 20} MB, which is no record of a question")
        read = self._stream.read(size)
        if not self._started:
            read, self._started = read.removeprefix(BOM), True
        self._ended = not read
        try:
            self._text = self._text[self._at :] + self._decode.decode(read, final=self._ended)
        except UnicodeDecodeError:
            raise FloatlensError("not UTF-8") from None
        self._at = 0
        return not self._ended

    def peek(self) -> str:
        """The next character that is not white space; "" at the end."""
        while True:
            while self._at < len(self._text):
                if self._text[self._at] not in " \t\r\n":
                    return self._text[self._at]
                self._at += 1
            if not self._more() and self._at >= len(self._text):
                return ""

    def take(self, *wanted: str) -> str:
        """The next character, which must be one of these."""
        found = self.peek()
        if found not in wanted:
            expected = " or ".join(f'"{one}"' for one in wanted)
            what = f'"{found}"' if found else "the end of the file"
            raise FloatlensError(f"not valid JSON: expected {expected}, found {what}")
        self._at += 1
        return found

    def value(self) -> Any:
        """The next value."""
        if not self.peek():
            raise FloatlensError("not valid JSON: the document breaks off")
        while True:
            try:
                value, end = self._json.raw_decode(self._text, self._at)
            except RecursionError:
                raise FloatlensError("nested too deeply") from None
            except json.JSONDecodeError as error:
                unsure = error.msg.startswith("Unterminated") or error.pos >= len(self._text) - _NEAR_END
                if unsure and self._more():
                    continue
                cut = self._ended and unsure
                raise FloatlensError(f"not valid JSON: {'the document breaks off' if cut else error.msg}") from None
            except ValueError as error:
                raise FloatlensError(f"not valid JSON: {error}") from None
            if end == len(self._text) and self._more():  # a number may go on
                continue
            self._at = end
            return value

    def key(self) -> str:
        """The next key and its colon."""
        if self.peek() != '"':
            self.take('"')
        found = str(self.value())
        self.take(":")
        return found

    def list_of_objects(self) -> bool:
        """Whether a list that begins with an object comes next; nothing is consumed but white space."""
        if self.peek() != "[":
            return False
        ahead = 1
        while True:
            while self._at + ahead < len(self._text):
                if self._text[self._at + ahead] not in " \t\r\n":
                    return self._text[self._at + ahead] == "{"
                ahead += 1
            if not self._more():
                return False


def document_kind(path: Path) -> Kind:
    """How a document holds its records; an object that is neither list nor mapping is itself a record."""
    with open_bytes(path) as stream:
        scan = _Scanner(stream)
        if scan.take("[", "{") == "[":
            return "list"
        return _object_kind(scan)


def _object_kind(scan: _Scanner) -> Kind:
    """A mapping begins with an object and goes on with another one, or ends."""
    before: list[bool] = []
    while scan.peek() != "}":
        key = scan.key()
        if key.lower() in LIST_KEYS and scan.list_of_objects():
            return "under a key"
        is_object = scan.peek() == "{"
        if before == [True]:
            return "mapping" if is_object else "record"
        scan.value()
        before.append(is_object)
        if scan.peek() == "}":
            break
        scan.take(",")
    return "mapping" if before == [True] else "record"


def read_document(path: Path, how: Kind) -> Iterator[tuple[int, str | None, Any]]:
    """Numbered values that ought to be records, with their key in a mapping."""
    count = 0
    with open_bytes(path) as stream:
        scan = _Scanner(stream)
        try:
            for key, value in _values(scan, how):
                count += 1
                yield count, key, value
            if scan.peek():
                raise FloatlensError("more text follows the JSON document; give JSON lines or one document")
        except FloatlensError as error:
            raise FloatlensError(f"{path}: after record {count}: {in_short(str(error))}") from None


def _values(scan: _Scanner, how: Kind) -> Iterator[tuple[str | None, Any]]:
    if how == "list":
        yield from _elements(scan)
    elif how == "record":
        yield None, scan.value()
    else:
        yield from _members(scan, mapping=how == "mapping")


def _elements(scan: _Scanner) -> Iterator[tuple[None, Any]]:
    scan.take("[")
    if scan.peek() == "]":
        scan.take("]")
        return
    while True:
        yield None, scan.value()
        if scan.take(",", "]") == "]":
            return


def _members(scan: _Scanner, *, mapping: bool) -> Iterator[tuple[str | None, Any]]:
    found, seen = "", set[str]()
    scan.take("{")
    while True:
        key = scan.key()
        if key in seen:
            raise FloatlensError(f'the field "{key}" is there twice')
        seen.add(key)
        if mapping:
            yield key, scan.value()
        elif not scan.list_of_objects():
            scan.value()  # a version, a licence
        elif found:
            raise FloatlensError(f'lists of records under "{found}" and "{key}"; keep one of them')
        else:
            found = key
            yield from _elements(scan)
        if scan.take(",", "}") == "}":
            return


def as_fields(value: Any, key: str | None) -> dict[str, Any]:
    """A value as the fields of a record; the key of a mapping is its id, unless it has one."""
    if not isinstance(value, dict):
        raise FloatlensError(f"expected an object, found {kind(value)}")
    return value if key is None or value.get("id") is not None else {"id": key, **value}
