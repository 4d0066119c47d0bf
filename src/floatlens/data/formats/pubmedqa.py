"""PubMedQA, original and Hugging Face columns: yes, no or maybe about an abstract whose sections are the documents."""

from floatlens.data.examples import Example
from floatlens.data.fields import Record, bad
from floatlens.data.formats import Format
from floatlens.prompts import Document


class PubMedQa(Format):
    name = "pubmedqa"
    title = "PubMedQA"
    marks = ("QUESTION", "CONTEXTS")
    needs = ("QUESTION|question",)

    def matches(self, record: Record) -> str | None:
        columns = isinstance(record.get("context"), dict) and "contexts" in record["context"] and "question" in record
        return 'it has "context.contexts"' if columns else super().matches(record)

    def read(self, record: Record, line: int) -> Example:
        original = "QUESTION" in record
        part = record if original else record.child("context")
        texts = part.texts("CONTEXTS" if original else "contexts")
        labels = part.texts("LABELS" if original else "labels")
        if labels and len(labels) != len(texts):
            bad(f"{len(labels)} labels for {len(texts)} contexts")
        decision = record.get("final_decision")
        if decision is not None and decision not in ("yes", "no", "maybe"):
            bad(f"final_decision: expected yes, no or maybe, found {decision!r}")
        known = ("id", "pubid", "QUESTION", "question", "CONTEXTS", "context", "LABELS", "final_decision")
        meta = record.rest(*known, "LONG_ANSWER", "long_answer") | {"gold_by": "abstract"}
        solution, year = record.first_given("LONG_ANSWER", "long_answer"), record.get("YEAR")
        return Example(
            id=record.id(line, "pubid" if "pubid" in record else "id"),
            question=record.text("QUESTION" if original else "question"),
            answers=[] if decision is None else [decision],
            documents=[
                Document(title=labels[i] if labels else "", text=text, is_gold=True) for i, text in enumerate(texts)
            ],
            meta=meta
            | ({"solution": record.text(solution)} if solution else {})
            | ({"date": str(year)} if year is not None else {}),
            answer_kind="yes_no_maybe",
        )
