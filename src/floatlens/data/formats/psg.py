"""The attention-floating paper's *_psg.jsonl: retrieved passages under `passage`, none of them marked as gold."""

from floatlens.data.examples import Example
from floatlens.data.fields import Record, answers_of, bad
from floatlens.data.formats import Format


class RetrievedPassages(Format):
    name = "psg"
    title = "the attention-floating paper's *_psg.jsonl"
    marks = ("passage",)

    def matches(self, record: Record) -> str | None:
        return super().matches(record) if "hole" not in record else None

    def read(self, record: Record, line: int) -> Example:
        asked = record.first_given("input", "query", "question")
        if asked is None:
            bad("question is missing: expected it in input, query or question")
        answered = record.first_given("output", "answer", "answers") or ""
        return Example(
            id=record.id(line),
            question=record.text(asked),
            answers=answers_of(record[answered], answered) if answered else [],
            documents=[passage.document("segment") for passage in record.children("passage", "segment")],
            meta=record.meta("id", asked, answered, "passage"),
        )
