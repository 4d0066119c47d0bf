"""`floatlens trace`: what it writes, that it can be stopped and continued anywhere, and what it refuses beforehand."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import floatlens as fl
from floatlens.runs import Record, RunFolder, tracing

Run = Callable[..., tuple[int, str, str]]
Data = Callable[..., Path]

# printf q0 | sha256sum, and so on
NAMES = ["00000-341c0a3e67", "00001-c75de8c1b7", "00002-bee98bf120"]
QUICK = ("--set", "gen_length=4", "--probes", "received,entropy")


def records(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "records.jsonl").read_text().splitlines()]


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The questions that were really traced, in order."""
    asked: list[str] = []
    real = tracing.trace

    def watched(*args: Any, **named: Any) -> Any:
        asked.append(named["question"])
        return real(*args, **named)

    monkeypatch.setattr(tracing, "trace", watched)
    return asked


@pytest.fixture
def no_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading weights fails the test."""

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("weights were read")

    monkeypatch.setattr("floatlens.models.loading._read_weights", refuse)


def test_a_run(floatlens: Run, model: Path, data: Data, tmp_path: Path) -> None:
    out = tmp_path / "run"
    code, stdout, stderr = floatlens("trace", model, "--data", data(3), "--out", out, "--layers=-1", *QUICK)
    assert (code, stdout) == (0, f"3 of 3 questions traced in {out}\n")
    assert all(line.startswith("floatlens: ") for line in stderr.splitlines())
    found = records(out)
    assert [r["item"] for r in found] == NAMES
    assert sorted(p.name for p in (out / "traces").iterdir()) == [f"{name}.zarr.zip" for name in NAMES]
    first = found[0]
    assert {k: first[k] for k in ("id", "index", "status", "question", "gold", "evidence_kind")} == {
        "id": "q0",
        "index": 0,
        "status": "done",
        "question": "who built house 0?",
        "gold": 1,
        "evidence_kind": "answer",
    }
    assert (first["steps"], first["forward_passes"], first["dropped_documents"], first["warnings"]) == (4, 4, 0, [])
    assert first["seconds"] > 0
    again = fl.trace(
        fl.load(str(model)),
        question="who built house 0?",
        documents=[
            {"title": "Rain", "text": "It rained."},
            {"title": "House 0", "text": "Ann0 built house 0.", "is_gold": True},
        ],
        answers=["Ann0"],
        gen_length=4,
        probes=["received", "entropy"],
        select=fl.Select(layers=[2]),
    )
    saved = fl.open_trace(out / first["file"])
    np.testing.assert_array_equal(saved.data.received.values, again.data.received.values)
    np.testing.assert_array_equal(saved.data.evidence.values, again.data.evidence.values)
    assert first["answer"] == saved.answer == again.answer


def test_the_manifest_says_everything_that_was_left_open(
    floatlens: Run, model: Path, data: Data, tmp_path: Path
) -> None:
    path, out = data(1), tmp_path / "run"
    floatlens("trace", model, "--data", path, "--out", out, "--layers", "0,-1", "--seed", "7", *QUICK)
    manifest = json.loads((out / "manifest.json").read_text())
    config = manifest["config"]
    assert config["decoding"]["sampler"] == "llada"
    assert config["decoding"]["settings"]["steps"] == 4
    assert config["decoding"]["settings"]["seed"] == 7
    assert config["capture"] == {"probes": ["received", "entropy"], "heads": "all", "layers": [0, 2]}
    assert manifest["template"] == "default@1"
    assert manifest["data"]["examples"] == 1
    assert manifest["loaded"] == {"device": "cpu", "dtype": "float32"}
    assert manifest["versions"]["torch"]
    assert {k: manifest["model"][k] for k in ("family", "kind", "layers", "heads", "mask_id", "context")} == {
        "family": "llada",
        "kind": "mdm",
        "layers": 3,
        "heads": 4,
        "mask_id": 150,
        "context": 480,
    }


def test_traces_name_their_data_set_and_not_where_it_lies(
    floatlens: Run, model: Path, data: Data, tmp_path: Path
) -> None:
    """The same questions in a file of another name go on under the first one, also where the manifest lacks it."""
    out, path = tmp_path / "run", data(3)
    command = ("--out", out, "--layers", "0", *QUICK)
    floatlens("trace", model, "--data", path, "--limit", "1", *command)
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["data"]["name"] == "questions"
    del manifest["data"]["name"]  # as an older floatlens wrote it
    (out / "manifest.json").write_text(json.dumps(manifest))
    for limit in ("2", "3"):
        path = path.rename(tmp_path / f"renamed-{limit}.jsonl")
        assert floatlens("trace", model, "--data", path, "--limit", limit, *command)[0] == 0
    assert json.loads((out / "manifest.json").read_text())["data"]["name"] == "questions"
    traces = [fl.open_trace(out / "traces" / f"{name}.zarr.zip") for name in NAMES]
    assert [trace.data_set for trace in traces] == ["questions"] * 3
    assert not any(str(tmp_path) in str(trace.data.attrs.get("data_set")) for trace in traces)


def test_continuing_does_only_what_is_missing(
    floatlens: Run, model: Path, data: Data, tmp_path: Path, traced: list[str]
) -> None:
    out = tmp_path / "run"
    command = ("trace", model, "--data", data(3), "--out", out, *QUICK)
    assert floatlens(*command, "--limit", "2")[0] == 0
    assert traced == ["who built house 0?", "who built house 1?"]
    # a torn record, and a trace that has gone: both items are done again, the third for the first time
    (out / "traces" / f"{NAMES[0]}.zarr.zip").unlink()
    lines = (out / "records.jsonl").read_bytes()
    (out / "records.jsonl").write_bytes(lines[:-30])
    traced.clear()
    code, stdout, _ = floatlens(*command)
    assert (code, stdout) == (0, f"3 of 3 questions traced in {out}\n")
    assert traced == ["who built house 0?", "who built house 1?", "who built house 2?"]
    assert [r["item"] for r in records(out)] == NAMES
    traced.clear()
    (out / "traces" / f"{NAMES[1]}.zarr.zip").unlink()
    floatlens(*command, "--limit", "1")  # nothing to do, and nothing taken back
    manifest = json.loads((out / "manifest.json").read_text())
    assert (manifest["data"]["examples"], manifest["config"]["data"]["limit"], traced) == (3, None, [])
    code, stdout, stderr = floatlens(*command)
    assert (code, stdout) == (0, f"3 of 3 questions traced in {out}; 2 of them before\n")
    assert "2 of them done before" in stderr
    assert traced == ["who built house 1?"]
    assert sorted(r["item"] for r in records(out)) == NAMES


def test_a_finished_run_reads_no_weights(
    floatlens: Run, model: Path, data: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ("trace", model, "--data", data(1), "--out", tmp_path / "run", *QUICK)
    assert floatlens(*command)[0] == 0
    monkeypatch.setattr("floatlens.models.loading._read_weights", None)
    assert floatlens(*command)[:2] == (0, f"1 of 1 question traced in {tmp_path / 'run'}; 1 of them before\n")


@pytest.mark.parametrize(
    ("change", "key"),
    [
        (("--seed", "1"), "config.decoding.settings.seed = 0, now it is 1"),
        (("--heads", "mean"), 'config.capture.heads = "all", now it is "mean"'),
        (("--layers", "0"), "config.capture.layers = [0, 1, 2], now it is [0]"),
        (("--no-chat",), "config.prompt.chat = null, now it is false"),
    ],
)
@pytest.mark.usefixtures("no_weights")
def test_a_folder_made_for_something_else_is_refused(
    floatlens: Run, model: Path, data: Data, tmp_path: Path, change: tuple[str, ...], key: str
) -> None:
    out = tmp_path / "run"
    command = ("trace", model, "--data", data(1), "--out", out, *QUICK)
    with RunFolder.open(out, Record) as run:
        from floatlens.data import read_examples
        from floatlens.models.facts import look
        from floatlens.runs.config import TraceRunConfig

        facts = look(str(model))
        asked = {"settings": {"gen_length": 4}}, {"probes": ["received", "entropy"]}, {"path": str(data(1))}
        values = dict(zip(("decoding", "capture", "data"), asked, strict=True), model={"ref": str(model)})
        config = tracing.resolve(TraceRunConfig.model_validate(values), facts)
        run.settle(tracing.manifest_of(config, facts, list(read_examples(data(1)))))
        run.add(Record(item="x", index=0, id="x", status="done", file="traces/x"))
    code, _, err = floatlens(*command, *change)
    assert code == 2
    assert f"this run was made with {key}; give the old value to continue it" in err


def test_a_run_of_another_kind_is_refused(floatlens: Run, model: Path, data: Data, tmp_path: Path) -> None:
    out = tmp_path / "run"
    with RunFolder.open(out, Record) as run:
        run.settle({"kind": "study"})
        run.add(Record(item="x", index=0, id="x", status="done", file="traces/x"))
    code, _, err = floatlens("trace", model, "--data", data(1), "--out", out, *QUICK)
    assert code == 2
    assert "a run of kind 'study', not trace; give another --out" in err


def test_changed_data_is_noticed(floatlens: Run, model: Path, data: Data, tmp_path: Path) -> None:
    out = tmp_path / "run"
    floatlens("trace", model, "--data", data(1), "--out", out, *QUICK)
    code, _, err = floatlens("trace", model, "--data", data(2), "--out", out, *QUICK)
    assert code == 2
    assert "this run was made with data.sha256 = " in err


def test_other_versions_are_said(floatlens: Run, model: Path, data: Data, tmp_path: Path) -> None:
    out = tmp_path / "run"
    command = ("trace", model, "--data", data(2), "--out", out, *QUICK)
    floatlens(*command, "--limit", "1")
    manifest = json.loads((out / "manifest.json").read_text())
    manifest["versions"]["torch"] = "1.0"
    (out / "manifest.json").write_text(json.dumps(manifest))
    code, _, err = floatlens(*command)
    assert code == 0
    assert "warning: this run continues under other versions: torch 1.0 before, " in err


def test_a_setting_that_fits_no_item_stops_the_run_and_can_be_corrected(
    floatlens: Run, model: Path, data: Data, tmp_path: Path
) -> None:
    command = ("trace", model, "--data", data(1), "--out", tmp_path / "run", "--probes", "entropy")
    code, _, err = floatlens(*command, "--set", "gen_length=480")
    assert code == 2
    assert "need 481 positions" in err.splitlines()[-1]
    assert floatlens(*command, "--set", "gen_length=1")[0] == 0


def test_ctrl_c_keeps_what_is_done_and_says_how_to_continue(
    floatlens: Run, model: Path, data: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "run"
    real, calls = tracing.trace, []

    def interrupted(*args: Any, **named: Any) -> Any:
        calls.append(named["question"])
        if len(calls) == 2:
            os.kill(os.getpid(), signal.SIGINT)
        return real(*args, **named)

    monkeypatch.setattr(tracing, "trace", interrupted)
    command = ("trace", model, "--data", data(3), "--out", out, *QUICK)
    code, stdout, err = floatlens(*command)
    assert (code, stdout) == (130, "")
    told = f"floatlens: stopped with 1 of 3 done; to continue: floatlens trace {model} --data "
    assert err.splitlines()[-1].startswith(told)
    assert [r["item"] for r in records(out)] == NAMES[:1]
    assert floatlens(*command)[0] == 0
    assert calls == [f"who built house {i}?" for i in (0, 1, 1, 2)]


def test_ctrl_c_while_an_item_is_written_waits_for_it(
    floatlens: Run, model: Path, data: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "run"
    real = fl.Trace.save

    def interrupted(self: fl.Trace, path: Path) -> Path:
        os.kill(os.getpid(), signal.SIGINT)
        return real(self, path)

    monkeypatch.setattr(fl.Trace, "save", interrupted)
    before = signal.getsignal(signal.SIGINT)
    code, _, err = floatlens("trace", model, "--data", data(3), "--out", out, *QUICK)
    assert code == 130
    assert "stopped with 1 of 3 done" in err
    assert signal.getsignal(signal.SIGINT) is before
    assert [r["item"] for r in records(out)] == NAMES[:1]
    assert [p.name for p in (out / "traces").iterdir()] == [f"{NAMES[0]}.zarr.zip"]


def test_what_fails_is_on_record_and_the_run_goes_on(floatlens: Run, model: Path, data: Data, tmp_path: Path) -> None:
    out = tmp_path / "run"
    path = data(0, {"id": "../long", "question": "x" * 600}, {"id": "cut", "question": "Who?", "documents": [LONG]})
    code, stdout, err = floatlens("trace", model, "--data", path, "--out", out, *QUICK)
    assert code == 1
    assert stdout == f"1 of 2 questions traced in {out}; 1 with warnings; 1 failed, see {out}/records.jsonl\n"
    failed, cut = records(out)
    assert (failed["item"], failed["status"]) == ("00000-5609fd4db6", "failed")
    assert failed["error"].startswith("the question and its template alone take ")
    assert "file" not in failed
    assert f"floatlens: question 0 (../long) failed: {failed['error']}\n" in err
    (warning,) = cut["warnings"]
    assert f"floatlens: warning: question 1 (cut): {warning}\n" in err
    assert warning.startswith("to fit 476 tokens: document 1 shortened")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["questions.jsonl", "run"]
    assert floatlens("trace", model, "--data", path, "--out", out, *QUICK)[0] == 1
    assert [r["item"] for r in records(out)] == [cut["item"], failed["item"]]


LONG = {"text": "rain " * 200, "is_gold": True}


def test_memory_that_runs_out_is_one_failed_item(
    floatlens: Run, model: Path, data: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    def exhausted(*_: Any, **__: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(tracing, "trace", exhausted)
    assert floatlens("trace", model, "--data", data(2), "--out", tmp_path / "run", *QUICK)[0] == 1
    assert [r["error"][:20] for r in records(tmp_path / "run")] == ["out of memory on cpu"] * 2


def test_more_than_a_few_warnings_are_only_counted(floatlens: Run, model: Path, data: Data, tmp_path: Path) -> None:
    path = data(0, *({"id": f"q{i}", "question": "Who?", "documents": [LONG]} for i in range(6)))
    quick = ("--set", "gen_length=1", "--probes", "entropy", "--layers", "0")
    _, stdout, err = floatlens("trace", model, "--data", path, "--out", tmp_path / "run", *quick)
    assert err.count("to fit 479 tokens") == 3
    assert err.count("more warnings like these stand in") == 1
    assert "; 6 with warnings" in stdout


@pytest.mark.usefixtures("no_weights")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--set", "gen_lenght=8"), 'the sampler "llada" has no setting "gen_lenght"; did you mean "gen_length"?'),
        (("--set", "gen_length=many"), 'settings of the sampler "llada": gen_length wants a whole number, got "many"'),
        (("--set", "padding=right"), 'the sampler "llada" has no setting "padding"'),
        (("--set", "gen_length"), "--set 'gen_length': expected key=value, such as --set gen_length=32"),
        (("--set", "steps=4", "--set", "steps=8"), "--set steps is given twice; give it once"),
        (("--set", "seed=1", "--seed", "2"), "the seed is given twice, by --seed and by --set seed; give it once"),
        (("--set", "steps=[1]"), "--set 'steps=[1]': expected a single value"),
        (("--sampler", "lada"), 'no sampler "lada"; did you mean "llada"?'),
        (("--sampler", "ar"), 'the sampler "ar" is for autoregressive models'),
        (("--probes", "recieved"), 'unknown probe "recieved"; did you mean "received"?'),
        (("--probes", "received,"), "--probes 'received,': expected comma-separated names"),
        (("--layers", "0,x"), "--layers '0,x': expected comma-separated numbers, such as 0,1,-1"),
        (("--layers", "3"), "3 is outside 0..2; choose among 3 layers"),
        (("--template", "defualt"), 'no prompt template "defualt"; did you mean "default"?'),
        (("--family", "lama"), "no model family 'lama'; did you mean \"llada\"?"),
        (("--limit", "0"), "data.limit wants at least 1, got 0"),
        (("--gold", "1"), "--document and --gold go with --question"),
        (("--question", "Who?"), "give either --data FILE or --question TEXT"),
    ],
)
def test_mistakes_are_found_before_any_weights_are_read(
    floatlens: Run, model: Path, data: Data, tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    code, stdout, err = floatlens("trace", model, "--data", data(1), "--out", tmp_path / "run", *arguments)
    assert (code, stdout) == (2, "")
    last = err.splitlines()[-1]
    assert last.startswith("floatlens: ")
    assert message in last
    assert not (tmp_path / "run").exists()


def test_bad_data_is_found_before_the_model_is_looked_at(floatlens: Run, data: Data, tmp_path: Path) -> None:
    path = data(0, {"id": "a", "question": "Who?"}, {"id": "a", "question": "Who?"})
    code, _, err = floatlens("trace", tmp_path / "no-model", "--data", path, "--out", tmp_path / "run")
    assert code == 2
    assert err == f"floatlens: {path}:2: id 'a' was used before, on line 1; ids must be unique\n"


def test_skip_bad(floatlens: Run, model: Path, data: Data, tmp_path: Path) -> None:
    path = data(0, "{", {"id": "a", "question": "Who?"})
    code, stdout, err = floatlens("trace", model, "--data", path, "--out", tmp_path / "run", "--skip-bad", *QUICK)
    assert (code, stdout) == (0, f"1 of 1 question traced in {tmp_path / 'run'}\n")
    assert f"floatlens: warning: {path}: 1 bad record skipped; the first was {path}:1: not valid JSON" in err


def test_one_question(floatlens: Run, model: Path, tmp_path: Path) -> None:
    out = tmp_path / "new" / "one.zarr.zip"
    documents = ("--document", "It rained.", "--document", "Ann built it.", "--gold", "1")
    command = ("trace", model, "--question", "Who [b]built[/b] it?", *documents, "--out", out.with_name("one"), *QUICK)
    code, stdout, _ = floatlens(*command)
    assert code == 0
    trace = fl.open_trace(out)
    assert trace.data.attrs["prompt"]["gold"] == 1
    assert trace.data_set is None
    assert "Who [b]built[/b] it?" in stdout
    assert f"floatlens show {out}" in stdout.replace("\n", "")
    code, _, err = floatlens(*command)
    assert code == 2
    assert "it is already there; remove it or give another name" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--out", "."), "with --question it is a file, such as one.zarr.zip"),
        (("--out", f"{__file__}/x"), "--out"),
        (("--out", "x.zarr.zip", "--limit", "2"), "--limit and --skip-bad go with --data"),
        (("--out", "x.zarr.zip", "--gold", "0"), "gold=0: expected a 0-based index of one of the 0 documents"),
    ],
)
def test_what_one_question_refuses(floatlens: Run, model: Path, arguments: tuple[str, ...], message: str) -> None:
    code, _, err = floatlens("trace", model, "--question", "Who?", *arguments)
    assert code == 2
    assert message in err.splitlines()[-1]


def test_a_model_without_a_tokenizer_cannot_be_asked(
    floatlens: Run, golden: Callable[[str], Path], data: Data, tmp_path: Path
) -> None:
    code, _, err = floatlens("trace", golden("llada"), "--data", data(1), "--out", tmp_path / "run")
    assert code == 2
    assert "has no tokenizer, so it cannot be given questions" in err
