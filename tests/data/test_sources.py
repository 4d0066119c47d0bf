"""Data by reference: checked before anything else happens, streamed after; sets of the paper; the scale world."""

from __future__ import annotations

import hashlib
import json
import tracemalloc
import warnings
from pathlib import Path
from typing import Any

import pytest

from floatlens.core.errors import FloatlensError, FloatlensWarning
from floatlens.data import FORMATS, SETS, open_data, read_examples
from shared.stress import unfit

FIXTURES = Path(__file__).parent / "fixtures"


def write(folder: Path, *lines: str | dict[str, Any], name: str = "x.jsonl") -> Path:
    path = folder / name
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    return path


def test_a_file() -> None:
    path = FIXTURES / "psg.jsonl"
    data = open_data(path)
    assert (data.name, data.column, data.format, data.count, data.bad, data.version) == (
        "psg",
        "psg",
        "psg",
        3,
        0,
        None,
    )
    assert data.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert list(data.examples()) == list(data.examples()) == list(read_examples(path))
    assert data.described()["sha256"] == data.sha256


def test_gold_by_the_answer_is_asked_for_and_put_on_record() -> None:
    path = FIXTURES / "psg.jsonl"
    assert not any(document.is_gold for example in open_data(path).examples() for document in example.documents)
    data = open_data(path, gold="answer")
    marks = [[document.is_gold for document in example.documents] for example in data.examples()]
    assert marks == [[True, False], [True], []]  # "… kept by Mara Dell.", "Tolm lies on the Vey.", no passages
    assert {example.meta["gold_by"] for example in data.examples()} == {"answer"}
    assert data.described()["gold"] == "answer"
    assert "gold" not in open_data(path).described()  # older runs go on
    reason = unfit(next(open_data(path).examples()), "noise") or ""
    assert reason.startswith("has 0 gold documents, and noise needs 1 or more; ")
    assert "`gold: answer` (in a study) or --gold answer" in reason
    assert unfit(next(data.examples()), "noise") is None
    with pytest.raises(FloatlensError, match='gold="answers": expected "answer"'):
        open_data(path, gold="answers")  # type: ignore[arg-type]
    with pytest.raises(FloatlensError, match="these questions mark their gold documents"):
        open_data("scale:rag", limit=2, gold="answer")


def test_a_set_of_the_paper(tmp_path: Path) -> None:
    passages = [{"segment": f"passage {i}"} for i in range(8)]
    path = write(tmp_path, {"query": "Who?", "answer": "Ann", "passage": passages})
    data = open_data(f"trex={path}")
    assert (data.name, data.version, data.title, data.column, data.format) == ("trex", 1, "T-REx", "T-REx", "psg")
    (example,) = data.examples()
    assert [d.text for d in example.documents] == [f"passage {i}" for i in range(5)]  # as many as the paper shows
    (example,) = open_data(f"trex={path}", documents=2).examples()
    assert len(example.documents) == 2
    with pytest.raises(FloatlensError, match='"ctxs" is missing, which format "litm" needs'):
        open_data(f"nq={path}", format="litm")
    with pytest.raises(FloatlensError, match='no data set "trx"; did you mean "trex"'):
        open_data(f"trx={path}")
    with pytest.raises(FloatlensError, match="documents=0"):
        open_data(path, documents=0)


def test_a_file_may_have_an_equals_sign_in_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, {"question": "Who?"}, name="seed=1.jsonl")
    monkeypatch.chdir(tmp_path)
    assert open_data("seed=1.jsonl").name == "seed=1"


def test_any_problem_stops_with_the_first_and_the_number_of_the_rest(tmp_path: Path) -> None:
    path = write(tmp_path, {"question": "Who?"}, "{", {"question": ""}, {"question": "What?"}, "[]")
    with pytest.raises(FloatlensError) as caught:
        open_data(path)
    assert str(caught.value) == (
        f"{path}:2: not valid JSON: Expecting property name enclosed in double quotes at column 2 "
        "(and 2 more in this file); fix the file, or leave bad records out with skip_bad"
    )


def test_skip_bad_counts_and_reports_once(tmp_path: Path) -> None:
    path = write(tmp_path, {"question": "Who?"}, "{", {"question": ""}, {"question": "What?"})
    with pytest.warns(FloatlensWarning, match=r"2 bad records skipped; the first was .*x\.jsonl:2"):
        data = open_data(path, skip_bad=True)
    assert (data.count, data.bad) == (2, 2)
    assert data.problems[1] == f"{path}:3: question is empty"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [e.id for e in data.examples()] == ["line-1", "line-4"]


def test_a_file_that_went_bad_since_it_was_checked(tmp_path: Path) -> None:
    path = write(tmp_path, {"question": "Who?"})
    data = open_data(path)
    write(tmp_path, "{")
    with pytest.raises(FloatlensError, match=r"x\.jsonl:1: not valid JSON"):
        list(data.examples())


@pytest.mark.parametrize(
    ("need", "message"),
    [
        ("answers", "no accepted answer, so an answer to it cannot be scored"),
        ("documents", "no documents, which this task needs; give some, or a corpus to retrieve them from"),
        ("gold", "no document is marked as gold, which this task needs"),
    ],
)
def test_what_a_task_needs_is_asked_of_every_question(tmp_path: Path, need: Any, message: str) -> None:
    whole = {"id": "w", "question": "Who?", "answers": ["Ann"], "documents": [{"text": "Ann.", "is_gold": True}]}
    bare = {"id": "b", "question": "Who?", "documents": [] if need == "documents" else [{"text": "Ann."}]}
    path = write(tmp_path, whole, bare)
    assert open_data(path).count == 2  # a question all the same
    with pytest.raises(FloatlensError) as caught:
        open_data(path, need=[need])
    assert f"{path}:2: {message}" in str(caught.value)
    with pytest.warns(FloatlensWarning):
        assert open_data(path, need=[need], skip_bad=True).count == 1


def test_an_unknown_need() -> None:
    with pytest.raises(FloatlensError, match='need="answer"; did you mean "answers"'):
        open_data(FIXTURES / "plain.jsonl", need=["answer"])  # type: ignore[list-item]


def test_nothing_good_and_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(FloatlensError, match="no example in it"):
        open_data(write(tmp_path, ""))
    with pytest.warns(FloatlensWarning), pytest.raises(FloatlensError, match="no good example in it"):
        open_data(write(tmp_path, "{"), skip_bad=True)
    with pytest.raises(FloatlensError, match="No such file"):
        open_data(tmp_path / "absent.jsonl")


def test_a_large_file_is_never_held_whole(tmp_path: Path) -> None:
    record = {"question": "Who?", "answers": ["Ann"], "ctxs": [{"text": "word " * 4000}]}
    path = write(tmp_path, *[record] * 600)
    assert path.stat().st_size > 12_000_000
    tracemalloc.start()
    data = open_data(path)
    assert sum(1 for _ in data.examples()) == data.count == 600
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2_000_000


def test_the_scale_world() -> None:
    from floatlens.subjects.scale import questions
    from floatlens.subjects.scale.source import DEFAULT_COUNT

    data = open_data("scale:rag:documents=3:gold=2:seed=7", limit=4, need=["answers", "documents", "gold"])
    assert list(data.examples()) == questions("rag", 4, documents=3, gold=2, seed=7)
    assert (data.name, data.format, data.count) == ("scale:rag:documents=3:gold=2:seed=7", "scale", 4)
    assert len(next(open_data("scale:rag", limit=1, documents=4).examples()).documents) == 4
    assert open_data("scale:closed-known").count == DEFAULT_COUNT


def test_scale_data_are_identified_by_what_they_are_drawn_from() -> None:
    one, same = open_data("scale:rag", limit=1), open_data("scale:rag:seed=0:documents=10", limit=2)
    assert one.sha256 == same.sha256 != open_data("scale:rag:seed=1", limit=1).sha256


@pytest.mark.parametrize(
    ("ref", "options", "message"),
    [
        ("scale:rga", {}, 'no question set "rga"; did you mean "rag"?'),
        ("scale:rag:document=3", {}, 'no setting "document"; did you mean "documents"?'),
        ("scale:rag:seed=x", {}, 'seed is "x"; expected a whole number'),
        ("scale:rag:documents=3", {"documents": 5}, "it says 3 documents, and documents=5 was given"),
        ("scale:rag", {"format": "psg"}, "are not read from a file"),
        ("scale:rag", {"limit": 0}, "limit=0"),
        ("scale:closed-known", {"need": ["documents"]}, "scale:closed-known: no documents"),
    ],
)
def test_mistakes_about_the_scale_world(ref: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(FloatlensError) as caught:
        open_data(ref, **options)
    assert message in str(caught.value)


def test_the_papers_sets() -> None:
    assert [spec.column for spec in SETS.values()] == ["NQ", "TQA", "MarcoQA", "HotpotQA", "T-REx"]
    assert SETS["nq"].version == 1
    assert {spec.format for spec in SETS.values()} <= set(FORMATS)


@pytest.mark.parametrize(
    ("ref", "limit", "said"),
    [
        ("scale:rag", 10**12, "scale:rag: limit=1000000000000: at most 100,000 questions are drawn"),
        ("scale:changing", 100_001, "at most 100,000 questions"),
        ("scale:rag:documents=1001", None, "documents is 1001; expected at most 1000"),
        ("scale:changing:snapshots=1001", None, "snapshots is 1001; expected at most 1000"),
        (f"scale:rag:seed={'9' * 200}", None, f"seed is {'9' * 20}; expected at most 4294967295"),
    ],
)
def test_numbers_with_which_drawing_would_not_end(ref: str, limit: int | None, said: str) -> None:
    with pytest.raises(FloatlensError, match=said):
        open_data(ref, limit=limit)
