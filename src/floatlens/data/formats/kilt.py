"""KILT: no documents; the pages that `output` names as provenance go to `meta["provenance"]`."""

from typing import Any

from floatlens.data.examples import Example
from floatlens.data.fields import Record, answers_of
from floatlens.data.formats import Format


class Kilt(Format):
    name = "kilt"
    title = "KILT"
    marks = ("input", "output")
    needs = ("input",)

    def read(self, record: Record, line: int) -> Example:
        pages: dict[tuple[str, str], dict[str, Any]] = {}
        outputs = record.children("output", "answer and provenance")
        for output in outputs:
            for page in output.children("provenance", "wikipedia_id and title"):
                named = {key: page[key] for key in ("wikipedia_id", "title") if page.get(key) is not None}
                pages[str(named.get("wikipedia_id")), str(named.get("title"))] = named
        return Example(
            id=record.id(line),
            question=record.text("input"),
            answers=answers_of(outputs, "output"),
            meta=record.meta("id", "input", "output") | ({"provenance": list(pages.values())} if pages else {}),
        )
