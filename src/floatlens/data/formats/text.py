"""Plain text, one paragraph per line as in WikiText: passages with a hole, which are traced and not asked.

Headings (` = Title = `) and paragraphs with fewer than 16 words are left out and counted: a hole needs words around it.
"""

import re

from floatlens.data.examples import Example
from floatlens.data.fields import Record
from floatlens.data.formats import Format

HOLE = 4
"""Tokens that are cut out of the middle."""
LEAST_WORDS = 16
_HEADING = re.compile(r"\s*(=\s)+.*(\s=)+\s*")


class PlainText(Format):
    name = "text"
    title = "plain text"
    marks = ("text",)
    left_out = f"heading or paragraph with fewer than {LEAST_WORDS} words"

    def matches(self, record: Record) -> str | None:
        return "its name ends in .txt" if record.unit == "paragraph" else None

    def parts(self, record: Record) -> list[Record]:
        text = record.text("text")
        return [] if _HEADING.fullmatch(text) or len(text.split()) < LEAST_WORDS else [record]

    def read(self, record: Record, line: int) -> Example:
        return Example(id=f"line-{line}", question="", passage=record.text("text").strip(), hole=HOLE)
