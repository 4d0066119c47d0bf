"""HotpotQA's paragraphs, which several data sets share: lists of sentences with a title, gold by supporting facts.

`context` is a list of [title, sentences] (original files) or an object of parallel lists (Hugging Face, FlashRAG), and
`supporting_facts` likewise. Some copies hold both as JSON text.
"""

from __future__ import annotations

import json
from typing import Any

from floatlens.data.fields import Record, bad, kind, list_of, text_of
from floatlens.prompts import Document

__all__ = ["holds_paragraphs", "paragraphs_of"]


def holds_paragraphs(context: Any) -> bool:
    """Whether a field has the shape of such a context."""
    if isinstance(context, str):
        return context.lstrip().startswith("[[")
    if isinstance(context, dict):
        return "title" in context
    return isinstance(context, list) and all(isinstance(one, list) for one in context)


def paragraphs_of(record: Record) -> tuple[list[Document], dict[str, Any]]:
    """The documents of `context`, and for `meta`: `gold_by`, and `missing_gold`, titles that are not in the context."""
    context = _unpacked(record, "context")
    named = "sentences"
    if isinstance(context, dict):
        fields = Record(context, f"{record.prefix}context")
        named = fields.first_given("sentences", "content") or named
        titles, texts = fields.elements("title"), fields.elements(named)
        if len(titles) != len(texts):
            bad(f"{record.prefix}context: {len(titles)} titles for {len(texts)} texts")
        pairs = list(zip(titles, texts, strict=True))
    else:
        pairs = [_pair(one, f"{record.prefix}context[{i}]") for i, one in enumerate(list_of(context, "context"))]
    gold = _supporting_titles(record)
    documents = [
        _document(title, given, gold or [], f"{record.prefix}context", named, i)
        for i, (title, given) in enumerate(pairs)
    ]
    if gold is None:
        return documents, {}
    missing = [title for title in gold if title not in {title for title, _ in pairs if isinstance(title, str)}]
    return documents, {"gold_by": "supporting_facts"} | ({"missing_gold": missing} if missing else {})


def _unpacked(record: Record, name: str) -> Any:
    given = record.get(name)
    if not isinstance(given, str):
        return given
    try:
        return json.loads(given)
    except (ValueError, RecursionError):
        bad(f"{record.prefix}{name}: expected a list, found a text that is not JSON")


def _pair(given: Any, name: str) -> tuple[Any, Any]:
    if not isinstance(given, list) or len(given) != 2:
        bad(f"{name}: expected [title, sentences], found {kind(given)}")
    return given[0], given[1]


def _document(title: Any, given: Any, gold: list[str], at: str, named: str, i: int) -> Document:
    sentences = given if isinstance(given, list) else [given]
    pieces = [one if isinstance(one, str) else text_of(one, f"{at}.{named}[{i}]") for one in sentences]
    paragraph = Record({"title": title, "text": " ".join(map(str.strip, pieces))}, f"{at}[{i}]")
    return paragraph.document(is_gold=isinstance(title, str) and title in gold)


def _supporting_titles(record: Record) -> list[str] | None:
    """Each title once; None if the record does not say which paragraphs support the answer (a test set)."""
    facts = _unpacked(record, "supporting_facts")
    if facts is None:
        return None
    name = f"{record.prefix}supporting_facts"
    if isinstance(facts, dict):
        titles = list_of(facts.get("title"), f"{name}.title")
    else:
        titles = [_pair(one, f"{name}[{i}]")[0] for i, one in enumerate(list_of(facts, name))]
    return list(dict.fromkeys(text_of(title, f"{name}[{i}]") for i, title in enumerate(titles)))
