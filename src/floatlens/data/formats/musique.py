"""MuSiQue: `paragraphs` with `is_supporting`, the answer and its aliases; unanswerable questions have no answers here.

In MuSiQue-Full a question occurs twice under one id, once with too little evidence: that one gets `-unanswerable`.
"""

from floatlens.data.examples import Example
from floatlens.data.fields import Record, answers_of
from floatlens.data.formats import Format


class Musique(Format):
    name = "musique"
    title = "MuSiQue"
    marks = ("question", "paragraphs")

    def matches(self, record: Record) -> str | None:
        given = record.get("paragraphs")
        texts = isinstance(given, list) and all(isinstance(one, dict) and "paragraph_text" in one for one in given)
        return 'it has "paragraphs" with "paragraph_text"' if texts and "question" in record else None

    def read(self, record: Record, line: int) -> Example:
        paragraphs = record.children("paragraphs", "title, paragraph_text and is_supporting")
        answers = answers_of([record.get("answer"), record.get("answer_aliases")], "answer")
        meta = record.rest("id", "question", "answer", "answer_aliases", "answerable", "paragraphs")
        name = record.id(line)
        if "answerable" in record and not record.flag("answerable"):
            meta |= {"unanswerable": True, "withheld_answers": answers}
            name, answers = f"{name}-unanswerable", []
        return Example(
            id=name,
            question=record.text("question"),
            answers=answers,
            documents=[one.document("paragraph_text", is_gold=one.flag("is_supporting")) for one in paragraphs],
            meta=meta | {"gold_by": "is_supporting"},
        )
