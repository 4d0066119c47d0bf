"""The data formats: one file each, and one line in `FORMATS`. docs/data.md describes them.

A format is recognised by the first record of a file. Nothing is guessed from file names.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from floatlens.core.registry import Registry
from floatlens.data.examples import Example
from floatlens.data.fields import Record, bad

__all__ = ["FORMATS", "Format", "detect"]


class Format(ABC):
    """One format of question files; a derived class needs `name`, `title`, `marks` and `read`.

    What a record does not say (which document is gold, for example) is left open.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    marks: ClassVar[tuple[str, ...]]  # fields that only records of this format have together
    needs: ClassVar[tuple[str, ...] | None] = None  # fields that every record must have; None: the marks
    fallback: ClassVar[bool] = False  # tried after all others

    def matches(self, record: Record) -> str | None:
        """Why a file that begins with this record is of this format; None if it is not."""
        return f'it has "{self.marks[-1]}"' if all(mark in record for mark in self.marks) else None

    @abstractmethod
    def read(self, record: Record, line: int) -> Example:
        """The example of a record; `line` is its line, the id of a record without one."""


FORMATS: Registry[type[Format]] = Registry(
    "data format",
    "floatlens.formats",
    {
        "litm": "floatlens.data.formats.litm:LostInTheMiddle",
        "passage": "floatlens.data.formats.passage:PassageWithHole",
        "psg": "floatlens.data.formats.psg:RetrievedPassages",
        "rgb": "floatlens.data.formats.rgb:Rgb",
        "flashrag": "floatlens.data.formats.flashrag:FlashRag",
        "kilt": "floatlens.data.formats.kilt:Kilt",
        "plain": "floatlens.data.formats.plain:Plain",
    },
)
"""Classes by name, in the order in which they are tried."""


def detect(record: Record) -> Format:
    """The first format that a record matches. Example: `detect(Record({"question": "Who?"})).name  # "plain"`"""
    formats = [FORMATS[name]() for name in FORMATS]
    for one in sorted(formats, key=lambda known: known.fallback):
        if one.matches(record) is not None:
            return one
    if not record:
        bad("question is missing")
    for name, value in record.items():
        if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
            bad(
                f'no known format; "{name}" holds {len(value)} objects, as in one JSON document instead of JSON lines: '
                f"if these are the records, jq -c '.{name}[]' writes one per line"
            )
    marks = ", ".join(f"{known.name} ({' + '.join(known.marks)})" for known in formats)
    bad(f"no known format has just the fields {', '.join(record)}; known by their fields: {marks}; or name the format")
