"""What pydantic refuses is said in one line, in the words of the person who wrote the value."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from floatlens.core.errors import FloatlensError
from floatlens.core.validation import in_one_line, key_text, problems, short, validate


class Inner(BaseModel):
    model_config = ConfigDict(extra="forbid")
    is_gold: bool = False
    weight: float = 1.0


class Settings(BaseModel):
    model_config = ConfigDict(extra="forbid")
    gen_length: int = Field(32, ge=1)
    mode: Literal["low", "high"] = "low"
    name: str = Field("x", min_length=1)
    inner: Inner = Inner()
    many: list[Inner] = []
    layers: tuple[int, ...] | None = None
    seed: Annotated[int, Field(ge=0)] | tuple[int, ...] = 0
    part: Inner | str | None = None
    ratio: float = Field(0.5, gt=0)
    by_name: dict[str, Inner] = {}
    even: int = 2
    low: int = 0
    high: int = 9

    @field_validator("even")
    @classmethod
    def _even(cls, value: int) -> int:
        if value % 2:
            raise ValueError("not even; use 4")
        return value

    @model_validator(mode="after")
    def _ordered(self) -> Settings:
        if self.low > self.high:
            raise ValueError("low is above high; swap them")
        return self


class Needed(BaseModel):
    ref: str


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"gen_length": "abc"}, 'gen_length wants a whole number, got "abc"'),
        ({"gen_length": 2.5}, "gen_length wants a whole number, got 2.5"),
        ({"gen_length": None}, "gen_length wants a whole number, got null"),
        ({"gen_length": 0}, "gen_length wants at least 1, got 0"),
        ({"mode": "mid"}, 'mode wants "low" or "high", got "mid"'),
        ({"name": ""}, "name is empty"),
        ({"name": 3}, "name wants a text, got 3"),
        ({"inner": {"weight": "w"}}, 'inner.weight wants a number, got "w"'),
        ({"inner": 3}, "inner wants a mapping, got 3"),
        ({"many": [{}, {"is_gold": "maybe"}]}, 'many[1].is_gold wants true or false, got "maybe"'),
        ({"many": [{"gold": True}]}, 'no key "many[0].gold"; did you mean "is_gold"?'),
        ({"layers": "first"}, 'layers wants a list, got "first"'),
        ({"gen_lenght": 3}, 'no key "gen_lenght"; did you mean "gen_length"?'),
        ({"inner": {"zzz": 1}}, 'no key "inner.zzz"; known: is_gold, weight'),
        ({"seed": "x"}, 'seed wants a whole number, got "x"'),
        ({"seed": -4}, "seed wants at least 0, got -4"),
        ({"part": {"gold": 1}}, 'no key "part.gold"; did you mean "is_gold"?'),
        ({"by_name": {"a": {"weight": []}}}, "by_name.a.weight wants a number, got []"),
        ({"ratio": 0}, "ratio wants more than 0, got 0"),
        ({"even": 3}, "even=3: not even; use 4"),
        ({"low": 3, "high": 1}, "low is above high; swap them"),
        (
            {"gen_length": "abc", "mode": 1},
            'gen_length wants a whole number, got "abc"; mode wants "low" or "high", got 1',
        ),
    ],
)
def test_each_mistake_is_named_in_the_words_of_the_user(given: dict[str, Any], message: str) -> None:
    with pytest.raises(FloatlensError) as caught:
        validate(Settings, given)
    assert str(caught.value) == message


def test_a_missing_key_and_the_place_of_the_values() -> None:
    with pytest.raises(FloatlensError, match=r"^recipe\.json: ref is missing$"):
        validate(Needed, {}, "recipe.json")


def test_problems_have_the_key_as_a_path() -> None:
    with pytest.raises(ValidationError) as caught:
        Settings.model_validate({"many": [{"weight": "w"}], "gen_length": 0})
    found = problems(caught.value, Settings)
    assert [one.key for one in found] == [("gen_length",), ("many", 0, "weight")]
    assert in_one_line(caught.value) == "; ".join(one.text for one in found)


def test_good_values_are_returned_validated() -> None:
    assert validate(Settings, {"gen_length": "8"}).gen_length == 8


def test_keys_and_values_as_people_write_them() -> None:
    assert key_text(("models", 0, "dtype")) == "models[0].dtype"
    assert short("x" * 80) == '"' + "x" * 56 + "..."
    assert short({"a": [True, None]}) == '{"a": [true, null]}'
