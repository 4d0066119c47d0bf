"""Examples from files of any format, streamed, checked as they are read: a mistake is one line with file, line, what.

A file keeps to one format: the one that is named, or the one its first record shows. docs/data.md describes them all.
The same holds for every format:

- A question is needed, or a passage with a hole instead. Answers may be empty or absent (not known); an empty text
  among them is a mistake.
- No documents is a closed-book question. Any number of documents may be gold, none included.
- What a task cannot do without (`need`: answers, documents, gold, target, first_answer) makes a record that lacks it a
  bad one.
- An example without `id` is called `line-N` after its line; an id may occur once in a file.
- Fields that are no part of an example are kept in `meta`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from pydantic import BaseModel, ConfigDict, Field

from floatlens.core.errors import FloatlensError, FloatlensWarning, did_you_mean
from floatlens.data.fields import bad, text_of
from floatlens.data.formats import FORMATS, Format, detect, format_named
from floatlens.data.lines import Record, parse_record, read_lines
from floatlens.prompts import Document

__all__ = ["Example", "Need", "Tally", "Target", "check_need", "need_of", "read_examples", "stream_examples"]

Need: TypeAlias = Literal["answers", "documents", "gold", "target", "first_answer"]
Target: TypeAlias = Literal["field", "answer"]
"""Where the text of forced decoding comes from: the field `target`, or the first accepted answer."""
_KEPT = 20
_UNUSED = ("target", "passage", "hole")


class Example(BaseModel):
    """A question, its accepted answers and its documents. Example: `next(read_examples("nq.jsonl.gz")).question`

    `target` is a text to be forced. A passage with a hole (see `fl.trace`) has no question, and a question no passage.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    id: str
    question: str
    answers: list[str] = Field(default_factory=list)
    documents: list[Document] = Field(default_factory=list)
    meta: dict[str, Any] = Field(default_factory=dict)
    target: str | None = None
    passage: str | None = None
    hole: int | tuple[int, int] | None = None

    def to_trace(self, target: Target | None = None) -> dict[str, Any]:
        """The arguments of `fl.trace` that say what is decoded; `target` says what is forced, None nothing."""
        if self.passage is not None:
            return {"passage": self.passage, "hole": self.hole}
        asked = {"question": self.question, "documents": self.documents, "answers": self.answers}
        if target is None:
            return asked
        check_need(self, [need_of(target)])
        return {**asked, "target": self.target if target == "field" else self.answers[0]}


@dataclass
class Tally:
    """What reading a file came to: how many records were good and bad, and what was wrong with the first of these."""

    good: int = 0
    bad: int = 0
    problems: list[str] = field(default_factory=list)
    format: str | None = None

    def add(self, problem: str) -> None:
        """Count a bad record; only the first ones keep their message, for a file may be bad all through."""
        self.bad += 1
        if len(self.problems) < _KEPT:
            self.problems.append(problem)

    def skipped(self, path: str | Path) -> str:
        """One line about what was left out."""
        return f"{path}: {self.bad} bad record{'s' * (self.bad > 1)} skipped; the first was {self.problems[0]}"


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
    if tally.bad:
        warnings.warn(tally.skipped(path), FloatlensWarning, stacklevel=2)
    if not tally.good:
        raise FloatlensError(f"{path}: no {'good ' if tally.bad else ''}example in it")


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


# -- records ------------------------------------------------------------------------------------------------------


class _Reader:
    """Turns lines of one file into examples; remembers the file's format and the ids it has seen."""

    def __init__(self, format: str | None, need: Collection[Need]) -> None:
        self._format = None if format is None else format_named(format)
        self._named = format is not None
        self._need = need
        self._seen: dict[str, int] = {}

    @property
    def format_name(self) -> str | None:
        return None if self._format is None else self._format.name

    def read(self, number: int, line: bytes) -> Example:
        record = parse_record(line)
        if "hole" in record and record["hole"] is None:  # an example of a question that was written out with all fields
            record = {name: value for name, value in record.items() if name not in _UNUSED or value is not None}
        if self._format is None:
            self._format = detect(record)
        _keep_to(self._format, record, named=self._named)
        parts = self._format.read(record)
        example = Example(
            id=_id(record, number),
            question=parts.question,
            answers=parts.answers,
            documents=parts.documents,
            meta=parts.meta,
            target=parts.target,
            passage=parts.passage,
            hole=parts.hole,
        )
        if example.id in self._seen:
            bad(f"id {example.id!r} was used before, on line {self._seen[example.id]}; ids must be unique")
        check_need(example, self._need)
        self._seen[example.id] = number
        return example


def _keep_to(chosen: Format, record: Record, *, named: bool) -> None:
    """Refuse a record of another format; of two formats in one file one would be read wrongly without a word."""
    for name in chosen.needs:
        if name not in record:
            why = f'which format "{chosen.name}" needs' if named else "though the file began with it"
            bad(f'"{name}" is missing, {why}')
    if chosen.name == "plain" and not named:
        for other in FORMATS:
            if other is not chosen and all(mark in record for mark in other.marks):
                bad(f'it has "{other.marks[-1]}", but the file began in our own format; keep to one')


def check_need(example: Example, need: Collection[Need]) -> None:
    """Refuse an example that lacks what a task cannot do without."""
    if example.passage is not None and need:
        if "target" in need or "first_answer" in need:
            bad("what is cut out of a passage is its target; leave the option target out")
        bad("a passage with a hole can be traced, not asked")
    if "target" in need and example.target is None:
        bad(f'{example.id!r} has no field "target", so there is no text to force')
    if "first_answer" in need and not example.answers:
        bad(f"{example.id!r} has no accepted answer, so there is no text to force")
    if "answers" in need and not example.answers:
        bad("no accepted answer, so an answer to it cannot be scored")
    if "documents" in need and not example.documents:
        bad("no documents, which this task needs; give some, or a corpus to retrieve them from")
    if "gold" in need and not any(document.is_gold for document in example.documents):
        bad("no document is marked as gold, which this task needs")


def need_of(target: Target) -> Need:
    """What a record must have for its target."""
    return "target" if target == "field" else "first_answer"


def _id(record: Mapping[str, Any], number: int) -> str:
    given = record.get("id")
    if given is None:
        return f"line-{number}"
    if isinstance(given, int) and not isinstance(given, bool):
        return str(given)
    return text_of(given, "id")
