"""A corpus of passages: JSON lines, plain or gzipped, streamed; and a stored copy with access by number.

A passage has its text in `text`, `contents` or `segment`, and may have a title and an id. Ids need not be unique: a
passage is identified by its line.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from floatlens.data.fields import Record, bad, kind
from floatlens.data.reader import Tally, read_records

__all__ = ["Passage", "PassageStore", "read_corpus"]


class Passage(BaseModel):
    """One passage and its line in the corpus file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    line: int
    id: str
    title: str = ""
    text: str
    wikipedia_id: str | None = None


def read_corpus(path: str | Path, *, skip_bad: bool = False) -> Iterator[Passage]:
    """Stream the passages of a file; bad lines as in `read_examples`. Example: `next(read_corpus("wiki.jsonl.gz"))`"""
    tally = Tally(skip_bad)
    yield from read_records(path, _passage, tally)
    tally.finish(path, "passage", stacklevel=2)


def _passage(record: Record, number: int) -> Passage:
    where = record.first_given("text", "contents", "segment")
    if where is None:
        bad("text is missing: expected it in text, contents or segment")
    text = record.text(where)
    titled = record.first_given("title", "wikipedia_title")
    title = record.text(titled) if titled and record[titled] != "" else ""
    if where == "contents" and not titled:
        # FlashRAG and Pyserini write the title as the first line, often in quotes
        head, _, tail = text.partition("\n")
        if tail.strip():
            title, text = head.strip().strip('"'), tail
    named = record.first_given("id", "_id", "docid")
    given = f"line-{number}" if named is None else record[named]
    if isinstance(given, bool) or not isinstance(given, str | int):
        bad(f"{named}: expected a text or a number, found {kind(given)}")
    page = record.get("wikipedia_id")
    return Passage(line=number, id=str(given), title=title, text=text, wikipedia_id=None if page is None else str(page))


class PassageStore:
    """Passages by number, from a folder: a file of lines, and the offset of each in a memory-mapped array.

    A copy, because a gzipped corpus has no random access. Example: `PassageStore(folder)[17].title`
    """

    _LINES, _STARTS = "passages.jsonl", "starts.npy"

    def __init__(self, folder: Path) -> None:
        self._path = folder / self._LINES
        self._starts: NDArray[np.int64] = np.load(folder / self._STARTS, mmap_mode="r", allow_pickle=False)

    def __len__(self) -> int:
        return len(self._starts)

    def __getitem__(self, number: int) -> Passage:
        with self._path.open("rb") as file:
            file.seek(int(self._starts[number]))
            return Passage.model_validate_json(file.readline())

    @classmethod
    def write(cls, folder: Path, passages: Iterator[Passage]) -> Iterator[Passage]:
        """Store passages and pass them on; the store is complete after the last one."""
        starts, at = [], 0
        with (folder / cls._LINES).open("wb") as file:
            for passage in passages:
                line = json.dumps(passage.model_dump(exclude_defaults=True), ensure_ascii=False).encode() + b"\n"
                file.write(line)
                starts.append(at)
                at += len(line)
                yield passage
        np.save(folder / cls._STARTS, np.asarray(starts, dtype=np.int64), allow_pickle=False)
