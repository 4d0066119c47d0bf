"""`--controls` of `floatlens trace`, and how the plan of a study shows controls."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

import floatlens as fl

Run = Callable[..., tuple[int, str, str]]
Data = Callable[..., Path]
QUICK = ("--set", "gen_length=4", "--probes", "received,entropy", "--no-report")


@pytest.mark.parametrize("forced", [False, True])
def test_controls_of_a_trace_run(
    forced: bool, floatlens: Run, model: Path, data: Data, tmp_path: Path, unpublished: None
) -> None:
    out, quick = tmp_path / "run", ("--target", "answer", *QUICK[2:]) if forced else QUICK
    code, shown, err = floatlens("trace", model, "--data", data(2), "--out", out, "--controls", "2", *quick)
    assert code == 0, err
    assert "2 controls" in shown
    assert f"6 of 6 items in {out}" in err
    records = [json.loads(line) for line in (out / "records.jsonl").read_text().splitlines()]
    assert [record["model"].removeprefix(str(model)) for record in records] == [
        *[""] * 2,
        *[", weights shuffled (seed 0)"] * 2,
        *[", weights shuffled (seed 1)"] * 2,
    ]
    assert [bool(record.get("forced")) for record in records] == [forced] * 6
    traces = [fl.open_trace(out / record["file"]) for record in records]
    assert [trace.model.get("control", {}).get("seed") for trace in traces] == [None, None, 0, 0, 1, 1]
    if forced:
        assert (
            len({tuple(trace.data["final"].values.tolist()) for trace in traces}) == 2
        )  # two questions, one text each
        assert len({trace.log_likelihood for trace in traces}) == 6


def test_one_question_has_no_controls(floatlens: Run, model: Path, tmp_path: Path) -> None:
    code, _, err = floatlens("trace", model, "--question", "who?", "--out", tmp_path / "a", "--controls", "1")
    assert code != 0
    assert "--controls goes with --data, not with --question" in err


def test_from_a_study_with_controls_to_a_report(floatlens: Run, tmp_path: Path) -> None:
    study = {
        "name": "tiny",
        "models": ["scale:llada"],
        "data": [{"ref": "scale:rag:documents=2", "limit": 2, "conditions": ["rag"]}],
        "decoding": {"settings": {"gen_length": 4, "steps": 2}},
        "traces": {"questions": 1},
        "controls": {"shuffled_weights": 1},
        "analyses": ["drift", "absorption"],
        "output": {"figures": ["png"], "examples": 1},
    }
    path, out = tmp_path / "tiny.yaml", tmp_path / "run"
    path.write_text(yaml.safe_dump(study))
    code, shown, err = floatlens("run", path, "--out", out, "--dry-run")
    assert code == 0, err
    lines = [line.split() for line in shown.splitlines()]
    assert ["study", "tiny", "scale:llada", "1", "control"] in lines
    assert ["traces", "1", "1"] in lines
    assert ["rag", "2", "–"] in lines
    assert ["all", "items", "3", "1"] in lines
    assert "4 items to do" in shown
    code, shown, err = floatlens("run", path, "--out", out, "--workers", "1")
    assert code == 0, err
    assert "shuffled" not in shown
    assert (out / "report.html").is_file()
    code, shown, err = floatlens("claims", out)
    assert code == 0, err
    code, _, err = floatlens("figures", out, "--format", "svg", "--only", "drift")
    assert code == 0, err
    assert "weights shuffled" in (out / "figures" / "drift.svg").read_text()


def test_a_study_without_traces_names_the_line(floatlens: Run, tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(
        "models: [scale:llada]\ndata: [scale:rag]\ntraces: {questions: 0}\ncontrols: {shuffled_weights: 1}\n"
    )
    code, _, err = floatlens("run", path, "--out", tmp_path / "run")
    assert code != 0
    assert f"{path}:4: controls" in err
