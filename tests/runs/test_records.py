"""Records survive a kill at any byte."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from floatlens.core.errors import FloatlensError
from floatlens.runs.records import Record, append_record, read_records, write_records


def record(index: int, **more: object) -> Record:
    return Record.model_validate({"item": f"i{index}", "index": index, "id": f"q\n{index}", "status": "done", **more})


def test_a_line_per_record(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    for index in range(3):
        append_record(path, record(index, answer="Röntgen", warnings=("cut",)))
    lines = path.read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["id"] for line in lines] == ["q\n0", "q\n1", "q\n2"]
    assert json.loads(lines[0])["answer"] == "Röntgen"
    assert "error" not in json.loads(lines[0])
    assert read_records(path, Record) == [record(index, answer="Röntgen", warnings=("cut",)) for index in range(3)]


def test_no_file_is_no_records(tmp_path: Path) -> None:
    assert read_records(tmp_path / "records.jsonl", Record) == []


def test_cut_at_any_byte_the_whole_records_before_it_are_read(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    write_records(path, [record(0), record(1, answer="ä")])
    whole = path.read_bytes()
    first = whole.index(b"\n") + 1
    for size in range(len(whole) + 1):
        path.write_bytes(whole[:size])
        # a record counts as soon as its last brace is there, with or without its line end
        assert len(read_records(path, Record)) == (size >= first - 1) + (size >= len(whole) - 1)


def test_a_broken_line_before_the_last_is_refused_with_its_number(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    write_records(path, [record(0), record(1)])
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + b'{"item": "x"\n' + lines[1])
    with pytest.raises(FloatlensError, match=r"records\.jsonl:2: not a record"):
        read_records(path, Record)
    path.write_bytes(lines[0] + json.dumps({**json.loads(lines[1]), "new": 1}).encode() + b"\n")
    with pytest.raises(FloatlensError, match=r'records\.jsonl:2: not a record \(no key "new"'):
        read_records(path, Record)
