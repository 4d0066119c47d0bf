"""HumanEval: the prompt is the question, the canonical solution the target; there are tests instead of answers."""

from floatlens.data.examples import Example
from floatlens.data.fields import Record
from floatlens.data.formats import Format


class HumanEval(Format):
    name = "humaneval"
    title = "HumanEval"
    marks = ("prompt", "canonical_solution", "entry_point")

    def read(self, record: Record, line: int) -> Example:
        solution = record.text("canonical_solution")
        return Example(
            id=record.id(line, "task_id"),
            question=record.text("prompt"),
            meta=record.rest("task_id", "prompt", "canonical_solution") | {"solution": solution},
            target=solution,
            answer_kind="code",
        )
