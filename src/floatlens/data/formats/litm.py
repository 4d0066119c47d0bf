"""Lost in the Middle, and what DPR and FiD write: passages in `ctxs`, gold by `isgold`, `hasanswer` or `has_answer`."""

from floatlens.data.examples import Example
from floatlens.data.fields import Record, bad, kind
from floatlens.data.formats import Format


class LostInTheMiddle(Format):
    name = "litm"
    title = "Lost in the Middle, DPR, FiD"
    marks = ("ctxs",)

    def read(self, record: Record, line: int) -> Example:
        meta = record.rest("id", "question", "answers", "ctxs", "target", spelling=True)
        passages = record.children("ctxs", "title, text and isgold")
        marks = ("isgold", "hasanswer", "has_answer")
        marked = next((mark for mark in marks if any(mark in passage for passage in passages)), None)
        documents = [passage.document(is_gold=marked is not None and passage.flag(marked)) for passage in passages]
        meta |= {"gold_by": marked} if marked else {}
        if passages and all(passage.get("score") is not None for passage in passages):
            meta["document_scores"] = [_score(passage) for passage in passages]
        return Example(
            id=record.id(line),
            question=record.text("question"),
            answers=record.texts("answers"),
            documents=documents,
            meta=meta,
            target=None if record.get("target") is None else record.text("target"),
        )


def _score(passage: Record) -> float:
    """DPR writes scores as text."""
    given = passage["score"]
    if isinstance(given, bool) or not isinstance(given, str | int | float):
        bad(f"{passage.prefix}score: expected a number, found {kind(given)}")
    try:
        return float(given)
    except (ValueError, OverflowError):
        bad(f"{passage.prefix}score: expected a number, found {kind(given)}")
