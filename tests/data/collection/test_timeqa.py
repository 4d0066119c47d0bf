"""TimeQA by date: periods cut out of questions, a document for each period, and the file of the shared folder."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from floatlens.core.errors import FloatlensError
from floatlens.data import open_data
from floatlens.data.collection.timeqa import undated

FOLDER = Path(os.environ.get("FLOATLENS_DATA", Path(__file__).parents[4] / "shared" / "data"))
FILE = FOLDER / "timeqa-257pages.json.gz"
PAGE = {
    "index": "/wiki/Kell#P6",
    "type": "P6",
    "link": "/wiki/Kell",
    "questions": [
        ["Who was the mayor of Kell from 1990 to 1995?", [{"para": 1, "from": 0, "end": 7, "answer": "Bo Lund"}]],
        ["Who led Kell from Mar 1995 to 2001?", [{"para": 1, "from": 0, "end": 8, "answer": "Ann Reed"}]],
        ["Who was the mayor of Kell in 2005?", [{"para": 2, "from": 0, "end": 8, "answer": "Una Pell"}]],
        ["Who was the mayor of Kell in 2010?", [{"para": 0, "from": 0, "end": 0, "answer": ""}]],
    ],
    "paras": [
        "Kell lies on the river Vey , and for as long as anyone can tell it has had a mayor of its own .",
        "In 1990 Bo Lund became mayor of Kell . He was followed by Ann Reed in 1995 .",
        "Since 2005 Una Pell has been mayor .",
    ],
}


@pytest.mark.parametrize(
    ("question", "wanted"),
    [
        ("Who owned Condor from 2006 to Mar 2020?", ("Who owned Condor?", 2006, 2020)),
        ("From 1969 to 1973, at what college did Engel study?", ("At what college did Engel study?", 1969, 1973)),
        ("Which role did she get in May 2003?", ("Which role did she get?", 2003, 2003)),
        ("Who was born in 1961 and coached York from 2010 to 2013?", None),  # two periods
        ("Who was king after his brother?", None),
        ("Who ruled from 2010 to 2005 in the city?", None),
    ],
)
def test_periods_are_cut_out_of_questions(question: str, wanted: tuple[str, int, int] | None) -> None:
    assert undated(question) == wanted


def test_periods_become_documents(tmp_path: Path) -> None:
    file = tmp_path / "t.json"
    file.write_text(json.dumps([PAGE]))
    data = open_data(f"timeqa:{file}")
    (example,) = data.examples()
    assert (data.name, example.question, example.answers) == ("t by date", "Who was the mayor of Kell?", ["Una Pell"])
    assert data.collection is not None
    found = data.collection.about(example.id)
    assert [(one.start[:4], (one.end or "")[:4], one.withdrawn, one.corrects, one.text) for one in found] == [
        ("1990", "1995", False, False, "In 1990 Bo Lund became mayor of Kell ."),
        ("1995", "2002", True, True, "He was followed by Ann Reed in 1995 ."),
        ("2005", "2006", True, False, "Since 2005 Una Pell has been mayor ."),
    ]
    background = [one for one in data.collection.versions if not one.answers]
    assert [one.text[:4] for one in background] == ["Kell"]  # the other paragraphs state an answer, or are short


@pytest.mark.parametrize(
    ("ref", "said"), [("timeqa:none.json", "timeqa:none.json: no such file"), ("timeqa:", "no such file")]
)
def test_mistakes_are_one_line(ref: str, said: str) -> None:
    with pytest.raises(FloatlensError, match=said):
        open_data(ref)


def test_a_file_without_periods_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "t.json"
    file.write_text(json.dumps([PAGE | {"questions": PAGE["questions"][:1]}]))
    with pytest.raises(FloatlensError, match="no page has two periods"):
        open_data(f"timeqa:{file}")


@pytest.mark.skipif(not FILE.is_file(), reason="the shared file is not here")
def test_the_shared_file() -> None:
    data = open_data(f"timeqa:{FILE}")
    assert data.collection is not None
    assert data.count == 160
    assert all(len(data.collection.about(example.id)) >= 2 for example in data.examples())
