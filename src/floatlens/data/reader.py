"""Examples from files of any format, streamed and checked as they are read; a message names file, line and problem.

A file has one format: the one that is named, or the one its first record matches. An id may occur once in a file.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TypeVar, get_args

from pydantic import ValidationError

from floatlens.core.errors import FloatlensError, FloatlensWarning, did_you_mean
from floatlens.core.validation import in_one_line
from floatlens.data.examples import Example, Need, check_need
from floatlens.data.fields import Record, bad, in_short
from floatlens.data.formats import FORMATS, Format, detect
from floatlens.data.hub import is_hub, open_hub
from floatlens.data.lines import read_file, read_rows

__all__ = ["Tally", "read_examples", "read_records", "stream_examples"]

T = TypeVar("T")
_KEPT = 20
_UNUSED = ("target", "passage", "hole")


@dataclass
class Tally:
    """Counts of a file that is read: good and bad records, and the problems of the first bad ones.

    With `skip_bad` bad records are counted, without it the first is an error.
    """

    skip_bad: bool
    good: int = 0
    bad: int = 0
    problems: list[str] = field(default_factory=list)
    format: str = ""
    reason: str = ""  # why the file was taken for that format; "" if it was named
    left_out: int = 0  # records that hold no question, as their format knows them

    def add(self, problem: str) -> None:
        """Count a bad record; only the first 20 keep their message, as every record of a file may be bad."""
        if not self.skip_bad:
            raise FloatlensError(problem)
        self.bad += 1
        if len(self.problems) < _KEPT:
            self.problems.append(problem)

    def finish(self, path: str | Path, what: str, stacklevel: int) -> None:
        """Warn about what was left out, and refuse a file without a single good record."""
        if self.bad:
            said = f"{path}: {self.bad} bad record{'s' * (self.bad > 1)} skipped; the first was {self.problems[0]}"
            warnings.warn(said, FloatlensWarning, stacklevel=stacklevel + 1)
        if not self.good:
            raise FloatlensError(f"{path}: no {'good ' if self.bad else ''}{what} in it")


def read_examples(
    path: str | Path,
    *,
    limit: int | None = None,
    skip_bad: bool = False,
    format: str | None = None,
    need: Collection[Need] = (),
) -> Iterator[Example]:
    """Stream the examples of a file, at most `limit` of them.

    A bad record is a FloatlensError; with `skip_bad` it is left out, and a FloatlensWarning at the end says how many
    were and what was wrong with the first. A file without a single good example is an error either way.
    """
    tally = Tally(skip_bad)
    yield from stream_examples(path, tally, limit=limit, format=format, need=need)
    tally.finish(path, "example", stacklevel=2)


def stream_examples(
    path: str | Path, tally: Tally, *, limit: int | None, format: str | None, need: Collection[Need]
) -> Iterator[Example]:
    """The good examples of a file, counted as they are read."""
    if limit is not None and limit < 1:
        raise FloatlensError(f"limit={limit}: expected at least 1, or None for all")
    for name in need:
        if name not in get_args(Need):
            raise FloatlensError(f'need="{name}"{did_you_mean(name, get_args(Need))}')
    chosen = None if format is None else FORMATS[format]()
    tally.format = chosen.name if chosen else ""
    seen: dict[str, str] = {}

    def split(record: Record) -> list[Record]:
        nonlocal chosen
        if "hole" in record and record["hole"] is None:  # an example of a question, written with all fields
            kept = {name: value for name, value in record.items() if name not in _UNUSED or value is not None}
            record = Record(kept, unit=record.unit)
        if chosen is None:
            chosen = detect(record)
            tally.format, tally.reason = chosen.name, chosen.matches(record) or ""
        _keep_to(chosen, record, named=format is not None)
        parts = chosen.parts(record)
        tally.left_out += not parts
        return parts

    def read(record: Record, number: int) -> Example:
        assert chosen is not None
        try:
            example = chosen.read(record, number)
        except KeyError as error:
            bad(f"{error.args[0]} is missing")
        except ValidationError as error:
            bad(in_one_line(error))
        if example.id in seen:
            bad(f"id {example.id!r} was used before, on {seen[example.id]}; ids must be unique")
        check_need(example, need)
        seen[example.id] = f"{'line' if record.unit == 'paragraph' else record.unit} {number}"
        return example

    return islice(read_records(path, read, tally, split=split, text=format == "text"), limit)


def read_records(
    path: str | Path,
    read: Callable[[Record, int], T],
    tally: Tally,
    *,
    split: Callable[[Record], Iterable[Record]] = lambda record: [record],
    text: bool = False,
) -> Iterator[T]:
    """What `read` makes of each part of a record and its number; the bad ones are counted, with file and place.

    `split` gives the parts. With `text` the file is read as plain text.
    """
    for raw in read_rows(open_hub(str(path)).rows()) if is_hub(str(path)) else read_file(Path(path), text=text):
        try:
            parts = split(raw.load())
        except FloatlensError as error:
            tally.add(f"{raw.place(path)}: {in_short(str(error))}")
            continue
        for part in parts:
            try:
                made = read(part, raw.number)
            except FloatlensError as error:
                tally.add(f"{raw.place(path)}: {in_short(str(error))}")
            else:
                tally.good += 1
                yield made


def _keep_to(chosen: Format, record: Record, *, named: bool) -> None:
    """Refuse a record of another format: it would be read wrongly, without an error."""
    for name in chosen.marks if chosen.needs is None else chosen.needs:
        if not any(one in record for one in name.split("|")):
            name = name.partition("|")[0]
            why = f'which format "{chosen.name}" needs' if named else "though the file began with it"
            bad(f'"{name}" is missing, {why}')
    if not named and (chosen.fallback or chosen.matches(record) is None):
        for other in FORMATS.values():
            reason = None if other.fallback or other.name == chosen.name else other().matches(record)
            if reason is not None:
                bad(f"{reason}, but the file began in {chosen.title} format; keep to one")
