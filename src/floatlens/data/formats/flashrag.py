"""FlashRAG: no documents, or HotpotQA's paragraphs in `metadata.context`, gold by `supporting_facts`."""

from __future__ import annotations

from typing import ClassVar

from floatlens.data.examples import Example
from floatlens.data.fields import (
    Record,
    answers_in,
    bad,
    documents_in,
    first_given,
    id_in,
    list_in,
    object_in,
    rest_of,
    text_in,
    text_of,
)
from floatlens.data.formats.base import Format
from floatlens.prompts import Document

__all__ = ["FlashRag"]

_CONTEXT = "metadata.context"


class FlashRag(Format):
    name: ClassVar[str] = "flashrag"
    title: ClassVar[str] = "FlashRAG"
    marks: ClassVar[tuple[str, ...]] = ("golden_answers",)

    def read(self, record: Record, line: int) -> Example:
        metadata = object_in(record, "metadata")
        documents, meta = [], dict(metadata)
        if isinstance(metadata.get("context"), dict):
            documents = _paragraphs(metadata)
            del meta["context"]  # these are the documents now
            meta |= {"gold_by": "supporting_facts"} if "supporting_facts" in metadata else {}
        return Example(
            id=id_in(record, line),
            question=text_in(record, "question"),
            answers=answers_in(record.get("golden_answers"), "golden_answers"),
            documents=documents,
            meta=rest_of(record, ("id", "question", "golden_answers", "metadata")) | meta,
        )


def _paragraphs(metadata: Record) -> list[Document]:
    """HotpotQA's paragraphs, parallel lists of titles and sentences; those with a supporting title are gold."""
    context = metadata["context"]
    facts = object_in(metadata, "supporting_facts", "metadata.supporting_facts")
    gold = set(list_in(facts, "title", "metadata.supporting_facts.title"))
    titles = list_in(context, "title", f"{_CONTEXT}.title")
    texts = list_in(context, first_given(context, ("sentences", "content")) or "sentences", f"{_CONTEXT}.sentences")
    if len(titles) != len(texts):
        bad(f"{_CONTEXT}: {len(titles)} titles for {len(texts)} texts")
    made = []
    for i, (title, sentences) in enumerate(zip(titles, texts, strict=True)):
        pieces = sentences if isinstance(sentences, list) else [sentences]
        named = [piece if isinstance(piece, str) else text_of(piece, f"{_CONTEXT}.sentences[{i}]") for piece in pieces]
        made.append({"title": title, "text": " ".join(piece.strip() for piece in named), "is_gold": title in gold})
    return documents_in(made, _CONTEXT)
