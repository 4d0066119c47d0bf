"""The attention-floating paper's *_psg.jsonl: retrieved passages under `passage`, none of them marked as gold."""

from __future__ import annotations

from typing import ClassVar

from floatlens.data.examples import Example
from floatlens.data.fields import (
    Record,
    answers_in,
    bad,
    documents_in,
    first_given,
    id_in,
    meta_in,
    objects_in,
    text_in,
    title_in,
)
from floatlens.data.formats.base import Format

__all__ = ["RetrievedPassages"]


class RetrievedPassages(Format):
    name: ClassVar[str] = "psg"
    title: ClassVar[str] = "the attention-floating paper's *_psg.jsonl"
    marks: ClassVar[tuple[str, ...]] = ("passage",)

    def read(self, record: Record, line: int) -> Example:
        asked = first_given(record, ("input", "query", "question"))
        if asked is None:
            bad("question is missing: expected it in input, query or question")
        answered = first_given(record, ("output", "answer", "answers"))
        passages = objects_in(record, "passage", "segment")
        made = [{"title": title_in(passage), "text": passage.get("segment")} for passage in passages]
        return Example(
            id=id_in(record, line),
            question=text_in(record, asked),
            answers=answers_in(record[answered], answered) if answered else [],
            documents=documents_in(made, "passage", text="segment"),
            meta=meta_in(record, ("id", asked, answered or "", "passage")),
        )
