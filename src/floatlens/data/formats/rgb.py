"""RGB: `positive` passages are gold, in groups where an answer has several parts; then the `negative` ones.

The counterfactual set also has `fakeanswer` and `positive_wrong`, the positive passages with the wrong answer in them.
"""

from typing import Any

from floatlens.data.examples import Example
from floatlens.data.fields import Record, answers_of, list_of, parts_of, text_of
from floatlens.data.formats import Format
from floatlens.prompts import Document


class Rgb(Format):
    name = "rgb"
    title = "RGB"
    marks = ("query", "positive", "negative")

    def read(self, record: Record, line: int) -> Example:
        positive = record.elements("positive")
        groups = [[one] if isinstance(one, str) else list_of(one, f"positive[{i}]") for i, one in enumerate(positive)]
        gold = _documents("positive", [text for group in groups for text in group], is_gold=True)
        answers, parts = parts_of(record.get("answer"), "answer")
        meta = record.rest("id", "query", "answer", "fakeanswer", "positive", "positive_wrong", "negative") | {
            "gold_by": "positive"
        }
        if any(isinstance(given, list) for given in positive):
            meta["gold_groups"] = [i for i, group in enumerate(groups) for _ in group]
        altered = [text for given in record.elements("positive_wrong") for text in _flat(given, "positive_wrong")]
        return Example(
            id=record.id(line),
            question=record.text("query"),
            answers=answers,
            documents=gold + _documents("negative", record.elements("negative"), is_gold=False),
            meta=meta,
            answer_kind="parts" if len(parts) > 1 else "text",
            answer_parts=parts if len(parts) > 1 else [],
            wrong_answers=answers_of(record.get("fakeanswer"), "fakeanswer"),
            wrong_documents=_documents("positive_wrong", altered, is_gold=False),
        )


def _flat(given: Any, name: str) -> list[str]:
    return [text_of(one, name) for one in (given if isinstance(given, list) else [given])]


def _documents(name: str, texts: list[Any], *, is_gold: bool) -> list[Document]:
    return [Record({"text": text}, f"{name}[{i}]").document(is_gold=is_gold) for i, text in enumerate(texts)]
