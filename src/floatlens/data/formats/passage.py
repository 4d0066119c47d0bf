"""floatlens's own format for passages with a hole, which are traced and not asked."""

from floatlens.data.examples import Example
from floatlens.data.fields import Record
from floatlens.data.formats import Format
from floatlens.prompts import check_hole


class PassageWithHole(Format):
    name = "passage"
    title = "our own, passages with a hole"
    marks = ("passage", "hole")

    def read(self, record: Record, line: int) -> Example:
        meta = record.meta("id", "passage", "hole", spelling=True)
        passage = record.text("passage")
        hole = check_hole(passage, record.get("hole"))
        return Example(id=record.id(line), question="", meta=meta, passage=passage, hole=hole)
