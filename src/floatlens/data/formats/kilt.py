"""KILT: the question in `input` or `question`, no documents; pages of `provenance` go to `meta["provenance"]`."""

from typing import Any

from floatlens.data.examples import Example, verdict_kind
from floatlens.data.fields import Record, answers_of, bad
from floatlens.data.formats import Format


class Kilt(Format):
    name = "kilt"
    title = "KILT"
    marks = ("input", "output")
    needs = ()

    def matches(self, record: Record) -> str | None:
        asked = record.first_given("input", "question")
        answered = "output" in record and "passage" not in record
        return 'it has "output"' if asked is not None and answered else None

    def read(self, record: Record, line: int) -> Example:
        asked = record.first_given("input", "question")
        if asked is None:
            bad("input is missing")
        if asked == "question" and "output" not in record:  # in test sets, only "input" tells KILT from other formats
            bad('"output" is missing')
        pages: dict[tuple[str, str], dict[str, Any]] = {}
        outputs = record.children("output", "answer and provenance")
        for output in outputs:
            for page in output.children("provenance", "wikipedia_id and title"):
                named = {key: page[key] for key in ("wikipedia_id", "title") if page.get(key) is not None}
                pages[str(named.get("wikipedia_id")), str(named.get("title"))] = named
        answers = answers_of(outputs, "output")
        return Example(
            id=record.id(line),
            question=record.text(asked),
            answers=answers,
            answer_kind=verdict_kind(answers),
            meta=record.meta("id", asked, "output") | ({"provenance": list(pages.values())} if pages else {}),
        )
