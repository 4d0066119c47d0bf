"""floatlens's own format for passages with a hole, which are traced and not asked."""

from __future__ import annotations

from typing import ClassVar

from floatlens.data.examples import Example
from floatlens.data.fields import Record, id_in, meta_in, text_in
from floatlens.data.formats.base import Format
from floatlens.prompts import check_hole

__all__ = ["PassageWithHole"]


class PassageWithHole(Format):
    name: ClassVar[str] = "passage"
    title: ClassVar[str] = "our own, passages with a hole"
    marks: ClassVar[tuple[str, ...]] = ("passage", "hole")

    def read(self, record: Record, line: int) -> Example:
        meta = meta_in(record, ("id", "passage", "hole"), spelling=True)
        passage = text_in(record, "passage")
        hole = check_hole(passage, record.get("hole"))
        return Example(id=id_in(record, line), question="", meta=meta, passage=passage, hole=hole)
