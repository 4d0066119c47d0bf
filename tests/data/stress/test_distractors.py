"""Counterfactuals: every mention of every accepted answer is gone; what stands there is wrong and of the same sort."""

from __future__ import annotations

import pytest

from floatlens.core.errors import FloatlensError
from floatlens.data import Example
from floatlens.data.stress import Point, Pool, StressSettings
from floatlens.data.stress.pool import Answer
from floatlens.evaluation.metrics import accuracy
from floatlens.prompts import Document
from floatlens.subjects.scale.examples import questions
from shared.stress import apply, unfit

SETTINGS = StressSettings()


def ask(answers: list[str], *gold: tuple[str, str], question: str = "Where?", id: str = "q") -> Example:
    documents = [Document(title=title, text=text, is_gold=True) for title, text in gold]
    return Example(id=id, question=question, answers=answers, documents=documents)


def false(example: Example, count: int, *wrong: str) -> tuple[list[Document], list[str]]:
    point = Point("distractor", "counterfactual", count, str(count))
    made = apply(example, point, Pool([], [Answer(text) for text in wrong]), SETTINGS)
    return [d for d in made.documents if not d.is_gold], made.meta["stress"]["replaced"]


def test_title_text_and_every_alias() -> None:
    example = ask(
        ["Wilhelm Conrad Röntgen", "Röntgen", "W.C. Röntgen"],
        ("Wilhelm Röntgen", "RÖNTGEN (W.C. Röntgen) was born in Lennep; Wilhelm Conrad Röntgen's rays. röntgen!"),
    )
    (copy,), replaced = false(example, 1, "Max Planck")
    assert replaced == ["Max Planck"]
    assert copy.title == "Wilhelm Max Planck"
    assert copy.text == "Max Planck (Max Planck) was born in Lennep; Max Planck's rays. Max Planck!"
    assert not copy.is_gold


@pytest.mark.parametrize(
    ("answers", "text", "wrong", "told"),
    [
        (
            ["U.S."],
            "It left the U.S. for good, to come to the US.",
            "Chile",
            "It left the Chile for good, to come to the Chile.",
        ),
        (["1,200"], "There were 1,200 or, as some say, 1200 men.", "35", "There were 35 or, as some say, 35 men."),
        (
            ["the Beatles"],
            "It was the Beatles. Beatles!",
            "The Rolling Stones",
            "It was the Rolling Stones. Rolling Stones!",
        ),
        (["北京"], "首都是北京。", "上海", "首都是上海。"),
        (["May 4, 1970"], "On may 4 1970, it rained.", "June 1, 1981", "On June 1, 1981, it rained."),
        (["Thea"], "Thea sang.", "Anna Bell", "Anna Bell sang."),  # no article, though it begins with "An"
    ],
)
def test_what_is_told_instead(answers: list[str], text: str, wrong: str, told: str) -> None:
    (copy,), _ = false(ask(answers, ("", text)), 1, wrong)
    assert copy.text == told


def test_a_wrong_answer_has_nothing_of_a_right_one_and_is_new_to_the_document() -> None:
    answers = ["Hugo Frost", "Frost the Elder"]
    example = ask(answers, ("Nils", "Nils met Hugo Frost in Kell."), question="Whom did Ada see?")
    barred = ["hugo frost", "Frost", "Elder", "Mr. Hugo Frost", "Nils", "Kell", "Ada", "the"]
    copies, replaced = false(example, 2, *barred, "Otto Hale", "Ann Weir")
    assert sorted(replaced) == ["Ann Weir", "Otto Hale"]
    assert {copy.text for copy in copies} == {f"Nils met {wrong} in Kell." for wrong in replaced}
    with pytest.raises(FloatlensError, match="needs 3 counterfactuals, and the data has only 2 wrong answers"):
        false(example, 3, *barred, "Otto Hale", "Ann Weir")


def test_a_wrong_answer_that_makes_a_right_one_with_its_neighbours_is_passed_over() -> None:
    example = ask(["Jersey", "New York City"], ("", "He left Jersey City."))
    (copy,), _ = false(example, 1, "Old New York", "Boston")
    assert copy.text == "He left Boston City."
    with pytest.raises(FloatlensError, match="only 0 wrong answers"):
        false(example, 1, "Old New York")


def test_the_same_shape_first_then_the_asking_word_then_the_length() -> None:
    wrong = [
        Answer("1914"),
        Answer("7"),
        Answer("a spleen"),
        Answer("Kell", asked="who"),
        Answer("Otto Hale", asked="who"),
    ]
    pool = Pool([], [*wrong, Answer("Orrin Lake"), Answer("Max Planck Jr", asked="who")])
    point = Point("distractor", "counterfactual", 7, "7")
    for seed in range(5):
        example = ask(["Hugo Frost"], ("", "It was Hugo Frost."), question="Who was it?", id=f"q{seed}")
        replaced = apply(example, point, pool, StressSettings(seed=seed)).meta["stress"]["replaced"]
        assert replaced[0] == "Otto Hale"
        assert sorted(replaced[1:3]) == ["Kell", "Max Planck Jr"]  # both one word off
        assert replaced[3] == "Orrin Lake"
        assert sorted(replaced[4:]) == ["1914", "7", "spleen"]


def test_a_short_answer_is_replaced_as_a_word_only() -> None:
    (copy,), _ = false(ask(["US"], ("", "The bus is in the US.")), 1, "UK")
    assert copy.text == "The bus is in the UK."


def test_several_gold_documents_by_turns_and_only_those_that_tell() -> None:
    example = ask(["Kell"], ("A", "He lives in Kell."), ("B", "Nothing."), ("C", "Kell is old."))
    copies, replaced = false(example, 3, "Orrin", "Hest", "Tolm")
    told = {copy.title: copy.text for copy in copies}
    assert sorted(copy.title for copy in copies) == ["A", "A", "C"]
    assert told["C"] == f"{replaced[1]} is old."
    assert len(set(replaced)) == 3


@pytest.mark.parametrize(
    ("answers", "text", "reason"),
    [
        (["Paris"], "Nothing of it.", "names no accepted answer in its gold documents, so none can be replaced there"),
        ([], "Paris.", "has no accepted answer, so nothing shows which documents lack it"),
        (["the"], "the end", "has no accepted answer, so nothing shows which documents lack it"),
    ],
)
def test_unfit_for_counterfactuals(answers: list[str], text: str, reason: str) -> None:
    example = ask(answers, ("", text))
    found = unfit(example, "distractor")
    assert found is not None
    assert found.startswith(reason)
    if answers == ["Paris"]:
        assert unfit(example, "distractor", StressSettings(distractor={"kinds": ("random",)})) is None
    with pytest.raises(FloatlensError, match='question "q" ' + reason[:20]) as caught:
        false(example, 1, "Kell")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("which", "count"), [("rag", 60), ("two-hop", 40)])
def test_scale_questions_get_answers_to_the_same_attribute(which: str, count: int) -> None:
    pool_of = [*questions("rag", 100, seed=5), *questions("two-hop", 60, seed=5)]
    pool = Pool.of(pool_of)
    accepted = {
        attribute: {e.answers[0] for e in pool_of if e.meta["path"][-1] == attribute}
        for attribute in {e.meta["path"][-1] for e in pool_of}
    }
    tried = 0
    for example in questions(which, count):  # type: ignore[arg-type]
        if unfit(example, "distractor", StressSettings(distractor={"counts": (3,)}), pool):
            continue
        tried += 1
        made = apply(example, Point("distractor", "counterfactual", 3, "3"), pool, SETTINGS)
        replaced = made.meta["stress"]["replaced"]
        assert len(set(replaced)) == 3
        assert set(replaced) <= accepted[example.meta["path"][-1]] - set(example.answers)
        gold = [d for d in example.documents if d.is_gold]
        copies = [d for d in made.documents if not d.is_gold]
        assert len(copies) == 3
        for copy in copies:
            assert not accuracy(f"{copy.title} {copy.text}", example.answers[0])
            # the only difference is the answer, wherever it stood
            wrong = next(w for w in replaced if w in copy.text)
            originals = [
                d for d in gold if (d.title, d.text.replace(example.answers[0], wrong)) == (copy.title, copy.text)
            ]
            assert len(originals) == 1
    assert tried > 0.9 * count
