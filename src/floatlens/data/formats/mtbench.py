"""MT-bench: the first turn is the question; later turns and references go to `meta`. There are no accepted answers."""

from floatlens.data.examples import Example
from floatlens.data.fields import Record, bad
from floatlens.data.formats import Format


class MtBench(Format):
    name = "mtbench"
    title = "MT-bench"
    marks = ("question_id", "turns")

    def read(self, record: Record, line: int) -> Example:
        turns = record.texts("turns")
        if not turns:
            bad("turns is empty")
        return Example(
            id=record.id(line, "question_id"),
            question=turns[0],
            meta=record.rest("question_id", "turns") | {"later_turns": turns[1:]},
            answer_kind="open",
        )
