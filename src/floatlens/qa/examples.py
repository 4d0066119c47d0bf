"""Examples from JSON lines, checked as they are read: a mistake is one line with file, line number and what is wrong.

Two formats, told apart by the first record of a file; a file keeps to one. A `.gz` is recognised by its content.

Our own:            {"id": "q1", "question": "…", "answers": ["…"], "documents": [{"title": "…", "text": "…",
                    "is_gold": true}], …}
Lost in the Middle: {"question": "…", "answers": ["…"], "ctxs": [{"title": "…", "text": "…", "isgold": true,
                    "hasanswer": true}], …}

- `question` is needed. `answers` may be empty or absent (not known); an empty text in it is a mistake.
- No documents is a closed-book question. Any number of documents may be gold, none included.
- An example without `id` is called `line-N` after its line; an id may occur once in a file.
- In ctxs `isgold` marks gold; where no passage of a record has that key, `hasanswer` does; `meta["gold_by"]` says which
- Other fields of a record are kept in `meta`; other fields of a passage are an error in our own format, and ignored in
  ctxs (retrievers leave ids and scores there). A field that looks like a misspelt one is an error.
"""

from __future__ import annotations

import difflib
import gzip
import json
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping
from io import BufferedReader
from pathlib import Path
from typing import Any, NoReturn

from pydantic import BaseModel, ConfigDict, Field

from floatlens.errors import FloatlensError, FloatlensWarning
from floatlens.prompts import Document, as_documents

__all__ = ["Example", "read_examples"]


class Example(BaseModel):
    """A question, its accepted answers and its documents. Example: `next(read_examples("nq.jsonl.gz")).question`"""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    id: str
    question: str
    answers: list[str] = Field(default_factory=list)
    documents: list[Document] = Field(default_factory=list)
    meta: dict[str, Any] = Field(default_factory=dict)


def read_examples(path: str | Path, *, limit: int | None = None, skip_bad: bool = False) -> Iterator[Example]:
    """Stream the examples of a file, at most `limit` of them.

    A bad record is a FloatlensError; with `skip_bad` it is left out, and a FloatlensWarning at the end says how many
    were and what was wrong with the first. A file without a single good example is an error either way.
    """
    if limit is not None and limit < 1:
        raise FloatlensError(f"limit={limit}: expected at least 1, or None for all")
    reader = _Reader(Path(path))
    first_bad, bad, good = "", 0, 0
    for number, line in _lines(Path(path)):
        try:
            example = reader.read(number, line)
        except FloatlensError as error:
            if not skip_bad:
                raise
            bad += 1
            first_bad = first_bad or str(error)
            continue
        good += 1
        yield example
        if good == limit:
            break
    if bad:
        message = f"{path}: {bad} bad record{'s' * (bad > 1)} skipped; the first was {first_bad}"
        warnings.warn(message, FloatlensWarning, stacklevel=2)
    if not good:
        raise FloatlensError(f"{path}: no {'good ' if bad else ''}example in it")


# -- lines --------------------------------------------------------------------------------------------------------


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Numbered lines that are not blank, without a byte-order mark."""
    try:
        with _open(path) as file:
            for number, line in enumerate(file, start=1):
                line = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
                if line.strip():
                    yield number, line
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise FloatlensError(f"{path}: the gzip file is damaged or cut short ({error}); copy it again") from error
    except OSError as error:
        raise FloatlensError(f"{path}: {error.strerror or error}; give a .jsonl or .jsonl.gz file") from error


def _open(path: Path) -> gzip.GzipFile | BufferedReader:
    with path.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
    return gzip.open(path) if packed else path.open("rb")


# -- records ------------------------------------------------------------------------------------------------------

_Record = dict[str, Any]
_FIELDS = ("id", "question", "answers", "documents", "meta")
_CTXS_FIELDS = ("id", "question", "answers", "ctxs")


class _Reader:
    """Turns lines of one file into examples; remembers the file's format and the ids it has seen."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._convert: Callable[[_Record], tuple[list[Document], _Record]] | None = None
        self._seen: dict[str, int] = {}

    def read(self, number: int, line: bytes) -> Example:
        try:
            record = _parse(line)
            if self._convert is None:
                self._convert = _ctxs if "ctxs" in record else _own
            documents, meta = self._convert(record)
            example = Example(
                id=_id(record, number),
                question=_text(record.get("question"), "question"),
                answers=_answers(record),
                documents=documents,
                meta=meta,
            )
            if example.id in self._seen:
                _bad(f"id {example.id!r} was used before, on line {self._seen[example.id]}; ids must be unique")
        except FloatlensError as error:
            raise FloatlensError(f"{self._path}:{number}: {error}") from None
        self._seen[example.id] = number
        return example


def _parse(line: bytes) -> _Record:
    try:
        record = json.loads(line.decode("utf-8"), parse_constant=_no_constant)
    except UnicodeDecodeError as error:
        raise FloatlensError(f"not UTF-8 (byte {error.start + 1} of the line)") from None
    except RecursionError:
        raise FloatlensError("not a record: nested too deeply") from None
    except json.JSONDecodeError as error:
        raise FloatlensError(f"not valid JSON: {error.msg} at column {error.colno}") from None
    except ValueError as error:
        raise FloatlensError(f"not valid JSON: {error}") from None
    if not isinstance(record, dict):
        _bad(f"expected one JSON object per line, found {_kind(record)}")
    return record


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _own(record: _Record) -> tuple[list[Document], _Record]:
    if "ctxs" in record:
        _bad('it has "ctxs", but the file began in the format with "documents"; keep to one')
    meta = _rest(record, _FIELDS)
    own_meta = record.get("meta")
    if own_meta is not None and not isinstance(own_meta, dict):
        _bad(f"meta: expected an object, found {_kind(own_meta)}")
    documents = _list(record, "documents")
    for i, document in enumerate(documents):
        if not isinstance(document, dict):
            _bad(f"documents[{i}]: expected an object with title, text and is_gold, found {_kind(document)}")
    return _checked(documents, "documents"), {**meta, **(own_meta or {})}


def _ctxs(record: _Record) -> tuple[list[Document], _Record]:
    if "ctxs" not in record:
        _bad('"ctxs" is missing, though the file began with it')
    meta = _rest(record, _CTXS_FIELDS)
    passages = _list(record, "ctxs")
    for i, passage in enumerate(passages):
        if not isinstance(passage, dict):
            _bad(f"ctxs[{i}]: expected an object with title, text and isgold, found {_kind(passage)}")
    marked = next((key for key in ("isgold", "hasanswer") if any(key in passage for passage in passages)), None)
    documents = []
    for i, passage in enumerate(passages):
        gold = passage.get(marked, False) if marked else False
        if not isinstance(gold, bool):
            _bad(f"ctxs[{i}].{marked}: expected true or false, found {_kind(gold)}")
        title = passage.get("title")
        documents.append({"title": "" if title is None else title, "text": passage.get("text"), "is_gold": gold})
    return _checked(documents, "ctxs"), meta | ({"gold_by": marked} if marked else {})


def _checked(documents: list[Any], name: str) -> list[Document]:
    for i, document in enumerate(documents):
        for field in ("title", "text"):
            if field == "text" or document.get(field):
                _text(document.get(field), f"{name}[{i}].{field}")
    return list(as_documents(documents))


def _rest(record: _Record, known: tuple[str, ...]) -> _Record:
    """What is not a known field, unless it looks like one that is missing."""
    missing = [name for name in known if name not in record]
    rest = {name: value for name, value in record.items() if name not in known}
    for name in rest:
        close = difflib.get_close_matches(name, missing, n=1, cutoff=0.8)
        if close:
            _bad(f'unknown field "{name}"; did you mean "{close[0]}"?')
    return rest


def _id(record: Mapping[str, Any], number: int) -> str:
    given = record.get("id")
    if given is None:
        return f"line-{number}"
    if isinstance(given, int) and not isinstance(given, bool):
        return str(given)
    return _text(given, "id")


def _answers(record: Mapping[str, Any]) -> list[str]:
    return [_text(answer, f"answers[{i}]") for i, answer in enumerate(_list(record, "answers"))]


def _list(record: Mapping[str, Any], name: str) -> list[Any]:
    given = record.get(name)
    if given is None:
        return []
    if not isinstance(given, list):
        _bad(f"{name}: expected a list, found {_kind(given)}")
    return given


def _text(value: Any, name: str) -> str:
    if value is None:
        _bad(f"{name} is missing")
    if not isinstance(value, str):
        _bad(f"{name}: expected a text, found {_kind(value)}")
    if not value.strip():
        _bad(f"{name} is empty")
    try:
        value.encode()
    except UnicodeEncodeError:
        _bad(f"{name} holds half a character (a lone surrogate), which no tokenizer takes")
    return value


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a text", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")


def _bad(message: str) -> NoReturn:
    raise FloatlensError(message)
