"""Studies that force texts: the targets of questions and the holes of passages, for models of both kinds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import floatlens as fl
from floatlens.core.errors import FloatlensError
from floatlens.runs.manifest import manifest_of
from floatlens.runs.plan import make_plan
from floatlens.runs.study_file import read_study

BASE: dict[str, Any] = {
    "name": "forced",
    "models": ["scale:llama", {"ref": "scale:llada", "decoding": {"settings": {"temperature": 0.5}}}],
    "decoding": {"settings": {"gen_length": 6, "steps": 3}},
    "analyses": ["drift"],
    "output": {"figures": [], "report": True, "examples": 2},
}
PASSAGES = [
    {"id": "p", "passage": "Ada Frost plays the flute. Ada Frost lives in Lorvik.", "hole": 4},
    {"id": "q", "passage": "Ada Frost is a baker by trade and lives in Lorvik.", "hole": [0, 9]},
]


def write(path: Path, records: list[dict[str, Any]]) -> str:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return str(path)


def test_targets_beside_answers(tmp_path: Path) -> None:
    """Questions are answered freely and scored; their traces are of the accepted answer, and are not."""
    study = BASE | {
        "data": [{"ref": "scale:rag:documents=2", "limit": 2, "conditions": ["rag"]}],
        "traces": {"questions": 2, "probes": ["received"], "target": "answer"},
    }
    run = fl.run(study, tmp_path / "run")
    traces = [one for one in run.records if one.what == "trace"]
    answers = [one for one in run.records if one.what == "answer"]
    assert (len(traces), len(answers)) == (4, 4)
    examples = {e.id: e for e in make_plan(read_study(study)).data[0].data.examples()}
    for one in traces:
        assert one.status == "done", one.error
        assert (one.answer, one.forced) == (examples[one.id].answers[0], True)
        assert one.log_likelihood is not None
        assert (one.accuracy, one.f1, one.exact_match) == (None, None, None)
    assert all(one.forced is None and one.accuracy is not None for one in answers)
    by_id = {(one.model, one.id): one.steps for one in traces}
    assert all(by_id["scale:llama", id] == by_id["scale:llada", id] for _, id in by_id)
    assert all(trace.forced for trace in run.traces())
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert manifest["study"]["traces"]["target"] == "answer"
    forced = manifest["models"]["scale:llada"]["forced"]
    assert forced["temperature"] == 0.5
    assert {"gen_length", "steps", "block_length"}.isdisjoint(forced)
    fl.run(study, tmp_path / "run")  # nothing left to do, and the folder is that of this study


def test_passages(tmp_path: Path) -> None:
    study = BASE | {
        "data": [{"ref": write(tmp_path / "passages.jsonl", PASSAGES), "conditions": []}],
        "traces": {"questions": 2, "probes": ["received"]},
    }
    run = fl.run(study, tmp_path / "run")
    assert {(one.what, one.status, one.forced, one.question) for one in run.records} == {("trace", "done", True, None)}
    assert sorted((one.model, one.id, one.steps) for one in run.records) == [
        ("scale:llada", "p", 4),
        ("scale:llada", "q", 2),
        ("scale:llama", "p", 4),
        ("scale:llama", "q", 2),
    ]
    assert (tmp_path / "run" / "report.html").is_file()


def test_a_study_that_forces_nothing_is_as_before() -> None:
    plan = make_plan(read_study(BASE | {"data": [{"ref": "scale:rag:documents=2", "limit": 1}]}))
    manifest = manifest_of(plan)
    assert manifest["models"]["scale:llada"]["forced"] is None
    assert manifest["target"] == "none"


@pytest.mark.parametrize(
    ("records", "more", "message"),
    [
        (PASSAGES, {}, "a passage with a hole can be traced, not asked"),
        (
            PASSAGES,
            {"conditions": [], "traces": {"target": "field"}},
            "the target of a passage is what is cut out",
        ),
        ([{"id": "x", "question": "q?"}], {"conditions": [], "traces": {"target": "field"}}, "'x' has no field"),
        ([{"id": "x", "question": "q?"}], {"conditions": [], "traces": {"target": "answer"}}, "'x' has no accepted"),
        ([{"id": "x", "question": "q?"}], {"traces": {"target": "gold"}}, "target"),
    ],
)
def test_mistakes(records: list[dict[str, Any]], more: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(FloatlensError, match=message):
        make_plan(read_study(BASE | {"data": [write(tmp_path / "data.jsonl", records)]} | more))
