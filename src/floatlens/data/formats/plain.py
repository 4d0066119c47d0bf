"""floatlens's own format, the one to write: question, answers, documents with title, text and is_gold."""

from __future__ import annotations

from typing import ClassVar

from floatlens.data.examples import Example
from floatlens.data.fields import Record, documents_in, id_in, meta_in, objects_in, text_in, texts_in
from floatlens.data.formats.base import Format

__all__ = ["Plain"]


class Plain(Format):
    name: ClassVar[str] = "plain"
    title: ClassVar[str] = "our own"
    marks: ClassVar[tuple[str, ...]] = ("question",)
    needs: ClassVar[tuple[str, ...] | None] = ()
    fallback: ClassVar[bool] = True

    def read(self, record: Record, line: int) -> Example:
        meta = meta_in(record, ("id", "question", "answers", "documents", "target"), spelling=True)
        given = objects_in(record, "documents", "title, text and is_gold")
        return Example(
            id=id_in(record, line),
            question=text_in(record, "question"),
            answers=texts_in(record, "answers"),
            documents=documents_in(given, "documents"),
            meta=meta,
            target=None if record.get("target") is None else text_in(record, "target"),
        )
