"""`Example`, a question with its answers and documents; what a task may need of it; gold documents by their text.

- A question is needed, or a passage with a hole instead. Answers may be empty: not known.
- No documents is a closed-book question. Any number of documents may be gold, including none.
- How answers are judged, and which wrong answers and documents the data names, is said by its format.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Literal, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, model_validator

from floatlens.core.errors import FloatlensError
from floatlens.data.matching import holds_answer, last_number
from floatlens.prompts import Document

__all__ = ["VERDICTS", "AnswerKind", "Example", "Need", "Target", "check_need", "mark_gold", "need_of", "verdict_kind"]

Need: TypeAlias = Literal["answers", "documents", "gold", "target", "first_answer"]
Target: TypeAlias = Literal["field", "answer"]
"""Where the text of forced decoding comes from: the field `target`, or the first accepted answer."""
AnswerKind: TypeAlias = Literal["text", "parts", "yes_no", "yes_no_maybe", "number", "code", "open"]
"""How accuracy is judged (docs/qa.md#scores). Code and open questions have no accepted answers."""
VERDICTS = {"yes_no": ("yes", "no"), "yes_no_maybe": ("yes", "no", "maybe")}
"""The words of which the first in a prediction counts, by kind of answer."""


class Example(BaseModel):
    """A question, its accepted answers and its documents. Example: `next(read_examples("nq.jsonl.gz")).question`

    `target` is a text to be forced. A passage with a hole (see `fl.trace`) has no question, and a question no passage.
    `answer_parts` are parts that must all be named, each a list of alternatives. `wrong_documents` state one of
    `wrong_answers`; they may be among `documents`.
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
    answer_kind: AnswerKind = "text"
    answer_parts: list[list[str]] = Field(default_factory=list)
    wrong_answers: list[str] = Field(default_factory=list)
    wrong_documents: list[Document] = Field(default_factory=list)

    @model_validator(mode="after")
    def _judged(self) -> Self:
        """Refuse accepted answers that a kind of answer cannot be judged by."""
        kind = self.answer_kind
        if (kind == "parts") != bool(self.answer_parts) or not all(self.answer_parts):
            raise ValueError(
                'answer_kind "parts" needs answer_parts, lists of alternatives, and only that kind has them'
            )
        for answer in self.answers:
            if kind in VERDICTS and answer.lower() not in VERDICTS[kind]:
                raise ValueError(f'answer_kind "{kind}" needs answers that are {", ".join(VERDICTS[kind])}')
            if kind == "number" and last_number(answer) is None:
                raise ValueError(f'answer_kind "number" needs answers that are numbers, found "{answer[:40]}"')
            if kind in ("code", "open"):
                raise ValueError(f'answer_kind "{kind}" is not scored; leave answers empty, or answer_kind out')
        return self

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
    if example.passage is not None and need:
        if "target" in need or "first_answer" in need:
            raise FloatlensError("the target of a passage is what is cut out of it; leave the option target out")
        raise FloatlensError("a passage with a hole can be traced, not asked")
    if "target" in need and example.target is None:
        raise FloatlensError(f'{example.id!r} has no field "target", so there is no text to force')
    if "first_answer" in need and not example.answers:
        raise FloatlensError(f"{example.id!r} has no accepted answer, so there is no text to force")
    if "answers" in need and not example.answers:
        raise FloatlensError("no accepted answer, so an answer to it cannot be scored")
    if "documents" in need and not example.documents:
        raise FloatlensError("no documents, which this task needs; give some, or a corpus to retrieve them from")
    if "gold" in need and not any(document.is_gold for document in example.documents):
        raise FloatlensError("no document is marked as gold, which this task needs")


def verdict_kind(answers: Collection[str]) -> AnswerKind:
    """ "yes_no" where every accepted answer is yes or no, for sets that have such questions among others."""
    return "yes_no" if answers and all(answer.lower() in VERDICTS["yes_no"] for answer in answers) else "text"


def need_of(target: Target) -> Need:
    """What a record must have for its target."""
    return "target" if target == "field" else "first_answer"


def mark_gold(example: Example) -> Example:
    """The example with exactly those documents gold that hold an accepted answer; `meta["gold_by"]` records the rule.

    Example: `mark_gold(next(read_examples("nq_psg.jsonl"))).meta["gold_by"]  # "answer"`
    """
    documents = [
        document.model_copy(update={"is_gold": holds_answer(document.text, example.answers)})
        for document in example.documents
    ]
    return example.model_copy(update={"documents": documents, "meta": example.meta | {"gold_by": "answer"}})
