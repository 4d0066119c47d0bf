"""RAMDocs: documents of the type correct (gold), misinfo or noise; several right answers, and the wrong ones named."""

from floatlens.data.examples import Example
from floatlens.data.fields import Record, bad
from floatlens.data.formats import Format

_TYPES = ("correct", "misinfo", "noise")


class RamDocs(Format):
    name = "ramdocs"
    title = "RAMDocs"
    marks = ("question", "documents", "gold_answers")

    def read(self, record: Record, line: int) -> Example:
        documents = record.children("documents", "text, type and answer")
        for document in documents:
            if document.text("type") not in _TYPES:
                bad(f'{document.prefix}type: expected {", ".join(_TYPES)}, found "{document["type"]}"')
        types, shown = (
            [one["type"] for one in documents],
            [one.document(is_gold=one["type"] == "correct") for one in documents],
        )
        meta = record.rest("id", "question", "documents", "gold_answers", "wrong_answers")
        return Example(
            id=record.id(line),
            question=record.text("question"),
            answers=record.texts("gold_answers"),
            documents=shown,
            meta=meta
            | {
                "gold_by": "type",
                "document_types": types,
                "document_answers": [None if one["type"] == "noise" else one.text("answer") for one in documents],
            },
            wrong_answers=list(dict.fromkeys(record.texts("wrong_answers"))),
            wrong_documents=[one for one, type in zip(shown, types, strict=True) if type == "misinfo"],
        )
