"""GSM8K: the final number after `####` is the accepted answer, the whole worked solution the target."""

from floatlens.data.examples import Example
from floatlens.data.fields import Record, bad
from floatlens.data.formats import Format
from floatlens.data.matching import last_number

_FINAL = "####"


class Gsm8k(Format):
    name = "gsm8k"
    title = "GSM8K"
    marks = ("question", "answer")

    def matches(self, record: Record) -> str | None:
        answer = record.get("answer")
        return 'its "answer" ends in "#### NUMBER"' if isinstance(answer, str) and _FINAL in answer else None

    def read(self, record: Record, line: int) -> Example:
        solution = record.text("answer")
        working, found, final = solution.rpartition(_FINAL)
        if not found or last_number(final) is None:
            bad('answer: expected a worked solution that ends in "#### NUMBER"')
        return Example(
            id=record.id(line),
            question=record.text("question"),
            answers=[final.strip()],
            meta=record.rest("id", "question", "answer") | {"solution": working.strip()},
            target=solution,
            answer_kind="number",
        )
