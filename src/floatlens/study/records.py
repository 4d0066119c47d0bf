"""Records: one JSON line per item that was done or failed, appended and flushed as soon as it is known.

A last line that was cut short by a kill is taken off when the file is next opened; anything else that is not a record
is refused with its line number, because then somebody changed the file.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from floatlens.errors import FloatlensError
from floatlens.prompts import EvidenceKind

__all__ = ["Record", "append_record", "read_records", "write_atomically", "write_records"]


class Record(BaseModel):
    """What became of one item. `item` names it (and its files) within the run; `file` is relative to the folder."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    item: str
    index: int
    id: str
    status: Literal["done", "failed"]
    question: str | None = None
    file: str | None = None
    answer: str | None = None
    gold: int | None = None
    evidence_kind: EvidenceKind | None = None
    dropped_documents: int | None = None
    steps: int | None = None
    forward_passes: int | None = None
    seconds: float | None = None
    warnings: tuple[str, ...] = ()
    error: str | None = None


def read_records(path: Path) -> list[Record]:
    """The records of a file, without a last line that was torn; no file is no records."""
    if not path.is_file():
        return []
    lines = path.read_bytes().split(b"\n")
    tail = lines.pop()  # empty when the last line was written whole
    records = []
    for number, line in enumerate(lines, start=1):
        try:
            records.append(Record.model_validate_json(line))
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            raise FloatlensError(
                f"{path}:{number}: not a record ({first['msg']}); remove the line to have its item done again, "
                "or start a new folder"
            ) from None
    if tail:
        with suppress(ValidationError):  # torn: its item is done again
            records.append(Record.model_validate_json(tail))  # whole but for the line end
    return records


def append_record(path: Path, record: Record) -> None:
    """Add one line and push it to the disk, in a single write."""
    with path.open("ab", buffering=0) as file:
        file.write(_line(record))
        os.fsync(file.fileno())


def write_records(path: Path, records: Iterable[Record]) -> None:
    """Replace the file by these records."""
    write_atomically(path, b"".join(_line(record) for record in records))


def write_atomically(path: Path, content: bytes) -> None:
    """Write beside the place and rename into it, so that a reader meets the old file or the new one, never half."""
    beside = path.with_name(f".{path.name}.new")
    with beside.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(beside, path)


def _line(record: Record) -> bytes:
    return record.model_dump_json(exclude_none=True).encode() + b"\n"
