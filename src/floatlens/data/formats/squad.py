"""SQuAD 1.1 and 2.0: articles with paragraphs and their questions, or one question per record (Hugging Face).

The paragraph is the one document, and gold if the question has an answer. Unanswerable questions have no answers.
"""

from typing import Any

from floatlens.data.examples import Example
from floatlens.data.fields import Record, answers_of
from floatlens.data.formats import Format


class Squad(Format):
    name = "squad"
    title = "SQuAD"
    marks = ("paragraphs",)
    needs = ()
    left_out = "article or paragraph without a question"

    def matches(self, record: Record) -> str | None:
        given = record.get("paragraphs")
        if (
            isinstance(given, list)
            and "question" not in record
            and all(isinstance(one, dict) and "qas" in one for one in given)
        ):
            return 'it has "paragraphs" with "qas"'
        if isinstance(record.get("context"), str) and isinstance(record.get("qas"), list):
            return 'it has "context" with "qas"'
        one = isinstance(record.get("context"), str) and isinstance(record.get("answers"), dict)
        return 'it has "context" and "answers" with "text"' if one and "question" in record else None

    def parts(self, record: Record) -> list[Record]:
        if "paragraphs" not in record and "qas" not in record:
            return [record]
        nested = "paragraphs" in record
        paragraphs = record.children("paragraphs", "context and qas") if nested else [record]
        found = []
        for paragraph in paragraphs:
            shared = {"title": record.get("title"), "context": paragraph.get("context")}
            for qa in paragraph.children("qas", "id, question and answers"):
                part = Record({**qa, **shared}, qa.prefix.removesuffix("."), record.unit)
                part.setdefault("id", None)
                if part["id"] is None:
                    part["id"] = f"{record.get('title') or record.unit}/{qa.prefix.removesuffix('.')}"
                found.append(part)
        return found

    def read(self, record: Record, line: int) -> Example:
        given: Any = record.get("answers")
        answers = answers_of(_texts(given), f"{record.prefix}answers")
        meta = record.rest("id", "question", "answers", "context", "title", "is_impossible", "plausible_answers")
        plausible: list[str] = []
        if record.flag("is_impossible") or (isinstance(given, dict | list) and not answers):
            plausible = answers_of(_texts(record.get("plausible_answers")), f"{record.prefix}plausible_answers")
            meta |= {"unanswerable": True}
            answers = []
        return Example(
            id=record.id(line),
            question=record.text("question"),
            answers=answers,
            documents=[record.document("context", is_gold=bool(answers))],
            meta=meta | {"gold_by": "context"},
            wrong_answers=plausible,
        )


def _texts(given: Any) -> Any:
    """Hugging Face has one object with lists, which may be empty; the original a list of objects."""
    return given.get("text") if isinstance(given, dict) else given
