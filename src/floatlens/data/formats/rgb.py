"""RGB: `positive` passages are gold, in groups where an answer has several parts; then the `negative` ones.

The counterfactual set also has `fakeanswer` and `positive_wrong`, the positive passages with the wrong answer in them.
"""

import itertools
import math
from typing import Any

from floatlens.data.examples import Example
from floatlens.data.fields import Record, answers_of, bad, list_of, text_of
from floatlens.data.formats import Format
from floatlens.prompts import Document

_MOST_COMBINATIONS = 1000


class Rgb(Format):
    name = "rgb"
    title = "RGB"
    marks = ("query", "positive", "negative")

    def read(self, record: Record, line: int) -> Example:
        positive = record.elements("positive")
        groups = [[one] if isinstance(one, str) else list_of(one, f"positive[{i}]") for i, one in enumerate(positive)]
        gold = _documents("positive", [text for group in groups for text in group], is_gold=True)
        answers, parts = _answers(record.get("answer"))
        meta = record.rest("id", "query", "answer", "fakeanswer", "positive", "positive_wrong", "negative") | {
            "gold_by": "positive"
        }
        if len(parts) > 1:
            meta["answer_parts"] = parts
        if any(isinstance(given, list) for given in positive):
            meta["gold_groups"] = [i for i, group in enumerate(groups) for _ in group]
        wrong = answers_of(record.get("fakeanswer"), "fakeanswer")
        meta |= {"wrong_answers": wrong} if wrong else {}
        altered = [text for given in record.elements("positive_wrong") for text in _flat(given, "positive_wrong")]
        meta |= {"wrong_documents": altered} if altered else {}
        return Example(
            id=record.id(line),
            question=record.text("query"),
            answers=answers,
            documents=gold + _documents("negative", record.elements("negative"), is_gold=False),
            meta=meta,
        )


def _flat(given: Any, name: str) -> list[str]:
    return [text_of(one, name) for one in (given if isinstance(given, list) else [given])]


def _documents(name: str, texts: list[Any], *, is_gold: bool) -> list[Document]:
    return [Record({"text": text}, f"{name}[{i}]").document(is_gold=is_gold) for i, text in enumerate(texts)]


def _answers(given: Any) -> tuple[list[str], list[list[str]]]:
    """Accepted answers, and the parts they are made of.

    RGB reads a list as parts that must all be named and a list within it as alternatives of one part. An accepted
    answer names every part, so half an answer does not count as a match.
    """
    items = given if isinstance(given, list) else [given]
    parts = [answers_of(item, f"answer[{i}]" if isinstance(given, list) else "answer") for i, item in enumerate(items)]
    parts = [part for part in parts if part]
    if not parts:
        return [], []
    combinations = math.prod(len(part) for part in parts)
    if combinations > _MOST_COMBINATIONS:
        bad(f"answer: {len(parts)} parts with {combinations} combinations; at most {_MOST_COMBINATIONS}")
    return [" and ".join(chosen) for chosen in itertools.product(*parts)], parts
