"""Dated documents: versions with a first and a last day, read from JSON lines and checked.

A line adds a document (`added`), replaces its text (`corrected`, the same id) or takes it out (`withdrawn`, also on the
line of its last version). `answers` says which questions a version answers, and how: what is right at a date follows
from the versions that are live then, and from nothing else.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from floatlens.core.errors import FloatlensError
from floatlens.data.fields import Record, answers_of, bad, kind, text_of
from floatlens.data.reader import Tally, read_records

__all__ = ["DatedCollection", "Version", "as_date", "open_collection", "short_date"]

_DATE = re.compile(r"(\d{4})(?:-(\d\d)(?:-(\d\d))?)?")
_KNOWN = ("id", "title", "text", "added", "corrected", "withdrawn", "answers")


class Version(BaseModel):
    """One version of a document, live from `start` up to but not including `end` (None: for good)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    title: str = ""
    text: str
    start: str
    end: str | None = None
    withdrawn: bool = Field(False, description="whether it ended without a successor")
    corrects: bool = Field(False, description="whether it replaced an earlier version")
    answers: dict[str, tuple[str, ...]] = Field(default_factory=dict, description="by id of the question")

    def is_live(self, date: str) -> bool:
        return self.start <= date and (self.end is None or date < self.end)


class DatedCollection:
    """Versions of documents in a fixed order. Example: `open_collection("corpus.jsonl").dates[-1]`"""

    def __init__(self, versions: Iterable[Version]) -> None:
        self.versions = tuple(versions)

    def __len__(self) -> int:
        """The number of documents, each counted once however many versions it has."""
        return len({version.id for version in self.versions})

    @cached_property
    def dates(self) -> tuple[str, ...]:
        """Every date at which something changed, in order."""
        ends = {version.end for version in self.versions if version.end is not None}
        return tuple(sorted({version.start for version in self.versions} | ends))

    @cached_property
    def withdrawn(self) -> dict[str, str]:
        """The date at which a document was withdrawn, by id."""
        return {one.id: one.end for one in self.versions if one.withdrawn and one.end is not None}

    @cached_property
    def sha256(self) -> str:
        """A digest of all versions."""
        lines = (version.model_dump_json() for version in self.versions)
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()

    def about(self, question: str) -> Sequence[Version]:
        """The versions that answer a question, in order."""
        return self._about.get(question, ())

    @cached_property
    def _about(self) -> dict[str, list[Version]]:
        found: dict[str, list[Version]] = {}
        for version in self.versions:
            for question in version.answers:
                found.setdefault(question, []).append(version)
        return found

    def choose_dates(self, count: int) -> list[str]:
        """At most `count` dates: all at which something changed, else those of documents that answer a question, with
        about as many of these documents between any two.
        """
        if len(self.dates) <= count:
            return list(self.dates)
        starts = sorted(version.start for version in self.versions if version.answers)
        return sorted({starts[int((i + 0.5) * len(starts) / count)] for i in range(count)})

    def sentence(self) -> str:
        """What it holds. Example: "120 documents from 2021-01-01 to 2024-01-01, 30 corrected, 28 withdrawn"."""
        corrected = len({version.id for version in self.versions if version.corrects})
        span = f" from {self.dates[0]} to {self.dates[-1]}" if self.dates else ""
        return f"{len(self):,} documents{span}, {corrected:,} corrected, {len(self.withdrawn):,} withdrawn"


def open_collection(path: str | Path) -> DatedCollection:
    """The dated documents of a file; a mistake is an error with file and line.
    Example: `len(open_collection("corpus.jsonl"))`"""
    log = _Log()
    tally = Tally(skip_bad=False)
    try:
        for _ in read_records(path, log.take, tally):
            pass
    except OSError as error:
        raise FloatlensError(f"{path}: {error.strerror or error}; give a .jsonl or .jsonl.gz file") from None
    tally.finish(path, "dated document", stacklevel=2)
    return DatedCollection(log.versions())


class _Log:
    """The lines of a file, one after the other: every line is checked against what came before it."""

    def __init__(self) -> None:
        self._made: list[Version] = []
        self._last: dict[str, int] = {}

    def take(self, record: Record, number: int) -> None:
        id = record.id(number) if "id" in record else bad("id is missing")
        record.rest(*_KNOWN, spelling=True)
        given = [name for name in ("added", "corrected") if record.get(name) is not None]
        if len(given) > 1:
            bad(f"document {id!r} has both added and corrected; write each version on a line of its own")
        if given:
            self._begin(record, id, given[0])
        elif record.get("withdrawn") is None:
            bad(f"document {id!r} has no date; give added, corrected or withdrawn, such as 2021-06-01")
        elif record.get("text") is not None:
            bad(f"document {id!r} has a text and only withdrawn; give the date it was added as well")
        if record.get("withdrawn") is not None:
            self._withdraw(record, id)

    def versions(self) -> Iterator[Version]:
        return iter(self._made)

    def _begin(self, record: Record, id: str, how: str) -> None:
        start, before = as_date(record[how], how), self._before(id)
        if how == "added" and before is not None:
            bad(f"document {id!r} was added before; a later version of it has corrected, or give another id")
        if how == "corrected":
            if before is None:
                bad(f"document {id!r} is corrected before a line has added it")
            if before.withdrawn:
                bad(f"document {id!r} is corrected after it was withdrawn; give the new document another id")
            if start <= before.start:
                bad(f"corrected is {start}, not after {before.start}, when the version before it began")
            self._made[self._last[id]] = before.model_copy(update={"end": start})
        title = record.title() or (before.title if before is not None else "")
        self._last[id] = len(self._made)
        self._made.append(
            Version(
                id=id,
                title=title,
                text=record.text("text"),
                start=start,
                corrects=before is not None,
                answers=_answers(record),
            )
        )

    def _withdraw(self, record: Record, id: str) -> None:
        end, before = as_date(record["withdrawn"], "withdrawn"), self._before(id)
        if before is None:
            bad(f"document {id!r} is withdrawn before a line has added it")
        if before.withdrawn:
            bad(f"document {id!r} was withdrawn before, on {before.end}")
        if end <= before.start:
            bad(f"withdrawn is {end}, not after {before.start}, when its last version began")
        self._made[self._last[id]] = before.model_copy(update={"end": end, "withdrawn": True})

    def _before(self, id: str) -> Version | None:
        return self._made[self._last[id]] if id in self._last else None


def _answers(record: Record) -> dict[str, tuple[str, ...]]:
    given = record.get("answers")
    if given is not None and not isinstance(given, Mapping):
        bad(f"answers: expected an object of answers by the id of the question, found {kind(given)}")
    return {text_of(name, "a key of answers"): _checked(value, name) for name, value in (given or {}).items()}


def _checked(value: Any, name: str) -> tuple[str, ...]:
    found = tuple(answers_of(value, f"answers[{json.dumps(name, ensure_ascii=False)}]"))
    return found or bad(f"answers[{json.dumps(name, ensure_ascii=False)}] is empty; leave the question out")


def short_date(date: str) -> str:
    """A date without the month and day that stand for a whole year. Example: `short_date("2021-01-01")  # "2021"`"""
    return date.removesuffix("-01-01")


def as_date(given: Any, name: str) -> str:
    """A day as text, such as 2021-06-01; a year or a month stands for its first day.
    Example: `as_date("2021-06", "added")  # "2021-06-01"`"""
    text = str(given) if type(given) is int else given
    found = _DATE.fullmatch(text.strip()) if isinstance(text, str) else None
    try:
        if found is None:
            raise ValueError
        return date(*(int(part or 1) for part in found.groups())).isoformat()
    except ValueError:
        shown = f'"{given}"' if isinstance(given, str) or type(given) is int else kind(given)
        raise FloatlensError(f"{name}: expected a date such as 2021, 2021-06 or 2021-06-01, found {shown}") from None
