"""RGB: `positive` passages are gold, in groups where an answer has several parts; then the `negative` ones."""

from __future__ import annotations

import itertools
import math
from typing import Any, ClassVar

from floatlens.data.examples import Example
from floatlens.data.fields import Record, answers_in, bad, documents_in, id_in, list_in, rest_of, text_in
from floatlens.data.formats.base import Format

__all__ = ["Rgb"]

_MOST_COMBINATIONS = 1000


class Rgb(Format):
    name: ClassVar[str] = "rgb"
    title: ClassVar[str] = "RGB"
    marks: ClassVar[tuple[str, ...]] = ("query", "positive", "negative")

    def read(self, record: Record, line: int) -> Example:
        positive = list_in(record, "positive")
        groups = [
            [given] if isinstance(given, str) else list_in({"": given}, "", f"positive[{i}]")
            for i, given in enumerate(positive)
        ]
        made = [{"text": text, "is_gold": True} for group in groups for text in group]
        others = [{"text": text} for text in list_in(record, "negative")]
        answers, parts = _answers(record.get("answer"))
        meta = rest_of(record, ("id", "query", "answer", "positive", "negative")) | {"gold_by": "positive"}
        if len(parts) > 1:
            meta["answer_parts"] = parts
        if any(isinstance(given, list) for given in positive):
            meta["gold_groups"] = [i for i, group in enumerate(groups) for _ in group]
        return Example(
            id=id_in(record, line),
            question=text_in(record, "query"),
            answers=answers,
            documents=documents_in(made, "positive") + documents_in(others, "negative"),
            meta=meta,
        )


def _answers(given: Any) -> tuple[list[str], list[list[str]]]:
    """Accepted answers, and the parts they are made of.

    RGB reads a list as parts that must all be named and a list within it as alternatives of one part. An accepted
    answer names every part, so half an answer does not count as a match.
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
