"""DPR's training and development files: `positive_ctxs` are gold, then `hard_negative_ctxs` and `negative_ctxs`."""

from floatlens.data.examples import Example
from floatlens.data.fields import Record
from floatlens.data.formats import Format

_LISTS = ("positive_ctxs", "hard_negative_ctxs", "negative_ctxs")


class DprTraining(Format):
    name = "dpr"
    title = "DPR, training files"
    marks = ("question", "positive_ctxs")

    def read(self, record: Record, line: int) -> Example:
        found = [(name, passage) for name in _LISTS for passage in record.children(name, "title and text")]
        return Example(
            id=record.id(line),
            question=record.text("question"),
            answers=record.texts("answers"),
            documents=[passage.document(is_gold=name == _LISTS[0]) for name, passage in found],
            meta=record.rest("id", "question", "answers", *_LISTS)
            | {"gold_by": _LISTS[0], "document_types": [name.removesuffix("_ctxs") for name, _ in found]},
        )
