"""`Example`, a question with its answers and documents, and what a task may need of it.

- A question is needed, or a passage with a hole instead. Answers may be empty: not known.
- No documents is a closed-book question. Any number of documents may be gold, including none.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from floatlens.core.errors import FloatlensError
from floatlens.prompts import Document

__all__ = ["Example", "Need", "Target", "check_need", "need_of"]

Need: TypeAlias = Literal["answers", "documents", "gold", "target", "first_answer"]
Target: TypeAlias = Literal["field", "answer"]
"""Where the text of forced decoding comes from: the field `target`, or the first accepted answer."""


class Example(BaseModel):
    """A question, its accepted answers and its documents. Example: `next(read_examples("nq.jsonl.gz")).question`

    `target` is a text to be forced. A passage with a hole (see `fl.trace`) has no question, and a question no passage.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    id: str
    question: str
    answers: list[str] = Field(default_factory=list)
    documents: list[Document] = Field(default_factory=list)
    meta: dict[str, Any] = Field(default_factory=dict)
    target: str | None = None
    passage: str | None = None
    hole: int | tuple[int, int] | None = None

    def to_trace(self, target: Target | None = None) -> dict[str, Any]:
        """The arguments of `fl.trace` that say what is decoded; `target` says what is forced, None nothing."""
        if self.passage is not None:
            return {"passage": self.passage, "hole": self.hole}
        asked = {"question": self.question, "documents": self.documents, "answers": self.answers}
        if target is None:
            return asked
        check_need(self, [need_of(target)])
        return {**asked, "target": self.target if target == "field" else self.answers[0]}


def check_need(example: Example, need: Collection[Need]) -> None:
    """Refuse an example that lacks what a task needs."""
    reason = _lacks(example, need)
    if reason is not None:
        raise FloatlensError(reason)


def _lacks(example: Example, need: Collection[Need]) -> str | None:
    if example.passage is not None and need:
        if "target" in need or "first_answer" in need:
            return "the target of a passage is what is cut out of it; leave the option target out"
        return "a passage with a hole can be traced, not asked"
    if "target" in need and example.target is None:
        return f'{example.id!r} has no field "target", so there is no text to force'
    if "first_answer" in need and not example.answers:
        return f"{example.id!r} has no accepted answer, so there is no text to force"
    if "answers" in need and not example.answers:
        return "no accepted answer, so an answer to it cannot be scored"
    if "documents" in need and not example.documents:
        return "no documents, which this task needs; give some, or a corpus to retrieve them from"
    if "gold" in need and not any(document.is_gold for document in example.documents):
        return "no document is marked as gold, which this task needs"
    return None


def need_of(target: Target) -> Need:
    """What a record must have for its target."""
    return "target" if target == "field" else "first_answer"
