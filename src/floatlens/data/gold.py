"""Rules for gold documents in data that marks none: those that hold an accepted answer, or those on a named page.

A rule is applied only on request, and its name is recorded with the example.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias, get_args

from floatlens.core.errors import FloatlensError, did_you_mean
from floatlens.data.examples import Example
from floatlens.data.matching import holds_answer

__all__ = ["GoldRule", "check_rule", "mark_gold", "named_by"]

GoldRule: TypeAlias = Literal["answer", "provenance", "none"]


def check_rule(rule: str) -> None:
    """Refuse an unknown rule."""
    if rule not in get_args(GoldRule):
        raise FloatlensError(f'no rule for gold documents "{rule}"{did_you_mean(rule, get_args(GoldRule))}')


def named_by(provenance: Sequence[Mapping[str, Any]], passage: Mapping[str, Any]) -> bool:
    """Whether KILT's provenance names the page of a passage: by wikipedia_id where both have one, else by title."""
    for page in provenance:
        if "wikipedia_id" in page and passage.get("wikipedia_id") is not None:
            if str(page["wikipedia_id"]) == str(passage["wikipedia_id"]):
                return True
        elif page.get("title") and page["title"] == passage.get("title"):
            return True
    return False


def mark_gold(example: Example) -> Example:
    """The example with exactly those documents gold that hold an accepted answer; `meta["gold_by"]` records the rule.

    Example: `mark_gold(next(read_examples("nq_psg.jsonl"))).meta["gold_by"]  # "answer"`
    """
    documents = [
        document.model_copy(update={"is_gold": holds_answer(document.text, example.answers)})
        for document in example.documents
    ]
    return example.model_copy(update={"documents": documents, "meta": example.meta | {"gold_by": "answer"}})
