"""Records: one JSON line per item that was done or failed, appended and flushed as soon as it is known.

`Record` is of a trace, `AnswerRecord` of an answer that was scored, and a run holds one sort of them; a study holds
both, as `StudyRecord`.

A last line that was cut short by a kill is taken off when the file is next opened; anything else that is not a record
is refused with its line number, because then somebody changed the file.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import ClassVar, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from floatlens.core.errors import FloatlensError
from floatlens.core.files import write_atomically
from floatlens.core.validation import in_one_line
from floatlens.prompts import EvidenceKind

__all__ = [
    "AnswerRecord",
    "BaseRecord",
    "Record",
    "StudyRecord",
    "append_record",
    "read_records",
    "write_records",
]


class BaseRecord(BaseModel):
    """What became of one item. `item` names it (and its files) within the run."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    runs: ClassVar[tuple[str, ...]] = ()
    """Kinds of runs that hold such records, as their manifests name themselves."""

    item: str
    index: int
    id: str
    status: Literal["done", "failed"]
    seconds: float | None = None
    warnings: tuple[str, ...] = ()
    error: str | None = None

    def complete(self, folder: Path) -> bool:
        """Whether the item is done and all that belongs to it is in the folder."""
        return self.status == "done"


class Record(BaseRecord):
    """Of a trace; `file` is relative to the folder.

    Where a text was `forced`, `answer` is that text, not the model's, and `log_likelihood` its mean log probability.
    """

    runs = ("trace",)

    question: str | None = None
    file: str | None = None
    answer: str | None = None
    gold: int | None = None
    evidence_kind: EvidenceKind | None = None
    dropped_documents: int | None = None
    steps: int | None = None
    forward_passes: int | None = None
    forced: bool | None = None
    log_likelihood: float | None = None

    def complete(self, folder: Path) -> bool:
        return super().complete(folder) and self.file is not None and (folder / self.file).is_file()


class AnswerRecord(BaseRecord):
    """Of a question that a model answered in one condition: what it said, and its scores (see qa.metrics).

    `prompt` is a digest of the prompt's token ids, so that two runs can be seen to have asked the same. `seconds` is
    the question's share of its batch.
    """

    runs: ClassVar[tuple[str, ...]] = ("qa", "stress", "intervene")

    model: str
    data: str
    condition: str
    prediction: str | None = None
    accuracy: float | None = None
    f1: float | None = None
    exact_match: float | None = None
    prompt: str | None = None
    prompt_tokens: int | None = None
    dropped_documents: int | None = None
    kl: float | None = None
    """Under an edit: divergence of the first distribution that it can reach from the unedited one."""
    measured: dict[str, float] | None = None
    """Of a question that was also traced: drift, absorption, attention moved (see `measuring`)."""
    moved: tuple[tuple[int, int, int, float], ...] | None = None
    """Of the same under an edit: (step, layer, rows changed, attention moved in them)."""
    retrieved: tuple[tuple[str, float], ...] | None = None
    """Ids and scores of the passages that were retrieved, best first."""


class StudyRecord(AnswerRecord):
    """Of one item of a study: an answer, or a trace with its file; `what` says which, and the other's fields are empty.

    A trace's `condition` is "trace", with the place of the gold document where the study sets one.
    """

    runs = ("study",)

    what: Literal["answer", "trace"] = "answer"
    question: str | None = None
    file: str | None = None
    answer: str | None = None
    gold: int | None = None
    evidence_kind: EvidenceKind | None = None
    steps: int | None = None
    forward_passes: int | None = None
    forced: bool | None = None
    log_likelihood: float | None = None

    def complete(self, folder: Path) -> bool:
        there = self.what == "answer" or (self.file is not None and (folder / self.file).is_file())
        return super().complete(folder) and there


R = TypeVar("R", bound=BaseRecord)


def read_records(path: Path, kind: type[R]) -> list[R]:
    """The records of a file, without a last line that was torn; no file is no records."""
    if not path.is_file():
        return []
    lines = path.read_bytes().split(b"\n")
    tail = lines.pop()  # empty when the last line was written whole
    records = []
    for number, line in enumerate(lines, start=1):
        try:
            records.append(kind.model_validate_json(line))
        except ValidationError as error:
            raise FloatlensError(
                f"{path}:{number}: not a record ({in_one_line(error)}); remove the line to have its item done again, "
                "or start a new folder"
            ) from None
    if tail:
        with suppress(ValidationError):  # torn: its item is done again
            records.append(kind.model_validate_json(tail))  # whole but for the line end
    return records


def append_record(path: Path, *records: BaseRecord) -> None:
    """Add a line each and push them to the disk, in a single write."""
    with path.open("ab") as file:
        file.write(b"".join(_line(record) for record in records))
        file.flush()
        os.fsync(file.fileno())


def write_records(path: Path, records: Iterable[BaseRecord]) -> None:
    """Replace the file by these records."""
    write_atomically(path, b"".join(_line(record) for record in records))


def _line(record: BaseRecord) -> bytes:
    return record.model_dump_json(exclude_none=True).encode() + b"\n"
