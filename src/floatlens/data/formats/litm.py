"""Lost in the Middle, and what DPR and FiD write: passages in `ctxs`, gold by `isgold`, `hasanswer` or `has_answer`."""

from floatlens.data.examples import Example
from floatlens.data.fields import Record
from floatlens.data.formats import Format


class LostInTheMiddle(Format):
    name = "litm"
    title = "Lost in the Middle, DPR, FiD"
    marks = ("ctxs",)

    def read(self, record: Record, line: int) -> Example:
        meta = record.rest("id", "question", "answers", "ctxs", spelling=True)
        passages = record.children("ctxs", "title, text and isgold")
        marks = ("isgold", "hasanswer", "has_answer")
        marked = next((mark for mark in marks if any(mark in passage for passage in passages)), None)
        documents = [passage.document(is_gold=marked is not None and passage.flag(marked)) for passage in passages]
        return Example(
            id=record.id(line),
            question=record.text("question"),
            answers=record.texts("answers"),
            documents=documents,
            meta=meta | ({"gold_by": marked} if marked else {}),
        )
