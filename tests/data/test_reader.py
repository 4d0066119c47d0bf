"""Examples: both formats, and for every way a file can be wrong one line that says where."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest

from floatlens.core.errors import FloatlensError, FloatlensWarning
from floatlens.data import Example, read_examples

OWN = {
    "id": "a",
    "question": "Who?",
    "answers": ["Ann", "Anne"],
    "documents": [{"text": "It rained."}, {"title": "House", "text": "Ann built it.", "is_gold": True}],
    "source": "here",
}
LITM = {
    "question": "Who?",
    "answers": ["Ann"],
    "ctxs": [
        {"title": "Rain", "text": "Ann saw rain.", "isgold": False, "hasanswer": True, "score": 2.5, "id": "77"},
        {"title": None, "text": "Ann built it.", "isgold": True, "hasanswer": True},
    ],
    "nq_annotated_gold": {"title": "House"},
}


def write(folder: Path, *records: Any, name: str = "x.jsonl") -> Path:
    path = folder / name
    lines = [record if isinstance(record, bytes) else json.dumps(record).encode() for record in records]
    path.write_bytes(b"\n".join(lines) + b"\n")
    return path


def read(folder: Path, *records: Any, **options: Any) -> list[Example]:
    return list(read_examples(write(folder, *records), **options))


def complaint(folder: Path, *records: Any) -> str:
    """The message, without the folder."""
    with pytest.raises(FloatlensError) as caught:
        read(folder, *records)
    message = str(caught.value)
    assert "\n" not in message
    return message.replace(f"{folder}/", "")


def test_our_own_format(tmp_path: Path) -> None:
    (example,) = read(tmp_path, OWN)
    assert (example.id, example.question, example.answers) == ("a", "Who?", ["Ann", "Anne"])
    assert [(d.title, d.text, d.is_gold) for d in example.documents] == [
        ("", "It rained.", False),
        ("House", "Ann built it.", True),
    ]
    assert example.meta == {"source": "here"}


def test_lost_in_the_middle_format(tmp_path: Path) -> None:
    first, second = read(tmp_path, LITM, LITM | {"id": 7})
    assert (first.id, second.id) == ("line-1", "7")
    assert [(d.title, d.is_gold) for d in first.documents] == [("Rain", False), ("", True)]
    assert first.meta == {"nq_annotated_gold": {"title": "House"}, "gold_by": "isgold"}


def test_hasanswer_marks_gold_only_where_no_passage_says_isgold(tmp_path: Path) -> None:
    passages = [{"title": "A", "text": "a", "hasanswer": True}, {"title": "B", "text": "b", "hasanswer": False}]
    (example,) = read(tmp_path, LITM | {"ctxs": passages})
    assert [d.is_gold for d in example.documents] == [True, False]
    assert example.meta["gold_by"] == "hasanswer"


def test_has_answer_of_dpr_marks_gold(tmp_path: Path) -> None:
    passages = [
        {"id": "wiki:1", "title": "A", "text": "a", "score": "81.2", "has_answer": False},
        {"id": "wiki:2", "title": "B", "text": "b", "score": "80.1", "has_answer": True},
    ]
    (example,) = read(tmp_path, {"question": "Who?", "answers": ["b"], "ctxs": passages})
    assert [d.is_gold for d in example.documents] == [False, True]
    assert example.meta["gold_by"] == "has_answer"


def test_several_golds_no_documents_and_no_answers_are_examples_too(tmp_path: Path) -> None:
    both = [{"text": "one", "is_gold": True}, {"text": "two", "is_gold": True}]
    examples = read(
        tmp_path,
        {"id": "two", "question": "?", "documents": both},
        {"id": "closed", "question": "?", "answers": []},
        {"id": "none", "question": "?", "documents": [{"text": "no gold here"}], "answers": None},
    )
    assert [[d.is_gold for d in e.documents] for e in examples] == [[True, True], [], [False]]
    assert all(e.answers == [] for e in examples)


def test_blank_lines_and_a_byte_order_mark_do_not_count_as_records(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps({"question": "1?"}).encode() + b"\r\n\n  \n" + b'{"question": "2?"}')
    assert [(e.id, e.question) for e in read_examples(path)] == [("line-1", "1?"), ("line-4", "2?")]


def test_gzip_is_known_by_its_content(tmp_path: Path) -> None:
    path = tmp_path / "no-suffix"
    path.write_bytes(gzip.compress(json.dumps(OWN).encode()))
    assert next(read_examples(path)).id == "a"
    path.write_bytes(gzip.compress(json.dumps(OWN).encode() * 500)[:-20])
    with pytest.raises(FloatlensError, match="no-suffix: the gzip file is damaged or cut short"):
        list(read_examples(path))


def test_limit_stops_reading(tmp_path: Path) -> None:
    path = write(tmp_path, OWN, OWN | {"id": "b"}, b"not json at all")
    assert [e.id for e in read_examples(path, limit=2)] == ["a", "b"]
    with pytest.raises(FloatlensError, match="limit=0"):
        next(read_examples(path, limit=0))


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (b"{broken", "not valid JSON: Expecting property name enclosed in double quotes at column 2"),
        (b'["a"]', "expected one JSON object per line, found a list"),
        (b"[" * 100_000, "not a record: nested too deeply"),
        (b'{"question": "Who?", "score": NaN}', "not valid JSON: NaN is not JSON"),
        (b'{"question": "\xff"}', "not UTF-8 (byte 15 of the line)"),
        (b'{"question": "\\ud800"}', "question holds half a character (a lone surrogate), which no tokenizer accepts"),
        ({}, "question is missing"),
        ({"question": " "}, "question is empty"),
        ({"question": 5}, "question: expected a text, found a number"),
        ({"question": "Who?", "answers": "Ann"}, "answers: expected a list, found a text"),
        ({"question": "Who?", "answers": ["Ann", ""]}, "answers[1] is empty"),
        ({"question": "Who?", "answers": [["Ann"]]}, "answers[0]: expected a text, found a list"),
        ({"question": "Who?", "answer": ["Ann"], "documents": []}, 'unknown field "answer"; did you mean "answers"?'),
        ({"question": "Who?", "meta": 3}, "meta: expected an object, found a number"),
        ({"id": "", "question": "Who?"}, "id is empty"),
        ({"id": True, "question": "Who?"}, "id: expected a text, found true or false"),
        ({"question": "Who?", "documents": {}}, "documents: expected a list, found an object"),
        (
            {"question": "Who?", "documents": ["text"]},
            "documents[0]: expected an object with title, text and is_gold, found a text",
        ),
        ({"question": "Who?", "documents": [{"title": "T"}]}, "documents[0].text is missing"),
        ({"question": "Who?", "documents": [{"text": "\n"}]}, "documents[0].text is empty"),
        ({"question": "Who?", "ctxs": [{"text": 1}]}, "ctxs[0].text: expected a text, found a number"),
        ({"question": "Who?", "ctxs": [7]}, "ctxs[0]: expected an object with title, text and isgold, found a number"),
        (
            {"question": "Who?", "ctxs": [{"text": "t", "isgold": "yes"}]},
            "ctxs[0].isgold: expected true or false, found a text",
        ),
    ],
)
def test_what_is_wrong_is_said_with_file_and_line(tmp_path: Path, record: Any, message: str) -> None:
    assert complaint(tmp_path, record) == f"x.jsonl:1: {message}"


def test_a_misspelt_field_of_a_document_is_named(tmp_path: Path) -> None:
    record = {"question": "Who?", "documents": [{"text": "t", "is_glod": True}]}
    assert 'documents[0]: no key "is_glod"; did you mean "is_gold"?' in complaint(tmp_path, record)
    record = {"question": "Who?", "documents": [{"text": "t", "gold": True}]}
    assert complaint(tmp_path, record) == 'x.jsonl:1: documents[0]: no key "gold"; did you mean "is_gold"?'


def test_a_file_keeps_to_the_format_it_began_with(tmp_path: Path) -> None:
    assert complaint(tmp_path, OWN, LITM).startswith('x.jsonl:2: it has "ctxs"')
    assert complaint(tmp_path, LITM, OWN).startswith('x.jsonl:2: "ctxs" is missing')


def test_an_id_may_occur_once(tmp_path: Path) -> None:
    message = complaint(tmp_path, OWN, OWN | {"id": "b"}, OWN)
    assert message == "x.jsonl:3: id 'a' was used before, on line 1; ids must be unique"
    assert "used before, on line 1" in complaint(tmp_path, {"question": "?"}, {"question": "?", "id": "line-1"})


def test_skip_bad_counts_what_it_leaves_out(tmp_path: Path) -> None:
    with pytest.warns(FloatlensWarning) as caught:
        examples = read(tmp_path, b"{", OWN, OWN, OWN | {"id": "b"}, {"question": ""}, skip_bad=True)
    assert [e.id for e in examples] == ["a", "b"]
    (message,) = [str(w.message) for w in caught]
    assert f"{tmp_path}/x.jsonl: 3 bad records skipped; the first was {tmp_path}/x.jsonl:1: not valid JSON" in message


def test_a_file_with_nothing_good_in_it(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_text("\n\n")
    with pytest.raises(FloatlensError, match=r"empty\.jsonl: no example in it"):
        list(read_examples(tmp_path / "empty.jsonl"))
    with pytest.warns(FloatlensWarning), pytest.raises(FloatlensError, match="no good example in it"):
        read(tmp_path, b"{", skip_bad=True)


def test_a_file_that_cannot_be_opened(tmp_path: Path) -> None:
    for path in (tmp_path / "absent.jsonl", tmp_path):
        with pytest.raises(FloatlensError, match=r"(No such file|Is a directory).*give a \.jsonl"):
            next(read_examples(path))


def test_natural_questions() -> None:
    root = Path(__file__).parents[2]
    default = root.parent / "shared" / "data" / "nq-open-oracle-1655.jsonl.gz"
    path = Path(os.environ.get("FLOATLENS_NQ", default))
    if not path.is_file():
        pytest.skip(f"{path} is not there; point FLOATLENS_NQ to nq-open-oracle-1655.jsonl.gz")
    examples = list(read_examples(path))
    assert len(examples) == 1655
    assert all(len(e.documents) == 1 and e.documents[0].is_gold and e.answers for e in examples)
    assert examples[0].answers == ["Wilhelm Conrad Röntgen"]
    assert examples[0].documents[0].title == "List of Nobel laureates in Physics"
