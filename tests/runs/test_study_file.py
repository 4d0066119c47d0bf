"""A study as it is written: what is read, and what is wrong said in one line with file, line, key and a suggestion."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from floatlens.core.errors import FloatlensError
from floatlens.runs.study import Study
from floatlens.runs.study_file import read_study, schema

LEAST: dict[str, Any] = {"models": ["scale:llada"], "data": ["scale:rag"]}


def wrong(given: Any) -> str:
    with pytest.raises(FloatlensError) as caught:
        read_study(given)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_bare_text_is_a_reference() -> None:
    study = read_study({**LEAST, "data": [{"ref": "scale:rag", "limit": 3}, "q.jsonl"]}).study
    assert [one.ref for one in (*study.models, *study.data)] == ["scale:llada", "scale:rag", "q.jsonl"]
    assert study.data[0].limit == 3
    assert read_study(study).study is study


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": 1}, 'study: no key "seed"; did you mean "seeds"?'),
        ({"models": [{"ref": "m", "dtpye": "x"}]}, 'no key "models[0].dtpye"; did you mean "dtype"?'),
        ({"traces": {"place": [0]}}, 'no key "traces.place"; did you mean "places"?'),
        ({"machine": {"worker": 2}}, 'no key "machine.worker"; did you mean "workers"?'),
        ({"stress": {"noise": {"ratio": [0]}}}, 'noise: no key "ratio"; did you mean "ratios"?'),
        ({"traces": {"questions": -1}}, "traces.questions=-1: wants a whole number, at least 0"),
        ({"output": {"figures": ["gif"]}}, 'output.figures[0] wants "pdf", "svg" or "png", got "gif"'),
        ({"models": []}, "models is empty"),
    ],
)
def test_what_is_wrong_is_named(change: dict[str, Any], message: str) -> None:
    assert message in wrong({**LEAST, **change})


def test_a_file_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "study.yaml"
    path.write_text("models: [scale:llada]\ndata:\n  - ref: scale:rag\n    limt: 3\n")
    assert wrong(path) == f'{path}:4: no key "data[0].limt"; did you mean "limit"?'
    path.write_text("models: [scale:llada]\nname: a\nname: b\n")
    assert wrong(path) == f"{path}:3: name is given twice; give it once"
    path.write_text("models: [scale:llada\ndata: x\n")
    assert wrong(path).startswith(f"{path}:2: not valid YAML (")
    path.write_text("name: a\nmodels: [x]\n")
    assert wrong(path) == f"{path}:1: data is missing"
    path.write_text("name: a\nmodel: [x]\ndata: [y]\n")
    assert wrong(path) == f'{path}:2: no key "model"; did you mean "models"?'
    path.write_text("models: [x]\ndata:\n  - {ref: y, limit: 0}\ntraces: {questions: -1}\n")
    assert f"{path}:3: data[0].limit wants at least 1, got 0; {path}:4: traces.questions=-1: " in wrong(path)
    path.write_text("just words\n")
    assert "a study is a mapping" in wrong(path)
    path.write_bytes(b"\xff\xfe\x00")
    assert "not a text file" in wrong(path)
    assert "no such file" in wrong(tmp_path / "none.yaml")


def test_paths_count_from_the_file(tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "tiny").mkdir()
    (tmp_path / "s" / "tiny" / "config.json").write_text("{}")
    path = tmp_path / "s" / "study.yaml"
    path.write_text("models: [tiny, org/name, scale:llada]\ndata: [q.jsonl, nq=n.jsonl, scale:rag]\n")
    source = read_study(path)
    assert [source.data_ref(one.ref) for one in source.study.data] == [
        str(tmp_path / "s" / "q.jsonl"),
        f"nq={tmp_path / 's' / 'n.jsonl'}",
        "scale:rag",
    ]
    assert [source.model_ref(one.ref) for one in source.study.models] == [
        str((tmp_path / "s" / "tiny").resolve()),
        "org/name",
        "scale:llada",
    ]


def test_the_schema_knows_every_key_and_no_other() -> None:
    made = json.loads(schema())
    assert set(made["properties"]) == set(Study.model_fields)
    assert made["additionalProperties"] is False
    assert made["required"] == ["models", "data"]
    assert {"type": "string"} in made["properties"]["models"]["items"]["anyOf"]
    described = [key for key, one in made["$defs"]["Tracing"]["properties"].items() if "description" in one]
    assert set(described) == set(made["$defs"]["Tracing"]["properties"])


def test_the_bundled_study_is_one() -> None:
    with resources.as_file(resources.files("floatlens.runs") / "demo.yaml") as path:
        study = read_study(path).study
    assert [one.ref for one in study.models] == ["scale:llama", "scale:qwen", "scale:llada", "scale:dream"]
    assert (study.traces.places, study.traces.questions) == ((0, 9), 20)
    assert study.controls.shuffled_weights == 1


def test_the_bundled_study_asks_as_many_questions_as_claims_need() -> None:
    from floatlens.claims.claim import FEWEST

    with resources.as_file(resources.files("floatlens.runs") / "demo.yaml") as path:
        study = read_study(path).study
    assert all(one.limit is not None and one.limit >= FEWEST for one in study.data)
    assert study.traces.questions >= FEWEST
    assert len([one for one in study.data if one.traces != 0]) >= 2  # what depends on the task


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("control_draws: 1000000000", "control_draws wants at most 10000, got 1000000000"),
        ("controls: {shuffled_weights: 99999}", "controls.shuffled_weights wants at most 10000, got 99999"),
        ("machine: {workers: 10001}", "machine.workers wants at most 10000, got 10001"),
        ("seeds: {stress: 4294967296}", "seeds.stress wants at most 4294967295, got 4294967296"),
        ("traces: {questions: 1000000000000000000}", "a whole number of more than 18 digits"),
    ],
)
def test_numbers_that_would_fill_the_memory(change: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "study.yaml"
    path.write_text(f"models: [scale:llada]\ndata: [scale:rag]\n{change}\n")
    assert message in wrong(path)
