"""A study of a changing collection, from the plan to its tables; it is structured in records and can be continued."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import floatlens as fl
from floatlens.core.errors import FloatlensError
from floatlens.evaluation.metrics import gives_former, score
from floatlens.records import Stressed
from floatlens.runs.plan import make_plan
from floatlens.runs.study_file import read_study
from shared.collection import write_collection

STUDY: dict[str, Any] = {
    "models": ["scale:llada"],
    "data": [{"ref": "scale:changing:snapshots=3", "limit": 4}],
    "conditions": ["collection"],
    "stress": {"collection": {"snapshots": 3, "top": 2}},
    "decoding": {"settings": {"gen_length": 4, "steps": 2}},
    "traces": {"questions": 0},
    "output": {"figures": ["png"], "report": False},
    "machine": {"workers": 1},
}


def test_a_study_of_a_changing_collection(tmp_path: Path) -> None:
    done = fl.run(STUDY, tmp_path / "run", progress=False)
    assert len(done.records) == 12
    for record in done.records:
        snapshot, condition, said = record.snapshot, record.condition, record.prediction
        assert snapshot is not None
        assert said is not None
        assert isinstance(condition, Stressed)
        assert (condition.test, snapshot.date) == ("collection", f"{2021 + int(condition.x)}-01-01")
        assert (snapshot.changes is None) == (condition.x == 0)
        assert record.accuracy == (score(said, snapshot.current).accuracy if snapshot.current else None)
        assert snapshot.stale == gives_former(said, snapshot.earlier, snapshot.current)
        assert snapshot.used_withdrawn == gives_former(said, snapshot.withdrawn, snapshot.current)
        assert record.retrieved is not None
        assert len(record.retrieved) == 2
    assert {len(one.snapshot.current) for one in done.records if one.snapshot} == {0, 1}
    rates = done.tables["collection"]
    recall = rates[(rates["rate"] == "recall") & (rates["date"] == "all")]
    assert recall["n"].tolist() == [4]
    assert {"collection", "collection_agreement", "curves", "robustness"} <= set(done.tables)
    assert (done.path / "figures" / "collection.png").is_file()
    assert fl.run(STUDY, done.path, progress=False).records == done.records


def test_a_dated_file_in_a_study(tmp_path: Path) -> None:
    documents, questions = write_collection(tmp_path)
    data = {"ref": str(questions), "collection": str(documents)}
    plan = make_plan(read_study(STUDY | {"data": [data], "stress": {}}))
    labels = [one.condition.label for one in plan.data[0].conditions]
    assert labels == ["collection 2020", "collection 2021", "collection 2022", "collection 2023"]
    file = tmp_path / "study.yaml"
    file.write_text(
        "models: [scale:llada]\nconditions: [collection]\ndata: [{ref: questions.jsonl, collection: none.jsonl}]\n"
    )
    with pytest.raises(FloatlensError, match=r"none\.jsonl"):
        make_plan(read_study(file))
    file.write_text(
        "models: [scale:llada]\nconditions: [collection]\ndata: [{ref: questions.jsonl, collection: documents.jsonl}]\n"
    )
    source = read_study(file)
    assert make_plan(source).data[0].data.collection is not None  # paths are relative to the study
    assert source.data_ref("timeqa:questions.jsonl") == f"timeqa:{source.path('questions.jsonl')}"
    assert source.data_ref("scale:changing") == "scale:changing"
