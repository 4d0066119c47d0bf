"""floatlens's own format, the one to write: question, answers, documents with title, text and is_gold."""

from floatlens.data.examples import Example
from floatlens.data.fields import Record
from floatlens.data.formats import Format
from floatlens.prompts import as_documents


class Plain(Format):
    name = "plain"
    title = "our own"
    marks = ("question",)
    needs = ()
    fallback = True

    def read(self, record: Record, line: int) -> Example:
        meta = record.meta("id", "question", "answers", "documents", "target", spelling=True)
        documents = record.children("documents", "title, text and is_gold")
        for document in documents:
            document.document()  # title and text with the messages of all formats, then all fields
        return Example(
            id=record.id(line),
            question=record.text("question"),
            answers=record.texts("answers"),
            documents=list(as_documents(documents)),
            meta=meta,
            target=None if record.get("target") is None else record.text("target"),
        )
