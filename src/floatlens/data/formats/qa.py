"""Questions with answers and nothing else, as in NQ-open and PopQA: `question`, and `answer` or `possible_answers`."""

from floatlens.data.examples import Example
from floatlens.data.fields import Record, answers_of
from floatlens.data.formats import Format

_ANSWERS = ("answer", "possible_answers")
_OTHERS = ("answers", "documents", "context", "ctxs", "paragraphs", "output", "passage", "golden_answers")
"""Fields that say that there is more to a record than this format reads."""


class QuestionAnswer(Format):
    name = "qa"
    title = "questions with answers (NQ-open)"
    marks = ("question", "answer")
    needs = ("question", "answer|possible_answers")
    fallback = True  # a format that has these fields and others is told apart by the others

    def matches(self, record: Record) -> str | None:
        answered = record.first_given(*_ANSWERS)
        if "question" not in record or answered is None or any(record.get(name) is not None for name in _OTHERS):
            return None
        if isinstance(record[answered], str) and "####" in record[answered]:  # a worked solution
            return None
        return f'it has "question" and "{answered}" and no documents'

    def read(self, record: Record, line: int) -> Example:
        answered = record.first_given(*_ANSWERS) or "answer"
        return Example(
            id=record.id(line),
            question=record.text("question"),
            answers=answers_of(record.get(answered), answered),
            meta=record.rest("id", "question", answered),
        )
