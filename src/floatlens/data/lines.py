"""Records of a data file of any layout: JSON lines, one JSON document, TSV, Parquet or plain text, packed or not.

Files are read one record at a time. A file that is something else (a CSV, a Git LFS pointer, an HTML page, a pickle) is
refused by name. Messages about a record do not name it; the reader of the file adds file and place.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias

from floatlens.core.errors import FloatlensError
from floatlens.data.compression import BOM, PACKED, open_bytes, read_head, read_lines
from floatlens.data.fields import Record, Unit, bad, kind
from floatlens.data.json_documents import Kind, as_fields, document_kind, no_constant, no_pair_twice, read_document
from floatlens.data.paper_files import pointed_at
from floatlens.data.tables import is_table, read_parquet, read_tsv, refused_table

__all__ = ["Raw", "parse_record", "read_file", "read_rows"]

_LIST = re.compile(rb"\s*\[\s*(\{|\]\s*$)")
_BINARY = {
    b"PK\x03\x04": "a zip archive; unpack it first",
    b"ARROW1": "an Arrow file; write it as Parquet or JSON lines first",
    b"SQLite format 3": "an SQLite database; export its questions as JSON lines first",
    b"%PDF": "a PDF; give a data file",
    b"\x93NUMPY": "a NumPy array; write its records as JSON lines first",
}
_PICKLE = re.compile(rb"\x80[\x02-\x05](\x95|[\]}(\[cq])")
Layout: TypeAlias = Literal["lines", "document", "tsv", "parquet", "text"]


@dataclass(frozen=True)
class Raw:
    """A record that has been found; `load` decodes it or raises."""

    number: int
    unit: Unit
    load: Callable[[], Record]

    def place(self, path: str | Path) -> str:
        """Where it is: `x.jsonl:3`, or `x.json: record 3`."""
        return f"{path}:{self.number}" if self.unit in ("line", "paragraph") else f"{path}: {self.unit} {self.number}"


def read_file(path: Path, *, text: bool = False) -> Iterator[Raw]:
    """The records of a file; with `text` it is read as plain text whatever it looks like."""
    layout, how = _layout(path, text=text)
    if layout == "document":
        for number, key, value in read_document(path, how):
            yield Raw(number, "record", partial(_member, value, key))
    elif layout == "tsv":
        for number, fields in read_tsv(path):
            yield Raw(number, "row", partial(_row, fields))
    elif layout == "parquet":
        yield from read_rows(read_parquet(path))
    else:
        for number, line in _lines(path):
            yield Raw(number, "line", partial(parse_record if layout == "lines" else _paragraph, line))


def read_rows(rows: Iterator[tuple[int, dict[str, Any]]]) -> Iterator[Raw]:
    """The records of numbered rows."""
    for number, row in rows:
        yield Raw(number, "row", partial(Record, row, unit="row"))


def _member(value: Any, key: str | None) -> Record:
    return Record(as_fields(value, key), unit="record")


def _row(fields: Callable[[], dict[str, Any]]) -> Record:
    return Record(fields(), unit="row")


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Numbered lines that are not blank, without a byte-order mark."""
    with open_bytes(path) as file:
        for number, line in enumerate(read_lines(path, file), start=1):
            line = line.removeprefix(BOM) if number == 1 else line
            if line.strip():
                yield number, line


def _decoded(line: bytes) -> str:
    try:
        return line.rstrip(b"\r\n").decode("utf-8")
    except UnicodeDecodeError as error:
        raise FloatlensError(f"not UTF-8 (byte {error.start + 1} of the line)") from None


def _paragraph(line: bytes) -> Record:
    return Record({"text": _decoded(line)}, unit="paragraph")


def parse_record(line: bytes) -> Record:
    """The one JSON object that a line holds."""
    try:
        record = json.loads(_decoded(line), parse_constant=no_constant, object_pairs_hook=no_pair_twice)
    except RecursionError:
        raise FloatlensError("not a record: nested too deeply") from None
    except json.JSONDecodeError as error:
        raise FloatlensError(f"not valid JSON: {error.msg} at column {error.colno}") from None
    except ValueError as error:
        raise FloatlensError(f"not valid JSON: {error}") from None
    if not isinstance(record, dict):
        bad(f"expected one JSON object per line, found {kind(record)}")
    return Record(record)


# -- layouts ------------------------------------------------------------------------------------------------------


def _layout(path: Path, *, text: bool) -> tuple[Layout, Kind]:
    """How a file holds its records, by its first bytes; a file that holds none is refused."""
    head = read_head(path)
    if head.startswith(b"PAR1"):
        return "parquet", "record"
    other = _not_data(head)
    if other is not None:
        raise FloatlensError(f"{path}: {other}")
    if text:
        return "text", "record"
    lines = [line for line in head.split(b"\n") if line.strip()]
    document = _document(path, head, lines)
    if document is not None:
        return "document", document
    table = is_table(lines, path)
    if table is not None:
        refused = refused_table(*table, path)
        if refused is not None:
            raise FloatlensError(f"{path}: {refused}")
        return "tsv", "record"
    return "text" if _is_text(path, head) else "lines", "record"


def _not_data(head: bytes) -> str | None:
    """What a file is that cannot hold records, and what to do."""
    if not head:
        return "the file is empty; copy or download it again"
    start = head.lstrip()[:300]
    if start.startswith(b"version https://git-lfs"):
        return (
            f"a Git LFS pointer{pointed_at(start)} instead of the data; run git lfs pull in its repository, "
            "or download the file itself"
        )
    if start[:60].lower().startswith((b"<!doctype", b"<html", b"<?xml", b"<head")):
        return "an HTML page instead of data, such as an error or login page; download the file again"
    if _PICKLE.match(head):
        return "a pickle, which can run code when it is opened; write its records as JSON lines where you trust it"
    what = next((what for magic, what in _BINARY.items() if head.startswith(magic)), None)
    if what is None and b"\x00" in head[:4096]:
        what = "a binary file; give JSON lines, a JSON document, TSV, Parquet or text"
    return what


def _document(path: Path, head: bytes, lines: list[bytes]) -> Kind | None:
    """How one JSON document holds its records; None for JSON lines and for what is not JSON."""
    first = lines[0].strip() if lines else b""
    if not first.startswith((b"{", b"[")):
        return None
    several = len(lines) > 1 or _goes_on(path, head)
    if several and (b"\n" not in head.lstrip() or _is_json(first)):
        return None  # the first line is a record, or longer than the head
    if first.startswith(b"["):
        return "list" if _LIST.match(head) else None
    if several and lines[1].lstrip()[:1] not in (b'"', b"}") and not first.endswith((b"[", b":", b",")):
        return None  # a first line that is not JSON
    try:
        found = document_kind(path)
    except FloatlensError:
        return "record" if several else None  # the message of a line says the column
    return None if found == "record" and not several else found


def _goes_on(path: Path, head: bytes) -> bool:
    """Whether a second line that is not blank follows the first one, which may be longer than the head."""
    if b"\n" in head.strip():
        return True
    begun = ended = False
    with open_bytes(path) as stream:
        while piece := stream.readline(1 << 20):
            blank = not piece.removeprefix(BOM).strip()
            if ended and not blank:
                return True
            begun = begun or not blank
            ended = ended or (begun and piece.endswith(b"\n"))
    return False


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def _is_text(path: Path, head: bytes) -> bool:
    """Plain text has no fields to know it by, so its name has to say so."""
    suffixes = [suffix.lower() for suffix in path.suffixes if suffix.lower() not in PACKED]
    return suffixes[-1:] in ([".txt"], [".text"]) and not head.lstrip().startswith((b"{", b"["))
