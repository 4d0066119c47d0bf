"""Reading and writing records.jsonl and reading manifest.json.

A record is appended and flushed to disk as soon as its item is done or has failed. A last line that a kill cut short is
dropped when the file is next opened; any other line that is not a record is an error with its line number.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from floatlens.core.errors import FloatlensError
from floatlens.core.files import write_atomically
from floatlens.core.validation import in_one_line
from floatlens.records.frame import answers_frame, patching_frame
from floatlens.records.record import Record

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "FORMAT",
    "RECORDS",
    "append_records",
    "has_answers",
    "is_run",
    "open_answers",
    "open_patching",
    "read_manifest",
    "read_records",
    "write_records",
]

FORMAT = 3
"""Version of manifest.json and records.jsonl."""
RECORDS = "records.jsonl"
_MANIFEST = "manifest.json"


def read_records(folder: Path) -> list[Record]:
    """The records of a run folder, in the order in which items were done; a torn last line is left out."""
    path = folder / RECORDS
    if not path.is_file():
        return []
    lines = path.read_bytes().split(b"\n")
    tail = lines.pop()  # empty when the last line was written whole
    records = []
    for number, line in enumerate(lines, start=1):
        try:
            records.append(Record.model_validate_json(line))
        except ValidationError as error:
            raise FloatlensError(
                f"{path}:{number}: not a record ({in_one_line(error)}); delete the line to have its item done again, "
                "or start a new folder"
            ) from None
    if tail:
        with suppress(ValidationError):  # torn: its item is done again
            records.append(Record.model_validate_json(tail))  # whole except for the line end
    return records


def append_records(folder: Path, records: Iterable[Record]) -> None:
    """Add one line for each record, in a single write that is flushed to disk."""
    with (folder / RECORDS).open("ab") as file:
        file.write(b"".join(record.line() for record in records))
        file.flush()
        os.fsync(file.fileno())


def write_records(folder: Path, records: Iterable[Record]) -> None:
    """Replace all records of a run folder."""
    write_atomically(folder / RECORDS, b"".join(record.line() for record in records))


# -- the manifest -------------------------------------------------------------------------------------------------


def is_run(folder: Path) -> bool:
    """Whether a folder is a run folder."""
    return (folder / _MANIFEST).is_file()


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a run folder; one written by an older floatlens is refused."""
    path = folder / _MANIFEST
    if not path.is_file():
        raise FloatlensError(f"{folder}: not a run folder (it has no {_MANIFEST})")
    try:
        found = json.loads(path.read_bytes())
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise FloatlensError(f"{path}: not valid JSON ({error}); start a new folder") from None
    if not isinstance(found, dict) or "format" not in found:
        raise FloatlensError(f"{path}: not the manifest of a run; give another folder")
    if found["format"] != FORMAT:
        raise FloatlensError(
            f"{folder}: a run folder of format {found['format']}, and this floatlens reads format {FORMAT}; "
            "run it again into a new folder"
        )
    return found


def has_answers(folder: Path) -> bool:
    """Whether a run folder has an answer on record, or a question that was patched."""
    return is_run(folder) and any(one.what != "trace" and one.status == "done" for one in read_records(folder))


def open_answers(folder: Path) -> tuple[pd.DataFrame, dict[str, Any]]:
    """The answers frame of a run folder, and its manifest. Example: `open_answers(Path("runs/qa"))[0].accuracy`"""
    manifest = read_manifest(folder)
    return answers_frame(read_records(folder), manifest["models"]), manifest


def open_patching(folder: Path) -> pd.DataFrame:
    """The patching frame of a run folder. Example: `open_patching(Path("runs/qa")).effect`"""
    return patching_frame(read_records(folder), read_manifest(folder)["models"])
