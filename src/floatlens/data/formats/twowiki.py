"""2WikiMultihopQA: HotpotQA's fields, and `evidences`, the facts that lead to the answer."""

from typing import ClassVar

from floatlens.data.fields import Record
from floatlens.data.formats.hotpotqa import HotpotQa
from floatlens.data.paragraphs import holds_paragraphs


class TwoWiki(HotpotQa):
    name = "2wiki"
    title = "2WikiMultihopQA"
    marks: ClassVar[tuple[str, ...]] = ("question", "context", "evidences")

    def matches(self, record: Record) -> str | None:
        found = all(mark in record for mark in self.marks) and holds_paragraphs(record["context"])
        return 'it has "evidences" beside "context" with titles and sentences' if found else None

    def setting(self, examples_missing_gold: int) -> str:
        return ""
