"""TimeQA, human-annotated: pages with their paragraphs and questions whose answer depends on the date asked about.

The paragraphs of the page are the documents; those that hold an answer are gold. A question may have no answer.
"""

import re
from typing import Any
from urllib.parse import unquote

from floatlens.data.examples import Example
from floatlens.data.fields import Record, bad, kind, text_of
from floatlens.data.formats import Format
from floatlens.prompts import Document

_YEAR = re.compile(r"\b(1[0-9]{3}|20[0-9]{2})\b")


class TimeQa(Format):
    name = "timeqa"
    title = "TimeQA"
    marks = ("paras", "questions")
    left_out = "page without a question"

    def parts(self, record: Record) -> list[Record]:
        found = []
        for i, given in enumerate(record.elements("questions")):
            if not isinstance(given, list) or len(given) != 2:
                bad(f"questions[{i}]: expected [question, answers], found {kind(given)}")
            shared = {name: value for name, value in record.items() if name != "questions"}
            found.append(Record({**shared, "number": i, "asked": given[0], "spans": given[1]}, unit=record.unit))
        return found

    def read(self, record: Record, line: int) -> Example:
        at = f"questions[{record['number']}]"
        question = text_of(record.get("asked"), f"{at}[0]")
        paragraphs = record.texts("paras")
        given = Record({"answers": record.get("spans")}, at).children("answers", "para and answer")
        spans = [span for span in given if span.get("answer") != ""]
        gold = {_place(span, len(paragraphs)) for span in spans}
        named = record.first_given("index", "link")
        title = unquote(str(record.get("link") or "").rpartition("/")[2]).replace("_", " ")
        meta: dict[str, Any] = {name: record[name] for name in ("type", "link") if name in record}
        meta |= {"gold_by": "para", "years_asked": sorted({int(year) for year in _YEAR.findall(question)})}
        return Example(
            id=f"{record.text(named) if named else f'{record.unit}-{line}'}/{record['number']}",
            question=question,
            answers=list(dict.fromkeys(span.text("answer") for span in spans)),
            documents=[Document(title=title, text=text, is_gold=i in gold) for i, text in enumerate(paragraphs)],
            meta=meta | ({} if spans else {"unanswerable": True}),
        )


def _place(span: Record, count: int) -> int:
    given = span.get("para")
    if type(given) is not int or not 0 <= given < count:
        bad(f"{span.prefix}para: expected the number of a paragraph, 0 to {count - 1}")
    return given
