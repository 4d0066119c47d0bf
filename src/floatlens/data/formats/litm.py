"""Lost in the Middle, and what DPR and FiD write: passages in `ctxs`, gold by `isgold`, `hasanswer` or `has_answer`."""

from __future__ import annotations

from typing import ClassVar

from floatlens.data.examples import Example
from floatlens.data.fields import (
    Record,
    bad,
    documents_in,
    id_in,
    kind,
    objects_in,
    rest_of,
    text_in,
    texts_in,
    title_in,
)
from floatlens.data.formats.base import Format

__all__ = ["LostInTheMiddle"]

_GOLD = ("isgold", "hasanswer", "has_answer")


class LostInTheMiddle(Format):
    name: ClassVar[str] = "litm"
    title: ClassVar[str] = "Lost in the Middle, DPR, FiD"
    marks: ClassVar[tuple[str, ...]] = ("ctxs",)

    def read(self, record: Record, line: int) -> Example:
        meta = rest_of(record, ("id", "question", "answers", "ctxs"), spelling=True)
        passages = objects_in(record, "ctxs", "title, text and isgold")
        marked = next((key for key in _GOLD if any(key in passage for passage in passages)), None)
        made = []
        for i, passage in enumerate(passages):
            gold = passage.get(marked, False) if marked else False
            if not isinstance(gold, bool):
                bad(f"ctxs[{i}].{marked}: expected true or false, found {kind(gold)}")
            made.append({"title": title_in(passage), "text": passage.get("text"), "is_gold": gold})
        return Example(
            id=id_in(record, line),
            question=text_in(record, "question"),
            answers=texts_in(record, "answers"),
            documents=documents_in(made, "ctxs"),
            meta=meta | ({"gold_by": marked} if marked else {}),
        )
