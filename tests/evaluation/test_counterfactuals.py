"""Counterfactual prompts: which answer takes the place of a question's own, and why there may be none."""

from __future__ import annotations

from typing import Any

import pytest

from floatlens.data.examples import Example
from floatlens.evaluation.counterfactuals import NoCounterfactualError, find_counterfactual, prompt_pair
from floatlens.models.facts import tokenizer_of
from floatlens.prompts import Document
from floatlens.prompts.types import PromptConfig

HOW = PromptConfig()


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return tokenizer_of("scale:llada")


def asked(**more: Any) -> Example:
    text = "Ada Frost plays the flute ."
    values = {"question": "What does Ada Frost play?", "answers": ["flute"], "documents": [Document(text=text)]}
    return Example.model_validate({"id": "q0", **values, **more})


def words(tokenizer: Any, answer: str) -> int:
    return len(tokenizer(answer, add_special_tokens=False)["input_ids"])


def test_the_first_answer_that_keeps_the_length(tokenizer: Any) -> None:
    assert words(tokenizer, "flute") == words(tokenizer, "harp") == 1
    assert words(tokenizer, "Eagle Bank") == 2
    assert find_counterfactual(tokenizer, asked(), ["flute", "Eagle Bank", "harp", "piano"], HOW) == "harp"


def test_prompts_differ_where_the_answer_is(tokenizer: Any) -> None:
    own, other = prompt_pair(tokenizer, asked(), "harp", HOW)
    places = [place for place, (a, b) in enumerate(zip(own, other, strict=True)) if a != b]
    assert len(places) == 1
    assert "flute" in tokenizer.decode(own[places[0]])
    assert "harp" in tokenizer.decode(other[places[0]])


def test_an_answer_that_states_the_own_one_is_not_taken(tokenizer: Any) -> None:
    with pytest.raises(NoCounterfactualError, match="no answer of another question keeps the number of tokens"):
        find_counterfactual(tokenizer, asked(), ["Flute!", "the flute"], HOW)


@pytest.mark.parametrize(
    ("example", "room", "reason"),
    [
        (asked(documents=[Document(text="It rained .")]), None, "no document states its answer"),
        (asked(documents=[]), None, "no document states its answer"),
        (asked(), 3, "tokens, and 3 fit"),
    ],
)
def test_reasons(example: Example, room: int | None, reason: str, tokenizer: Any) -> None:
    with pytest.raises(NoCounterfactualError, match=reason):
        find_counterfactual(tokenizer, example, ["harp"], HOW, room)


def test_titles_are_changed_too(tokenizer: Any) -> None:
    titled = asked(documents=[Document(title="flute", text="Ada Frost plays the flute .")])
    own, other = prompt_pair(tokenizer, titled, "harp", HOW)
    assert sum(a != b for a, b in zip(own, other, strict=True)) == 2
