"""FlashRAG: no documents, or HotpotQA's paragraphs in `metadata.context`, gold by `supporting_facts`."""

from floatlens.data.examples import Example, verdict_kind
from floatlens.data.fields import Record, answers_of
from floatlens.data.formats import Format
from floatlens.data.paragraphs import paragraphs_of
from floatlens.prompts import Document


class FlashRag(Format):
    name = "flashrag"
    title = "FlashRAG"
    marks = ("golden_answers",)

    def read(self, record: Record, line: int) -> Example:
        metadata = record.child("metadata")
        documents: list[Document] = []
        meta = dict(metadata)
        if isinstance(metadata.get("context"), dict):
            documents, more = paragraphs_of(metadata)
            del meta["context"]  # these are the documents now
            meta |= more
        answers = answers_of(record.get("golden_answers"), "golden_answers")
        return Example(
            id=record.id(line),
            question=record.text("question"),
            answers=answers,
            answer_kind=verdict_kind(answers),
            documents=documents,
            meta=record.rest("id", "question", "golden_answers", "metadata") | meta,
        )
