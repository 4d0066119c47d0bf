"""floatlens's own format, the one to write: question, answers, documents with title, text and is_gold.

Optional: `target`, how answers are judged (`answer_kind`, `answer_parts`), and what is wrong (`wrong_answers`,
`wrong_documents`).
"""

from floatlens.data.examples import Example
from floatlens.data.fields import Record, parts_of
from floatlens.data.formats import Format
from floatlens.prompts import Document, as_documents

_JUDGED = ("answer_kind", "answer_parts", "wrong_answers", "wrong_documents")


class Plain(Format):
    name = "plain"
    title = "our own"
    marks = ("question",)
    needs = ()
    fallback = True

    def read(self, record: Record, line: int) -> Example:
        meta = record.meta("id", "question", "answers", "documents", "target", *_JUDGED, spelling=True)
        joined, parts = parts_of(record.elements("answer_parts"), "answer_parts")
        return Example(
            id=record.id(line),
            question=record.text("question"),
            answers=record.texts("answers") or joined,
            documents=_documents(record, "documents"),
            meta=meta,
            target=None if record.get("target") is None else record.text("target"),
            answer_kind=record.get("answer_kind") or ("parts" if parts else "text"),
            answer_parts=parts,
            wrong_answers=record.texts("wrong_answers"),
            wrong_documents=_documents(record, "wrong_documents"),
        )


def _documents(record: Record, name: str) -> list[Document]:
    documents = record.children(name, "title, text and is_gold")
    for document in documents:
        document.document()  # title and text with the messages of all formats, then all fields
    return list(as_documents(documents))
