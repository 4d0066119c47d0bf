"""Records survive a kill at any byte."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from floatlens.core.errors import FloatlensError
from floatlens.records import (
    RAG,
    Edited,
    Patched,
    Record,
    Stressed,
    has_answers,
    open_answers,
    read_manifest,
    read_records,
)
from floatlens.records.store import append_records, write_records
from shared.patched import patch_record


def record(index: int, **more: Any) -> Record:
    values = {"what": "answer", "model": "m", "data": "d", "condition": RAG, "id": f"q\n{index}", "index": index}
    return Record.model_validate({**values, "status": "done", **more})


def test_a_line_per_record(tmp_path: Path) -> None:
    for index in range(3):
        append_records(tmp_path, [record(index, prediction="Röntgen", warnings=("cut",))])
    lines = (tmp_path / "records.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["id"] for line in lines] == ["q\n0", "q\n1", "q\n2"]
    assert json.loads(lines[0])["prediction"] == "Röntgen"
    assert json.loads(lines[0])["condition"] == {"kind": "rag"}
    assert "error" not in json.loads(lines[0])
    assert read_records(tmp_path) == [record(index, prediction="Röntgen", warnings=("cut",)) for index in range(3)]


def test_conditions_come_back_as_they_were(tmp_path: Path) -> None:
    conditions = [
        RAG,
        Stressed(test="noise", series="noise", x=0.4, point="2"),
        Edited(name="ablate_heads", settings={"heads": [(5, 3), (7, 0)], "mode": "zero"}, control="count", seed=3),
        Patched(what=("residual",), k=3, rows="last", draws=2, seed=1),
    ]
    write_records(tmp_path, [record(0, condition=one) for one in conditions])
    found = read_records(tmp_path)
    assert [one.condition for one in found] == conditions
    assert [one.item for one in found] == [record(0, condition=one).item for one in conditions]
    assert len({one.condition for one in found} | set(conditions)) == len(conditions)
    assert len({one.item for one in found}) == len(conditions)


def test_an_item_is_what_it_is_and_not_what_became_of_it() -> None:
    assert record(1).item == record(1, prediction="x", seconds=2.0).item
    others = [record(1, model="n"), record(1, data="e"), record(1, what="trace"), record(2)]
    assert len({one.item for one in (record(1), *others)}) == 5


def test_no_file_is_no_records(tmp_path: Path) -> None:
    assert read_records(tmp_path) == []


def test_cut_at_any_byte_the_whole_records_before_it_are_read(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    write_records(tmp_path, [record(0), record(1, prediction="ä")])
    whole = path.read_bytes()
    first = whole.index(b"\n") + 1
    for size in range(len(whole) + 1):
        path.write_bytes(whole[:size])
        # a record counts as soon as its last brace is there, with or without its line end
        assert len(read_records(tmp_path)) == (size >= first - 1) + (size >= len(whole) - 1)


def test_a_broken_line_before_the_last_is_refused_with_its_number(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    write_records(tmp_path, [record(0), record(1)])
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + b'{"what": "x"\n' + lines[1])
    with pytest.raises(FloatlensError, match=r"records\.jsonl:2: not a record"):
        read_records(tmp_path)
    path.write_bytes(lines[0] + json.dumps({**json.loads(lines[1]), "new": 1}).encode() + b"\n")
    with pytest.raises(FloatlensError, match=r'records\.jsonl:2: not a record \(no key "new"'):
        read_records(tmp_path)


def test_an_old_run_folder_gets_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"kind": "qa", "format": 1}')
    with pytest.raises(FloatlensError, match="of format 1, and this floatlens reads format 3; run it again into a new"):
        read_manifest(tmp_path)
    (tmp_path / "manifest.json").write_text("[]")
    with pytest.raises(FloatlensError, match="not the manifest of a run"):
        read_manifest(tmp_path)


def test_answers_of_a_folder(tmp_path: Path) -> None:
    assert not has_answers(tmp_path)
    (tmp_path / "manifest.json").write_text('{"format": 3, "models": {"m": {"kind": "mdm"}}}')
    assert not has_answers(tmp_path)
    write_records(tmp_path, [record(0, accuracy=1.0), record(1, what="trace", file="x")])
    assert has_answers(tmp_path)
    answers, manifest = open_answers(tmp_path)
    assert answers[["model", "model_kind", "kind", "accuracy"]].values.tolist() == [["m", "mdm", "rag", 1.0]]
    assert manifest["models"] == {"m": {"kind": "mdm"}}


def test_patched_questions_come_back_as_they_were(tmp_path: Path) -> None:
    records = [patch_record("m", 0), patch_record("m", 1, defined=False)]
    write_records(tmp_path, records)
    assert read_records(tmp_path) == records
    (tmp_path / "manifest.json").write_text('{"format": 3, "models": {"m": {"kind": "mdm"}}}')
    assert has_answers(tmp_path)
    assert open_answers(tmp_path)[0].empty
    assert all(one.complete(tmp_path) for one in records)
