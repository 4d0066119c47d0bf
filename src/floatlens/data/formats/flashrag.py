"""FlashRAG: no documents, or HotpotQA's paragraphs in `metadata.context`, gold by `supporting_facts`."""

from floatlens.data.examples import Example
from floatlens.data.fields import Record, answers_of, bad, text_of
from floatlens.data.formats import Format
from floatlens.prompts import Document


class FlashRag(Format):
    name = "flashrag"
    title = "FlashRAG"
    marks = ("golden_answers",)

    def read(self, record: Record, line: int) -> Example:
        metadata = record.child("metadata")
        documents, meta = [], dict(metadata)
        if isinstance(metadata.get("context"), dict):
            documents = _paragraphs(metadata)
            del meta["context"]  # these are the documents now
            meta |= {"gold_by": "supporting_facts"} if "supporting_facts" in metadata else {}
        return Example(
            id=record.id(line),
            question=record.text("question"),
            answers=answers_of(record.get("golden_answers"), "golden_answers"),
            documents=documents,
            meta=record.rest("id", "question", "golden_answers", "metadata") | meta,
        )


def _paragraphs(metadata: Record) -> list[Document]:
    """HotpotQA's paragraphs, parallel lists of titles and sentences; those with a supporting title are gold."""
    context = metadata.child("context")
    gold = metadata.child("supporting_facts").elements("title")
    titles = context.elements("title")
    named = context.first_given("sentences", "content") or "sentences"
    texts = context.elements(named)
    if len(titles) != len(texts):
        bad(f"metadata.context: {len(titles)} titles for {len(texts)} texts")
    made = []
    for i, (title, given) in enumerate(zip(titles, texts, strict=True)):
        sentences = given if isinstance(given, list) else [given]
        pieces = [one if isinstance(one, str) else text_of(one, f"metadata.context.{named}[{i}]") for one in sentences]
        paragraph = Record({"title": title, "text": " ".join(map(str.strip, pieces))}, f"metadata.context[{i}]")
        made.append(paragraph.document(is_gold=title in gold))
    return made
