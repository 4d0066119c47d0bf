"""KILT: no documents; the pages that `output` names as provenance go to `meta["provenance"]`."""

from __future__ import annotations

from typing import ClassVar

from floatlens.data.examples import Example
from floatlens.data.fields import Record, answers_in, id_in, meta_in, objects_in, text_in
from floatlens.data.formats.base import Format

__all__ = ["Kilt"]


class Kilt(Format):
    name: ClassVar[str] = "kilt"
    title: ClassVar[str] = "KILT"
    marks: ClassVar[tuple[str, ...]] = ("input", "output")
    needs: ClassVar[tuple[str, ...] | None] = ("input",)

    def read(self, record: Record, line: int) -> Example:
        pages: dict[tuple[str, str], Record] = {}
        outputs = objects_in(record, "output", "answer and provenance")
        for i, output in enumerate(outputs):
            for page in objects_in(output, "provenance", "wikipedia_id and title", f"output[{i}].provenance"):
                named = {key: page[key] for key in ("wikipedia_id", "title") if page.get(key) is not None}
                pages[str(named.get("wikipedia_id")), str(named.get("title"))] = named
        meta = meta_in(record, ("id", "input", "output"))
        return Example(
            id=id_in(record, line),
            question=text_in(record, "input"),
            answers=answers_in(outputs, "output"),
            meta=meta | ({"provenance": list(pages.values())} if pages else {}),
        )
