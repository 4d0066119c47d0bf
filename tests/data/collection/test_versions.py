"""Dated documents: what a file says, and one line for everything that is wrong with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from floatlens.core.errors import FloatlensError
from floatlens.data import open_data
from floatlens.data.collection import DatedCollection, Version, open_collection, view_at
from shared.collection import DATES, write_collection

D1 = {"id": "d1", "text": "One.", "added": "2020-05-01"}


def written(folder: Path, *lines: dict[str, Any]) -> Path:
    path = folder / "c.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_a_file_becomes_versions(tmp_path: Path) -> None:
    found = open_collection(write_collection(tmp_path)[0])
    assert len(found) == 6
    assert [(one.id, one.start[:4], (one.end or "")[:4], one.withdrawn, one.corrects) for one in found.versions] == [
        ("d1", "2020", "", False, False),
        ("d2", "2020", "2022", False, False),
        ("d3", "2020", "2022", True, False),
        ("d6", "2020", "2023", True, False),
        ("d4", "2021", "", False, False),
        ("d2", "2022", "", False, True),
        ("d5", "2023", "", False, False),
    ]
    assert found.dates == DATES
    assert found.versions[0].answers == {"q1": ("Mara Dell",)}
    assert found.sentence() == "6 documents from 2020-01-01 to 2023-01-01, 1 corrected, 2 withdrawn"
    assert open_collection(write_collection(tmp_path)[0]).sha256 == found.sha256


def test_a_correction_keeps_the_title_unless_it_has_one(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        D1 | {"title": "T"},
        {"id": "d1", "text": "Two.", "corrected": "2021"},
        {"id": "d1", "title": "U", "text": "Three.", "corrected": "2022"},
    )
    assert [one.title for one in open_collection(path).versions] == ["T", "T", "U"]


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([{"text": "One.", "added": "2020"}], "c.jsonl:1: id is missing"),
        ([{"id": "d1", "text": "One."}], "c.jsonl:1: document 'd1' has no date; give added"),
        ([D1 | {"added": "May 2020"}], 'c.jsonl:1: added: expected a date such as 2021, .* found "May 2020"'),
        ([D1 | {"added": "2020-02-30"}], 'added: expected a date .* found "2020-02-30"'),
        ([D1 | {"added": ["2020"]}], "added: expected a date .* found a list"),
        ([D1 | {"added": True}], "added: expected a date .* found true or false"),
        ([D1 | {"text": " "}], "c.jsonl:1: text is empty"),
        ([D1 | {"corrected": "2021"}], "has both added and corrected"),
        ([D1, D1], "c.jsonl:2: document 'd1' was added before"),
        ([{"id": "d1", "text": "One.", "corrected": "2021"}], "document 'd1' is corrected before a line has added it"),
        ([D1, {"id": "d1", "text": "B.", "corrected": "2020"}], "corrected is 2020-01-01, not after 2020-05-01"),
        ([D1 | {"withdrawn": "2020-05-01"}], "withdrawn is 2020-05-01, not after 2020-05-01"),
        ([{"id": "d1", "withdrawn": "2021"}], "document 'd1' is withdrawn before a line has added it"),
        ([D1 | {"withdrawn": "2021"}, {"id": "d1", "withdrawn": "2022"}], "was withdrawn before, on 2021-01-01"),
        ([D1 | {"withdrawn": "2021"}, {"id": "d1", "text": "B.", "corrected": "2022"}], "after it was withdrawn"),
        ([{"id": "d1", "text": "A.", "withdrawn": "2022"}], "has a text and only withdrawn"),
        ([D1 | {"answers": ["Kell"]}], "answers: expected an object of answers by the id of the question, found a li"),
        ([D1 | {"answers": {"q": []}}], r'answers\["q"\] is empty; leave the question out'),
        ([D1 | {"answers": {"q": [" "]}}], r'answers\["q"\]\[0\] is empty'),
        ([D1 | {"withdrwn": "2022"}], 'unknown field "withdrwn"; did you mean "withdrawn"'),
    ],
)
def test_mistakes_are_one_line(tmp_path: Path, lines: list[dict[str, Any]], said: str) -> None:
    with pytest.raises(FloatlensError, match=said) as caught:
        open_collection(written(tmp_path, *lines))
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(FloatlensError, match=r"none.jsonl: .*No such file"):
        open_collection(tmp_path / "none.jsonl")


def test_questions_with_a_collection(tmp_path: Path) -> None:
    documents, questions = write_collection(tmp_path)
    data = open_data(questions, collection=documents, need=["answers"])
    assert [example.answers for example in data.examples()] == [
        ["Mara Dell"],
        ["Ida Frome"],
        ["Ann Reed"],
        ["Una Pell"],
    ]
    assert data.described()["collection"] == open_collection(documents).sha256
    assert any("a changing collection: 6 documents" in note for note in data.notes())
    with pytest.raises(
        FloatlensError, match=r"c.jsonl: no document answers a question of .*questions.jsonl; give answ"
    ):
        open_data(questions, collection=written(tmp_path, D1))
    with pytest.raises(FloatlensError, match="these questions are made, and so is their collection"):
        open_data("scale:changing", collection=documents)


@pytest.mark.parametrize(
    ("question", "current", "earlier", "withdrawn", "changes"),
    [
        ("q1", ["Mara Dell"] * 4, ["", "", "", ""], ["", "", "", ""], [None, (), (), ()]),
        (
            "q2",
            ["Ott Vane", "Ott Vane", "Ida Frome", "Ida Frome"],
            ["", "", "Ott Vane", "Ott Vane"],
            ["", "", "", ""],
            [None, (), ("corrected",), ()],
        ),
        (
            "q3",
            ["Bo Lund", "Bo Lund", "", "Ann Reed"],
            ["", "", "Bo Lund", "Bo Lund"],
            ["", "", "Bo Lund", "Bo Lund"],
            [None, (), ("withdrawn",), ("added",)],
        ),
        ("q4", ["", "Una Pell", "Una Pell", "Una Pell"], ["", "", "", ""], [""] * 4, [None, ("added",), (), ()]),
    ],
)
def test_what_is_right_at_a_date(
    tmp_path: Path, question: str, current: list[str], earlier: list[str], withdrawn: list[str], changes: list[Any]
) -> None:
    collection = open_collection(write_collection(tmp_path)[0])
    views = [view_at(collection, question, date, before) for date, before in zip(DATES, [None, *DATES], strict=False)]
    assert [" ".join(view.current) for view in views] == current
    assert [" ".join(view.earlier) for view in views] == earlier
    assert [" ".join(view.withdrawn) for view in views] == withdrawn
    assert [view.changes for view in views] == changes


def test_an_answer_that_another_document_still_states_is_neither_earlier_nor_withdrawn() -> None:
    gone = Version(id="a", text="Kell.", start="2020-01-01", end="2021-01-01", withdrawn=True, answers={"q": ("Kell",)})
    live = Version(id="b", text="the KELL", start="2020-01-01", answers={"q": ("the KELL",)})
    view = view_at(DatedCollection([gone, live]), "q", "2022-01-01")
    assert (view.current, view.earlier, view.withdrawn) == (("the KELL",), (), ())
    corrected = live.model_copy(update={"end": "2021-06-01"})
    view = view_at(DatedCollection([gone, corrected]), "q", "2022-01-01")  # a superseded version said so as well
    assert (view.current, view.earlier, view.withdrawn) == ((), ("Kell",), ())


def test_snapshots_are_all_dates_or_spread_over_what_answers() -> None:
    years = [f"{year}-01-01" for year in range(2001, 2013)]
    versions = [Version(id=year, text="x", start=year, answers={"q": ("x",)}) for year in years]
    background = [Version(id=f"b{i}", text="y", start="1000-01-01") for i in range(50)]
    assert DatedCollection(versions).choose_dates(12) == years
    assert DatedCollection([*background, *versions]).choose_dates(3) == [years[2], years[6], years[10]]


def test_half_a_character_in_a_key_of_answers_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, {**D1, "answers": {"\ud800": ["x"]}})
    with pytest.raises(FloatlensError, match=r"c\.jsonl:1: a key of answers holds half a character"):
        open_collection(path)
