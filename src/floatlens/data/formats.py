"""The file formats there are: one function each, from a record to the parts of an example, and one line in `FORMATS`.

A format is recognised by fields that only its records have together (`marks`), asked in the order of the list. Nothing
is guessed from file names. What a record does not say (which document is gold, say) is left open and not made up.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from floatlens.core.errors import FloatlensError, did_you_mean
from floatlens.data.fields import answers_in, bad, first_given, kind, list_in, rest_of, text_of
from floatlens.data.lines import Record
from floatlens.prompts import Document, as_documents, check_hole

__all__ = ["FORMATS", "Format", "Parts", "detect", "format_named"]

_MOST_COMBINATIONS = 1000


@dataclass(frozen=True)
class Parts:
    """What a record says, but for its id, which all formats keep in `id`."""

    question: str
    answers: list[str]
    documents: list[Document] = field(default_factory=list)
    meta: Record = field(default_factory=dict)
    target: str | None = None
    passage: str | None = None
    hole: int | tuple[int, int] | None = None


@dataclass(frozen=True)
class Format:
    """`marks` are the fields it is recognised by, `needs` those without which no record of it can be read."""

    name: str
    about: str
    read: Callable[[Record], Parts]
    marks: tuple[str, ...]
    needs: tuple[str, ...] = ()


# -- one function per format --------------------------------------------------------------------------------------


def _plain(record: Record) -> Parts:
    meta = rest_of(record, ("id", "question", "answers", "documents", "target", "meta"), spelling=True)
    given = list_in(record, "documents")
    for i, document in enumerate(given):
        if not isinstance(document, dict):
            bad(f"documents[{i}]: expected an object with title, text and is_gold, found {kind(document)}")
    documents = _documents(given, "documents")
    target = None if record.get("target") is None else text_of(record["target"], "target")
    question = text_of(record.get("question"), "question")
    return Parts(question, _listed(record), documents, meta | _meta(record), target=target)


def _passage(record: Record) -> Parts:
    meta = rest_of(record, ("id", "passage", "hole", "meta"), spelling=True)
    passage = text_of(record.get("passage"), "passage")
    hole = check_hole(passage, record.get("hole"))
    return Parts("", [], meta=meta | _meta(record), passage=passage, hole=hole)


def _litm(record: Record) -> Parts:
    meta = rest_of(record, ("id", "question", "answers", "ctxs"), spelling=True)
    passages = _objects(list_in(record, "ctxs"), "ctxs", "title, text and isgold")
    marked = next((key for key in ("isgold", "hasanswer") if any(key in passage for passage in passages)), None)
    made = []
    for i, passage in enumerate(passages):
        gold = passage.get(marked, False) if marked else False
        if not isinstance(gold, bool):
            bad(f"ctxs[{i}].{marked}: expected true or false, found {kind(gold)}")
        made.append({"title": _title(passage), "text": passage.get("text"), "is_gold": gold})
    meta |= {"gold_by": marked} if marked else {}
    return Parts(text_of(record.get("question"), "question"), _listed(record), _documents(made, "ctxs"), meta)


def _psg(record: Record) -> Parts:
    asked = first_given(record, ("input", "query", "question"))
    if asked is None:
        bad("question is missing: expected it in input, query or question")
    answered = first_given(record, ("output", "answer", "answers"))
    passages = _objects(list_in(record, "passage"), "passage", "segment")
    made = [{"title": _title(passage), "text": passage.get("segment")} for passage in passages]
    return Parts(
        text_of(record[asked], asked),
        answers_in(record[answered], answered) if answered else [],
        _documents(made, "passage", text="segment"),
        rest_of(record, ("id", asked, answered or "", "passage", "meta")) | _meta(record),
    )


def _kilt(record: Record) -> Parts:
    pages: dict[tuple[str, str], Record] = {}
    outputs = _objects(list_in(record, "output"), "output", "answer and provenance")
    for i, output in enumerate(outputs):
        where = f"output[{i}].provenance"
        for page in _objects(list_in(output, "provenance", where), where, "wikipedia_id and title"):
            named = {key: page[key] for key in ("wikipedia_id", "title") if page.get(key) is not None}
            pages[str(named.get("wikipedia_id")), str(named.get("title"))] = named
    meta = rest_of(record, ("id", "input", "output", "meta")) | _meta(record)
    meta |= {"provenance": list(pages.values())} if pages else {}
    return Parts(text_of(record.get("input"), "input"), answers_in(outputs, "output"), meta=meta)


def _flashrag(record: Record) -> Parts:
    metadata = record.get("metadata") or {}
    if not isinstance(metadata, dict):
        bad(f"metadata: expected an object, found {kind(metadata)}")
    documents, meta = [], dict(metadata)
    if isinstance(metadata.get("context"), dict):
        documents = _hotpot_documents(metadata)
        del meta["context"]  # they are the documents now
        meta |= {"gold_by": "supporting_facts"} if "supporting_facts" in metadata else {}
    return Parts(
        text_of(record.get("question"), "question"),
        answers_in(record.get("golden_answers"), "golden_answers"),
        documents,
        rest_of(record, ("id", "question", "golden_answers", "metadata")) | meta,
    )


def _rgb(record: Record) -> Parts:
    groups = [
        [given] if isinstance(given, str) else list_in({"": given}, "", f"positive[{i}]")
        for i, given in enumerate(list_in(record, "positive"))
    ]
    made = [{"text": text, "is_gold": True} for group in groups for text in group]
    documents = _documents(made, "positive")
    documents += _documents([{"text": text} for text in list_in(record, "negative")], "negative")
    answers, parts = _rgb_answers(record.get("answer"))
    meta = rest_of(record, ("id", "query", "answer", "positive", "negative")) | {"gold_by": "positive"}
    if len(parts) > 1:
        meta["answer_parts"] = parts
    if any(isinstance(given, list) for given in list_in(record, "positive")):
        meta["gold_groups"] = [i for i, group in enumerate(groups) for _ in group]
    return Parts(text_of(record.get("query"), "query"), answers, documents, meta)


# -- their parts --------------------------------------------------------------------------------------------------


def _rgb_answers(given: Any) -> tuple[list[str], list[list[str]]]:
    """Accepted answers, and the parts they are made of.

    RGB reads a list as parts that must all be named and a list within it as alternatives of one part. An accepted
    answer names every part, so that half an answer scores nothing on exact match and accuracy.
    """
    items = given if isinstance(given, list) else [given]
    parts = [answers_in(item, f"answer[{i}]" if isinstance(given, list) else "answer") for i, item in enumerate(items)]
    parts = [part for part in parts if part]
    if not parts:
        return [], []
    combinations = math.prod(len(part) for part in parts)
    if combinations > _MOST_COMBINATIONS:
        bad(f"answer: {len(parts)} parts with {combinations} combinations; at most {_MOST_COMBINATIONS}")
    return [" and ".join(chosen) for chosen in itertools.product(*parts)], parts


def _hotpot_documents(metadata: Mapping[str, Any]) -> list[Document]:
    """FlashRAG keeps HotpotQA's paragraphs as parallel lists of titles and sentences; supporting titles are gold."""
    context = metadata["context"]
    facts = metadata.get("supporting_facts") or {}
    if not isinstance(facts, dict):
        bad(f"metadata.supporting_facts: expected an object, found {kind(facts)}")
    gold = set(list_in(facts, "title", "metadata.supporting_facts.title"))
    where = "metadata.context"
    titles = list_in(context, "title", f"{where}.title")
    texts = list_in(context, first_given(context, ("sentences", "content")) or "sentences", f"{where}.sentences")
    if len(titles) != len(texts):
        bad(f"{where}: {len(titles)} titles for {len(texts)} texts")
    made = []
    for i, (title, sentences) in enumerate(zip(titles, texts, strict=True)):
        pieces = sentences if isinstance(sentences, list) else [sentences]
        named = [piece if isinstance(piece, str) else text_of(piece, f"{where}.sentences[{i}]") for piece in pieces]
        made.append({"title": title, "text": " ".join(piece.strip() for piece in named), "is_gold": title in gold})
    return _documents(made, where)


def _objects(given: list[Any], name: str, wanted: str) -> list[Record]:
    for i, item in enumerate(given):
        if not isinstance(item, dict):
            bad(f"{name}[{i}]: expected an object with {wanted}, found {kind(item)}")
    return given


def _documents(given: list[Any], name: str, *, text: str = "text") -> list[Document]:
    for i, document in enumerate(given):
        if document.get("title"):
            text_of(document["title"], f"{name}[{i}].title")
        text_of(document.get("text"), f"{name}[{i}].{text}")
    return list(as_documents(given))


def _title(passage: Mapping[str, Any]) -> Any:
    """As it is, checked later; null is none."""
    return "" if passage.get("title") is None else passage["title"]


def _listed(record: Mapping[str, Any]) -> list[str]:
    return [text_of(answer, f"answers[{i}]") for i, answer in enumerate(list_in(record, "answers"))]


def _meta(record: Mapping[str, Any]) -> Record:
    given = record.get("meta")
    if given is not None and not isinstance(given, dict):
        bad(f"meta: expected an object, found {kind(given)}")
    return given or {}


# -- the registry -------------------------------------------------------------------------------------------------

FORMATS: tuple[Format, ...] = (
    Format("litm", "Lost in the Middle", _litm, ("ctxs",), ("ctxs",)),
    Format("passage", "our own, passages with a hole", _passage, ("passage", "hole"), ("passage", "hole")),
    Format("psg", "the attention-floating paper's *_psg.jsonl", _psg, ("passage",), ("passage",)),
    Format("rgb", "RGB", _rgb, ("query", "positive", "negative"), ("query", "positive", "negative")),
    Format("flashrag", "FlashRAG", _flashrag, ("golden_answers",), ("golden_answers",)),
    Format("kilt", "KILT", _kilt, ("input", "output"), ("input",)),
    Format("plain", "our own", _plain, ("question",)),
)
"""In the order in which they are asked; adding one is one function and one line here."""


def format_named(name: str) -> Format:
    """The format of that name, or an error that says which are known."""
    for known in FORMATS:
        if known.name == name:
            return known
    raise FloatlensError(f'no data format "{name}"{did_you_mean(name, [known.name for known in FORMATS])}')


def detect(record: Record) -> Format:
    """The first format whose marks are all there."""
    for known in FORMATS:
        if all(mark in record for mark in known.marks):
            return known
    if not record:
        bad("question is missing")
    marks = ", ".join(f"{known.name} ({' + '.join(known.marks)})" for known in FORMATS)
    bad(f"no known format has just the fields {', '.join(record)}; known by their fields: {marks}; or name the format")
