"""`floatlens trace` with a target and with passages, end to end on the bundled models; what is refused beforehand."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import floatlens as fl

Run = Callable[..., tuple[int, str, str]]
Data = Callable[..., Path]
QUICK = ("--probes", "received", "--no-report")
ONE = QUICK[:-1]

TARGET = "the flute of Ada Frost"
QUESTION = {"id": "a", "question": "What does Ada Frost play?", "answers": ["flute"], "target": TARGET}
PASSAGES = [
    {"id": "p", "passage": "Ada Frost plays the flute. Ada Frost lives in Lorvik.", "hole": 4},
    {"id": "q", "passage": "Ada Frost is a baker by trade.", "hole": [0, 9]},
]


pytestmark = pytest.mark.usefixtures("unpublished")


def records(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "records.jsonl").read_text().splitlines()]


@pytest.fixture
def no_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("weights were read")

    monkeypatch.setattr("floatlens.models.loading._read_weights", refuse)


def test_a_question_with_a_target(floatlens: Run, tmp_path: Path) -> None:
    out = tmp_path / "one.zarr.zip"
    question = ("--question", "What does Ada Frost play?", "--target", "the flute")
    code, stdout, _ = floatlens("trace", "scale:llada", *question, "--out", out, *ONE)
    assert code == 0
    told = [line.split() for line in stdout.splitlines()]
    assert ["forced", "the", "flute"] in told
    assert any(line[:2] == ["log", "p"] and line[-3:] == ["nats", "per", "token"] for line in told)
    assert "answer" not in stdout
    trace = fl.open_trace(out)
    assert (trace.forced, trace.answer, trace.data.sizes["step"]) == (True, "the flute", 2)
    assert floatlens("show", out)[0] == 0


@pytest.mark.parametrize("ref", ["scale:llada", "scale:llama"])
@pytest.mark.parametrize(("rule", "text", "steps"), [("field", TARGET, 5), ("answer", "flute", 1)])
def test_a_run_with_targets(
    floatlens: Run, data: Data, tmp_path: Path, ref: str, rule: str, text: str, steps: int
) -> None:
    out, questions = tmp_path / "run", data(0, QUESTION)
    command = ("trace", ref, "--data", questions, "--out", out, "--target", rule, *QUICK)
    assert floatlens(*command)[0] == 0
    (record,) = records(out)
    assert (record["answer"], record["forced"], record["steps"]) == (text, True, steps)
    found = fl.open_trace(out / record["file"])
    assert record["log_likelihood"] == found.log_likelihood
    assert not {"accuracy", "f1", "exact_match"} & set(record)
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["target"] == rule
    assert "gen_length" not in manifest["models"][ref]["forced"]
    assert "finished: 1 item on record" in floatlens(*command)[1]
    code, _, stderr = floatlens(*command[:-4], "answer" if rule == "field" else "field", *QUICK)
    assert (code, "target" in stderr) == (2, True)


def test_a_free_run_is_not_forced(floatlens: Run, data: Data, tmp_path: Path) -> None:
    out = tmp_path / "run"
    how = ("--set", "gen_length=2", *QUICK)
    assert floatlens("trace", "scale:llama", "--data", data(0, QUESTION), "--out", out, *how)[0] == 0
    (record,) = records(out)
    assert not any(record.get(key) for key in ("forced", "log_likelihood"))
    manifest = json.loads((out / "manifest.json").read_text())
    assert (manifest["target"], manifest["models"]["scale:llama"]["forced"]) == ("none", None)


@pytest.mark.parametrize("ref", ["scale:llada", "scale:llama"])
def test_a_run_of_passages(floatlens: Run, data: Data, tmp_path: Path, ref: str) -> None:
    out = tmp_path / "run"
    code, _, err = floatlens("trace", ref, "--data", data(0, *PASSAGES), "--out", out, *QUICK)
    assert code == 0, err
    assert f"2 of 2 items in {out}" in err
    found = records(out)
    assert [one["id"] for one in found] == ["p", "q"]
    assert all(one["forced"] and "question" not in one for one in found)
    assert found[1]["answer"] == "Ada Frost"
    assert [one["steps"] for one in found] == [4, 2]
    trace = fl.open_trace(out / found[0]["file"])
    assert trace.data.attrs["prompt"]["hole"]["after_seen"] is (ref == "scale:llada")
    assert floatlens("show", out / found[0]["file"])[0] == 0


@pytest.mark.parametrize(
    ("lines", "options", "message"),
    [
        ([QUESTION], ("--target", "flute"), "--target 'flute': with --data, give field or answer; a text goes with"),
        ([{"question": "q?", "id": "x"}], ("--target", "field"), "questions.jsonl:1: 'x' has no field \"target\""),
        ([{"question": "q?", "id": "x"}], ("--target", "answer"), "questions.jsonl:1: 'x' has no accepted answer"),
        (PASSAGES, ("--target", "field"), "leave the option target out"),
        ([QUESTION], ("--target", "field", "--set", "gen_length=4"), "has a length of its own; leave gen_length out"),
        ([QUESTION], ("--target", "field", "--set", "steps=0"), "steps wants at least 1, got 0"),
        ([{"passage": "a b c", "hole": [2, 9]}], (), "questions.jsonl:1: hole=[2, 9]: expected 0 ≤ start < stop ≤ 5"),
    ],
)
def test_what_is_wrong_is_said_before_weights_are_read(
    floatlens: Run, data: Data, tmp_path: Path, no_weights: None, lines: list[Any], options: Any, message: str
) -> None:
    code, _, stderr = floatlens("trace", "scale:llada", "--data", data(0, *lines), "--out", tmp_path / "run", *options)
    assert code == 2
    assert message in stderr


def test_an_empty_target_is_refused(floatlens: Run, tmp_path: Path, no_weights: None) -> None:
    out = tmp_path / "one.zarr.zip"
    code, _, stderr = floatlens("trace", "scale:llada", "--question", "q?", "--target", " ", "--out", out)
    assert (code, "--target: the text is empty" in stderr) == (2, True)


def test_passages_are_not_asked(floatlens: Run, data: Data, tmp_path: Path, no_weights: None) -> None:
    code, _, stderr = floatlens("qa", "scale:llada", "--data", data(0, *PASSAGES), "--out", tmp_path / "run")
    assert (code, "a passage with a hole can be traced, not asked" in stderr) == (2, True)
