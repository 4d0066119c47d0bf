"""The stress test `collection`: what is shown and what is right at every snapshot, on dated data and on any other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from floatlens.core.errors import FloatlensError
from floatlens.data import Data, Example, open_data
from floatlens.data.collection.made import FATES, make_collection
from floatlens.data.matching import holds_answer
from floatlens.data.stress import Pool, StressSettings, StressTest
from floatlens.prompts import Document
from shared.collection import DATES, write_collection


def prepared(data: Data, **settings: Any) -> tuple[StressTest, Pool]:
    pool = Pool.of(data.examples())
    return StressSettings(collection=settings).of("collection").prepare(data, pool), pool


@pytest.fixture
def dated(tmp_path: Path) -> Data:
    documents, questions = write_collection(tmp_path)
    return open_data(questions, collection=documents)


def test_every_snapshot_of_a_dated_collection(dated: Data) -> None:
    test, pool = prepared(dated, top=2)
    assert [point.label for point in test.points()] == [f"collection {date[:4]}" for date in DATES]
    mayor = {example.id: example for example in dated.examples()}["q3"]
    assert test.unfit(mayor, pool) is None
    made = [test.apply(mayor, point, pool) for point in test.points()]
    assert [one.answers for one in made] == [["Bo Lund"], ["Bo Lund"], [], ["Ann Reed"]]
    assert [[d.text for d in one.documents if d.is_gold] for one in made] == [
        ["The mayor of Tolm is Bo Lund."],
        ["The mayor of Tolm is Bo Lund."],
        [],
        ["The mayor of Tolm is Ann Reed."],
    ]
    assert [one.meta["snapshot"]["gold_found"] for one in made] == [1, 1, 0, 1]
    assert [one.meta["snapshot"]["changes"] for one in made] == [None, (), ("withdrawn",), ("added",)]
    assert [one.meta["retrieval"]["found"][0]["id"] for one in (made[0], made[3])] == ["d3", "d5"]
    assert made[2].documents == []  # nothing left shares a word with the question
    assert made[0].meta["stress"]["test"] == "collection"


def test_other_dates(dated: Data) -> None:
    test, _ = prepared(dated, dates=["2021-06", 2020])
    assert [point.label for point in test.points()] == ["collection 2020", "collection 2021-06-01"]


def test_a_question_that_no_document_answers_does_not_fit(dated: Data) -> None:
    test, pool = prepared(dated, dates=["2020", "2020-06"])
    baker = {example.id: example for example in dated.examples()}["q4"]
    assert "has an answer at none of the snapshots" in str(test.unfit(baker, pool))
    with pytest.raises(FloatlensError, match='leave it out of test "collection"'):
        test.apply(baker, test.points()[0], pool)


def test_a_test_that_is_not_prepared_says_so(dated: Data) -> None:
    test = StressSettings().of("collection")
    assert "prepare the test with the data first" in str(test.unfit(next(dated.examples())))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"dates": ["soon"]}, r'collection: dates=\["soon"\]: expected a date such as 2021.* found "soon"'),
        ({"snapshots": 1}, "snapshots wants at least 2"),
        ({"top": 0}, "top wants at least 1"),
    ],
)
def test_mistakes_are_one_line(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(FloatlensError, match=said) as caught:
        StressSettings(collection=settings)
    assert "\n" not in str(caught.value)


# -- made from questions ------------------------------------------------------------------------------------------


def asked(number: int, **more: Any) -> Example:
    place, name = f"Place{number}", f"Person{number} Dell"
    gold = Document(title=place, text=f"The keeper of {place} is {name}. It is old.", is_gold=True)
    fields: dict[str, Any] = {"answers": [name], "documents": [gold, Document(text=f"Rain falls on hill {number}.")]}
    return Example(id=f"q{number}", question=f"Who is the keeper of {place}?", **fields | more)


def test_questions_meet_their_fates_in_turn() -> None:
    examples = [asked(number) for number in range(8)]
    made = make_collection(examples, 4, seed=3)
    assert len(made) == 16
    for number, example in enumerate(examples):
        versions = list(made.about(example.id))
        fate = FATES[number % 4]
        told = [(one.start == "2021-01-01", one.end is None, one.withdrawn, one.corrects) for one in versions]
        assert (
            told
            == {
                "untouched": [(True, True, False, False)],
                "corrected": [(True, False, False, False), (False, True, False, True)],
                "withdrawn": [(True, False, True, False)],
                "added": [(False, True, False, False)],
            }[fate]
        )
        if fate == "corrected":
            old, new = versions
            (wrong,) = new.answers[example.id]
            assert new.text == old.text.replace(example.answers[0], wrong)
            assert not holds_answer(new.text, example.answers)
            assert wrong in {other.answers[0] for other in examples if other != example}
    assert set(made.dates) <= {f"{year}-01-01" for year in range(2021, 2025)}
    assert make_collection(examples, 4, seed=3).sha256 == made.sha256
    assert make_collection(examples, 4, seed=4).sha256 != made.sha256


def test_what_cannot_be_changed_is_untouched() -> None:
    shared = Document(title="Both", text="Person1 Dell and Person2 Dell keep it.", is_gold=True)
    number = asked(5, answer_kind="number", answers=["5"], documents=[Document(text="There are 5.", is_gold=True)])
    examples = [asked(0), asked(1, documents=[shared]), asked(2, documents=[shared]), asked(3), asked(4), number]
    made = make_collection(examples, 3, seed=0)
    assert [[one.end for one in made.about(f"q{n}")] for n in (1, 2, 5)] == [[None], [None], [None]]
    unanswered = make_collection([asked(0, answers=[])], 3, seed=0)
    assert unanswered.about("q0") == ()


def test_the_collection_is_that_of_the_whole_file(tmp_path: Path) -> None:
    file = tmp_path / "q.jsonl"
    kept = {"id", "question", "answers", "documents"}
    file.write_text("".join(asked(number).model_dump_json(include=kept) + "\n" for number in range(12)))
    data = open_data(file, limit=4)
    test, pool = prepared(data, snapshots=3, top=12)
    first = next(data.examples())
    shown = [test.apply(first, point, pool) for point in test.points()]
    titles = {document.title for document in shown[-1].documents}
    assert len(titles - {""}) > 4  # documents of questions that are not asked
    assert all(test.unfit(example, pool) is None for example in data.examples())
    fates = [
        [test.apply(example, point, pool).meta["snapshot"]["changes"] for point in test.points()]
        for example in data.examples()
    ]
    assert fates[0] == [None, (), ()]
    assert [{change for each in fate for change in each or ()} for fate in fates] == [
        set(),
        {"corrected"},
        {"withdrawn"},
        {"added"},
    ]
    assert json.loads(json.dumps(shown[0].meta["stress"])) == shown[0].meta["stress"]


def test_questions_without_gold_do_not_fit(tmp_path: Path) -> None:
    file = tmp_path / "q.jsonl"
    file.write_text('{"id": "a", "question": "Who?", "answers": ["Kell"], "documents": [{"text": "Kell."}]}\n')
    test, pool = prepared(open_data(file))
    assert "has 0 gold documents, and collection needs 1" in str(test.unfit(next(open_data(file).examples()), pool))
