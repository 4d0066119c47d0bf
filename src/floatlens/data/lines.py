"""JSON lines, plain or gzipped, read one at a time: a file of any size takes the memory of one line.

A file that is something else (a CSV, one JSON document, a Git LFS pointer, an HTML page) is refused by name. Messages
about a line do not name it; the reader of the file adds file and line number.
"""

from __future__ import annotations

import csv
import gzip
import json
import re
import zlib
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path
from typing import NoReturn

from floatlens.core.errors import FloatlensError
from floatlens.data.fields import Record, bad, kind

__all__ = ["parse_record", "read_lines"]

_BOM = b"\xef\xbb\xbf"
_LIST = re.compile(rb"\s*\[\s*\{")
_RECORD = re.compile(rb'\s*"[^"]*"\s*:\s*\{')
"""A line of a mapping from ids to records."""


def read_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Numbered lines that are not blank, without a byte-order mark. A gzip file is recognised by its content."""
    try:
        with _open(path) as file:
            other = _not_json_lines(file.peek(1 << 13).removeprefix(_BOM), path)
            if other is not None:
                raise FloatlensError(f"{path}: {other}")
            for number, line in enumerate(file, start=1):
                line = line.removeprefix(_BOM) if number == 1 else line
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


def parse_record(line: bytes) -> Record:
    """The one JSON object that a line holds."""
    try:
        record = json.loads(line.rstrip(b"\r\n").decode("utf-8"), parse_constant=_no_constant)
    except UnicodeDecodeError as error:
        raise FloatlensError(f"not UTF-8 (byte {error.start + 1} of the line)") from None
    except RecursionError:
        raise FloatlensError("not a record: nested too deeply") from None
    except json.JSONDecodeError as error:
        raise FloatlensError(f"not valid JSON: {error.msg} at column {error.colno}") from None
    except ValueError as error:
        raise FloatlensError(f"not valid JSON: {error}") from None
    if not isinstance(record, dict):
        bad(f"expected one JSON object per line, found {kind(record)}")
    return Record(record)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _not_json_lines(head: bytes, path: Path) -> str | None:
    """What a file is, by its first bytes, and what to do, if it is a known kind of file other than JSON lines."""
    if not head:
        return "the file is empty; copy or download it again"
    start = head.lstrip()[:60].lower()
    if start.startswith(b"version https://git-lfs"):
        return "a Git LFS pointer instead of the data; run git lfs pull in its repository, or download the file itself"
    if start.startswith((b"<!doctype", b"<html", b"<?xml", b"<head")):
        return "an HTML page instead of data, such as an error or login page; download the file again"
    lines = [line for line in head.split(b"\n") if line.strip()]
    return _json_document(lines, path) or _table(lines, path)


def _json_document(lines: list[bytes], path: Path) -> str | None:
    """One JSON document: a list of objects, or an object over several lines."""
    following = lines[1].lstrip()[:1] if len(lines) > 1 else b""
    if _LIST.match(b"\n".join(lines)) and not (following and _is_json(lines[0])):
        what, program = "a list", ".[]"
    elif lines and lines[0].lstrip().startswith(b"{") and following in (b'"', b"}") and not _is_json(lines[0]):
        what, program = "an object", ".[]" if _RECORD.match(lines[1]) else "."
    else:
        return None
    named = path.name.removesuffix(".gz").removesuffix(".json").removesuffix(".jsonl")
    packed = "zcat" if path.suffix == ".gz" else "cat"
    return (
        f"one JSON document ({what}) instead of JSON lines; write one record per line: "
        f"{packed} {path.name} | jq -c '{program}' > {named}.lines.jsonl"
    )


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def _table(lines: list[bytes], path: Path) -> str | None:
    """Comma- or tab-separated values: two rows with the same number of columns, or a file that is named so."""
    try:
        first, *rest = [line.decode("utf-8").rstrip("\r") for line in lines[:2]]
    except (UnicodeDecodeError, ValueError):
        return None
    if first.lstrip().startswith(("{", "[")):
        return None
    named = ".csv" in path.suffixes or ".tsv" in path.suffixes
    for name, separator in (("TSV", "\t"), ("CSV", ",")):
        rows = list(csv.reader([first, *rest], delimiter=separator))
        if len(rows[0]) > 1 and (named or (len(rows) > 1 and len(rows[1]) == len(rows[0]))):
            option = ', sep="\\t"' if name == "TSV" else ""
            return (
                f"a {name} file with the columns {', '.join(rows[0])[:80]} instead of JSON lines; convert it with "
                f'pandas: pd.read_csv("{path.name}"{option}).to_json("{path.name}.jsonl", orient="records", lines=True)'
            )
    return None
