"""JSON lines, plain or gzipped, one at a time: a file of any size costs the memory of one line.

What is wrong with a line is said without its place; whoever reads a file adds file and line number. It knows JSON and
nothing of what the records mean.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

from floatlens.core.errors import FloatlensError
from floatlens.data.fields import bad, kind

__all__ = ["Record", "parse_record", "read_lines"]

Record: TypeAlias = dict[str, Any]


def read_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Numbered lines that are not blank, without a byte-order mark. A gzip file is recognised by its content."""
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
    return record


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
