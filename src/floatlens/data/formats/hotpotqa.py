"""HotpotQA, original files and Hugging Face columns: paragraphs in `context`, gold by `supporting_facts`."""

from typing import ClassVar

from floatlens.data.examples import Example, verdict_kind
from floatlens.data.fields import Record, answers_of
from floatlens.data.formats import Format
from floatlens.data.paragraphs import holds_paragraphs, paragraphs_of


class HotpotQa(Format):
    name = "hotpotqa"
    title = "HotpotQA"
    marks: ClassVar[tuple[str, ...]] = ("question", "context")

    def matches(self, record: Record) -> str | None:
        if "question" not in record or "evidences" in record or not holds_paragraphs(record.get("context")):
            return None
        return 'it has "context" with titles and sentences'

    def read(self, record: Record, line: int) -> Example:
        documents, meta = paragraphs_of(record)
        named = record.first_given("_id", "id") or "id"
        answers = answers_of(record.get("answer"), "answer")
        return Example(
            id=record.id(line, named),
            question=record.text("question"),
            answers=answers,
            documents=documents,
            meta=record.rest(named, "question", "answer", "context") | meta,
            answer_kind=verdict_kind(answers),
        )

    def setting(self, examples_missing_gold: int) -> str:
        return "fullwiki setting" if examples_missing_gold else "distractor setting"
