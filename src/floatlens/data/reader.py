"""Examples from files of any format, streamed and checked as they are read; a message names file, line and problem.

A file has one format: the one that is named, or the one its first record matches. An id may occur once in a file.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import get_args

from pydantic import ValidationError

from floatlens.core.errors import FloatlensError, FloatlensWarning, did_you_mean
from floatlens.core.validation import in_one_line
from floatlens.data.examples import Example, Need, check_need
from floatlens.data.fields import Record, bad
from floatlens.data.formats import FORMATS, Format, detect
from floatlens.data.lines import parse_record, read_lines

__all__ = ["Tally", "read_examples", "stream_examples"]

_KEPT = 20
_UNUSED = ("target", "passage", "hole")


@dataclass
class Tally:
    """Counts of a file that was read: good and bad records, and the problems of the first bad ones."""

    good: int = 0
    bad: int = 0
    problems: list[str] = field(default_factory=list)
    format: str | None = None

    def add(self, problem: str) -> None:
        """Count a bad record; only the first 20 keep their message, as every record of a file may be bad."""
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
    tally = Tally()

    def refuse(problem: str) -> None:
        if not skip_bad:
            raise FloatlensError(problem)
        tally.add(problem)

    yield from stream_examples(path, tally, refuse, limit=limit, format=format, need=need)
    tally.finish(path, "example", stacklevel=2)


def stream_examples(
    path: str | Path,
    tally: Tally,
    on_bad: Callable[[str], None],
    *,
    limit: int | None = None,
    format: str | None = None,
    need: Collection[Need] = (),
) -> Iterator[Example]:
    """The good examples of a file; each bad record goes to `on_bad` as the line that says what is wrong with it."""
    if limit is not None and limit < 1:
        raise FloatlensError(f"limit={limit}: expected at least 1, or None for all")
    for name in need:
        if name not in get_args(Need):
            raise FloatlensError(f'need="{name}"{did_you_mean(name, get_args(Need))}')
    reader = _Reader(format, need)
    for number, line in read_lines(Path(path)):
        try:
            example = reader.read(number, line)
        except FloatlensError as error:
            on_bad(f"{path}:{number}: {error}")
            continue
        tally.good, tally.format = tally.good + 1, reader.format_name
        yield example
        if tally.good == limit:
            return


class _Reader:
    """Turns lines of one file into examples; remembers the file's format and the ids it has seen."""

    def __init__(self, format: str | None, need: Collection[Need]) -> None:
        self._format = None if format is None else FORMATS[format]()
        self._named = format is not None
        self._need = need
        self._seen: dict[str, int] = {}

    @property
    def format_name(self) -> str | None:
        return None if self._format is None else self._format.name

    def read(self, number: int, line: bytes) -> Example:
        record = parse_record(line)
        if "hole" in record and record["hole"] is None:  # an example of a question, written with all fields
            record = {name: value for name, value in record.items() if name not in _UNUSED or value is not None}
        if self._format is None:
            self._format = detect(record)
        _keep_to(self._format, record, named=self._named)
        try:
            example = self._format.read(record, number)
        except KeyError as error:
            bad(f"{error.args[0]} is missing")
        except ValidationError as error:
            bad(in_one_line(error))
        if example.id in self._seen:
            bad(f"id {example.id!r} was used before, on line {self._seen[example.id]}; ids must be unique")
        check_need(example, self._need)
        self._seen[example.id] = number
        return example


def _keep_to(chosen: Format, record: Record, *, named: bool) -> None:
    """Refuse a record of another format: it would be read wrongly, without an error."""
    for name in chosen.marks if chosen.needs is None else chosen.needs:
        if name not in record:
            why = f'which format "{chosen.name}" needs' if named else "though the file began with it"
            bad(f'"{name}" is missing, {why}')
    if chosen.fallback and not named:
        for other in FORMATS.values():
            reason = None if other.fallback else other().matches(record)
            if reason is not None:
                bad(f"{reason}, but the file began in {chosen.title} format; keep to one")
