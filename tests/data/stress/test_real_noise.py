"""Stress tests with wrong documents of the data, and which answers count as misled by them."""

from __future__ import annotations

from pathlib import Path

import pytest

from floatlens.core.errors import FloatlensError
from floatlens.data import Example, open_data
from floatlens.data.matching import holds_answer
from floatlens.data.stress import Point, Pool, StressSettings
from floatlens.data.stress.pool import Answer
from floatlens.prompts import Document
from shared.stress import apply, points, unfit

FIXTURES = Path(__file__).parents[1] / "fixtures"


def gold(text: str) -> Document:
    return Document(text=text, is_gold=True)


KEEPER = Example(
    id="q",
    question="Who keeps the lighthouse?",
    answers=["Mara Dell"],
    documents=[gold("Mara Dell keeps it."), gold("The keeper is Mara Dell."), Document(text="Lamps burn oil.")],
    wrong_answers=["Una Holt"],
    wrong_documents=[
        Document(text="Una Holt keeps it, says Mara Dell."),  # states the right answer too: never shown
        Document(text="Una Holt keeps it.", is_gold=True),
        Document(text="The keeper is Una Holt."),
    ],
)
POOL = Pool([Document(text="Tolm lies on the Vey."), Document(text="Una Holt sings."), Document(text="Oil is dear.")])


def shown(point: Point, settings: StressSettings | None = None) -> list[str]:
    return [document.text for document in apply(KEEPER, point, POOL, settings).documents]


def test_gold_then_both_then_wrong_alone() -> None:
    none, half, every = points("wrong")
    assert shown(none) == ["Mara Dell keeps it."]
    assert sorted(shown(half)) == ["Mara Dell keeps it.", "Una Holt keeps it."]
    assert shown(every) == ["Una Holt keeps it."]
    made = apply(KEEPER, every, POOL)
    assert not any(document.is_gold for document in made.documents)
    assert (made.meta["stress"]["gold"], made.meta["stress"]["wrong_documents"]) == (0, 1)
    assert (made.answers, made.wrong_answers) == (KEEPER.answers, KEEPER.wrong_answers)


def test_more_documents_of_each() -> None:
    settings = StressSettings(wrong={"documents": 2})
    assert [len(shown(point, settings)) for point in points("wrong", settings)] == [2, 4, 2]


def test_wrong_documents_against_as_many_of_noise() -> None:
    found = {(point.series, point.x): shown(point) for point in points("misleading")}
    right = ["Mara Dell keeps it.", "The keeper is Mara Dell."]
    wrong = ["Una Holt keeps it.", "The keeper is Una Holt."]
    assert sorted(found["wrong", 2]) == sorted(right + wrong)
    assert sorted(found["wrong", 1]) == sorted([*right, wrong[0]])
    assert {*right, "Lamps burn oil."} == set(found["noise", 1])  # the question's own noise comes first
    assert not any("Una Holt" in text for text in found["noise", 2])  # noise states no wrong answer that is named
    kept = [text for text in found["wrong", 2] if text in found["wrong", 1]]
    assert kept == found["wrong", 1]  # a smaller dose keeps its order


@pytest.mark.parametrize(
    ("test", "reason"),
    [
        ("wrong", "has 0 documents with a wrong answer, and wrong needs 1"),
        ("misleading", "has 0 documents with a wrong answer, and misleading needs 2"),
    ],
)
def test_data_without_wrong_documents(test: str, reason: str) -> None:
    example = KEEPER.model_copy(update={"wrong_documents": KEEPER.wrong_documents[:1]})
    assert unfit(example, test) == reason
    with pytest.raises(FloatlensError, match=reason):
        apply(example, points(test)[0], POOL)
    assert unfit(KEEPER, test, pool=POOL) is None


def test_an_unknown_series() -> None:
    with pytest.raises(FloatlensError, match='no kind of added document "wrongs"; did you mean "wrong"'):
        apply(KEEPER, Point("misleading", "wrongs", 1, "1"), POOL)


def test_counterfactuals_name_the_wrong_answers_they_state() -> None:
    point = Point("distractor", "counterfactual", 1, "1")
    made = apply(KEEPER, point, Pool([], [Answer("Otto Falk")]))
    assert made.wrong_answers == ["Una Holt", *made.meta["stress"]["replaced"]] == ["Una Holt", "Otto Falk"]
    plain = apply(KEEPER, Point("distractor", "random", 1, "1"), POOL)
    assert plain.wrong_answers == ["Una Holt"]


@pytest.mark.parametrize("name", ["rgb.json", "ramdocs.jsonl"])
def test_fixtures_of_the_formats_have_them(name: str) -> None:
    fitting = [one for one in open_data(FIXTURES / name).examples() if unfit(one, "wrong") is None]
    assert fitting
    for example in fitting:
        (document,) = apply(example, points("wrong")[-1], Pool([])).documents
        assert holds_answer(document.text, example.wrong_answers)
        assert not holds_answer(document.text, example.answers)
