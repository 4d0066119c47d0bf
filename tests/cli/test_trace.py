"""`floatlens trace`: what it writes for one question and for data, and what it refuses before weights are read."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import floatlens as fl

Run = Callable[..., tuple[int, str, str]]
Data = Callable[..., Path]
QUICK = ("--set", "gen_length=4", "--probes", "received,entropy", "--no-report")
ONE = QUICK[:-1]
LONG = {"text": "rain " * 200, "is_gold": True}

pytestmark = pytest.mark.usefixtures("unpublished")


def records(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "records.jsonl").read_text().splitlines()]


@pytest.fixture
def no_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading weights fails the test."""

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("weights were read")

    monkeypatch.setattr("floatlens.models.loading._read_weights", refuse)


def test_a_run(floatlens: Run, model: Path, data: Data, tmp_path: Path) -> None:
    out = tmp_path / "run"
    code, _, stderr = floatlens("trace", model, "--data", data(3), "--out", out, "--layers=-1", *QUICK)
    assert code == 0, stderr
    assert f"3 of 3 items in {out}" in stderr
    assert all(line.startswith("floatlens: ") for line in stderr.splitlines())
    found = records(out)
    assert [r["id"] for r in found] == ["q0", "q1", "q2"]
    assert sorted(str(p.relative_to(out)) for p in out.rglob("*.zarr.zip")) == sorted(r["file"] for r in found)
    first = found[0]
    assert {k: first[k] for k in ("what", "index", "status", "question", "gold", "evidence_kind")} == {
        "what": "trace",
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
    assert saved.data_set == "questions"
    assert str(tmp_path) not in str(saved.data.attrs.get("data_set"))


def test_the_manifest_says_everything_that_was_left_open(
    floatlens: Run, model: Path, data: Data, tmp_path: Path
) -> None:
    path, out = data(1), tmp_path / "run"
    floatlens(
        "trace", model, "--data", path, "--out", out, "--layers", "0,-1", "--seed", "7", "--backend", "fused", *QUICK
    )
    manifest = json.loads((out / "manifest.json").read_text())
    (facts,) = manifest["models"].values()
    capture = facts["capture"]
    assert facts["ask"]["decoding"]["sampler"] == "llada"
    assert facts["ask"]["decoding"]["settings"]["steps"] == 4
    assert facts["ask"]["decoding"]["settings"]["seed"] == 7
    assert capture == {"probes": ["received", "entropy"], "heads": "all", "layers": [0, 2]}
    assert manifest["template"] == "default@1"
    assert manifest["data"]["questions"]["count"] == 1
    assert manifest["versions"]["torch"]
    (first,) = records(out)
    captured = fl.open_trace(out / first["file"]).data.attrs["capture"]
    assert captured == {"asked": "fused", "used": "fused", "kernel": "torch flash (cpu)"}
    assert {k: facts[k] for k in ("family", "kind", "layers", "heads", "mask_id", "context")} == {
        "family": "llada",
        "kind": "mdm",
        "layers": 3,
        "heads": 4,
        "mask_id": 150,
        "context": 480,
    }


def test_continuing_does_only_what_is_missing(floatlens: Run, model: Path, data: Data, tmp_path: Path) -> None:
    out = tmp_path / "run"
    command = ("trace", model, "--data", data(3), "--out", out, *QUICK)
    assert floatlens(*command)[0] == 0
    before = records(out)
    # a torn record, and a trace that is gone: both items are done again, the third is kept
    (out / before[0]["file"]).unlink()
    kept = (out / before[1]["file"]).stat().st_mtime_ns
    lines = (out / "records.jsonl").read_bytes()
    (out / "records.jsonl").write_bytes(lines[:-30])
    code, shown, err = floatlens(*command)
    assert code == 0, err
    assert "2 items to do (1 on record)" in shown
    assert {r["id"] for r in records(out)} == {r["id"] for r in before}
    assert (out / before[1]["file"]).stat().st_mtime_ns == kept


@pytest.mark.parametrize(
    ("change", "key"),
    [
        (("--seed", "1"), "settings.seed = 0, now it is 1"),
        (("--heads", "mean"), 'heads = "all", now it is "mean"'),
        (("--layers", "0"), "capture.layers = [0, 1, 2, 3, 4, 5, 6, 7], now it is [0]"),
        (("--no-chat",), "prompt.chat = null, now it is false"),
    ],
)
def test_a_folder_made_for_something_else_is_refused(
    floatlens: Run, data: Data, tmp_path: Path, change: tuple[str, ...], key: str
) -> None:
    out = tmp_path / "run"
    command = ("trace", "scale:llama", "--data", data(1), "--out", out, *QUICK)
    assert floatlens(*command)[0] == 0
    code, _, err = floatlens(*command, *change)
    assert code == 2
    assert "this run was made with " in err
    assert f"{key}; give the old value to continue it" in err


def test_changed_data_is_noticed(floatlens: Run, model: Path, data: Data, tmp_path: Path) -> None:
    out = tmp_path / "run"
    floatlens("trace", model, "--data", data(1), "--out", out, *QUICK)
    code, _, err = floatlens("trace", model, "--data", data(2), "--out", out, *QUICK)
    assert code == 2
    assert "this run was made with data.questions." in err


def test_other_versions_are_said(floatlens: Run, model: Path, data: Data, tmp_path: Path) -> None:
    out = tmp_path / "run"
    command = ("trace", model, "--data", data(2), "--out", out, *QUICK)
    floatlens(*command, "--limit", "1")
    manifest = json.loads((out / "manifest.json").read_text())
    manifest["versions"]["torch"] = "1.0"
    (out / "manifest.json").write_text(json.dumps(manifest))
    code, _, err = floatlens(*command)
    assert code == 0
    assert "this run is continued with other versions: torch 1.0 before, " in err


def test_what_fails_is_on_record_and_the_run_goes_on(floatlens: Run, model: Path, data: Data, tmp_path: Path) -> None:
    out = tmp_path / "run"
    path = data(0, {"id": "../long", "question": "x" * 600}, {"id": "cut", "question": "Who?", "documents": [LONG]})
    code, _, err = floatlens("trace", model, "--data", path, "--out", out, *QUICK)
    assert code == 1
    assert "1 of 2 items in" in err
    assert f"1 with warnings; 1 failed, see {out}/records.jsonl; run again to retry them" in err
    by_id = {r["id"]: r for r in records(out)}
    failed, cut = by_id["../long"], by_id["cut"]
    assert failed["status"] == "failed"
    assert failed["error"].startswith("the question and its template alone take ")
    assert "file" not in failed
    assert f"question 0 (../long) failed: {failed['error']}\n" in err
    (warning,) = cut["warnings"]
    assert f"question 1 (cut): {warning}\n" in err
    assert warning.startswith("to fit 476 tokens: document 1 shortened")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["questions.jsonl", "run"]
    assert floatlens("trace", model, "--data", path, "--out", out, *QUICK)[0] == 1
    assert [r["id"] for r in records(out)] == ["cut", "../long"]


def test_more_than_a_few_warnings_are_only_counted(floatlens: Run, model: Path, data: Data, tmp_path: Path) -> None:
    path = data(0, *({"id": f"q{i}", "question": "Who?", "documents": [LONG]} for i in range(6)))
    quick = ("--set", "gen_length=1", "--probes", "entropy", "--layers", "0", "--no-report")
    _, _, err = floatlens("trace", model, "--data", path, "--out", tmp_path / "run", *quick)
    assert err.count("to fit 479 tokens") == 3
    assert err.count("more warnings are listed in") == 1
    assert "; 6 with warnings" in err


def test_several_models_and_scale_questions(floatlens: Run, tmp_path: Path) -> None:
    """A setting applies to the samplers that have it."""
    out = tmp_path / "run"
    models = ("scale:llama", "scale:llada")
    settings = ("--set", "gen_length=4", "--set", "steps=2", "--probes", "received", "--no-report")
    code, shown, err = floatlens(
        "trace", *models, "--data", "scale:rag:documents=2", "--limit", "1", "--out", out, *settings
    )
    assert code == 0, err
    assert "2 items to do" in shown
    assert {r["model"]: r["steps"] for r in records(out)}["scale:llada"] == 2


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
        (("--probes", "recieved"), 'no probe "recieved"; did you mean "received"?'),
        (("--probes", "received,"), "--probes 'received,': expected comma-separated names"),
        (("--layers", "0,x"), "--layers '0,x': expected comma-separated numbers, such as 0,1,-1"),
        (("--layers", "3"), "3 is outside 0..2; choose among 3 layers"),
        (("--template", "defualt"), 'no prompt template "defualt"; did you mean "default"?'),
        (("--family", "lama"), 'no model family "lama"; did you mean "llada"?'),
        (("--limit", "0"), "'--limit': Input should be greater than or equal to 1"),
        (("--gold-document", "1"), "--document and --gold-document go with --question"),
        (("--question", "Who?"), "give either --data REF or --question TEXT"),
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
    assert f"floatlens: {path}:2: id 'a' was used before, on line 1; ids must be unique" in err
    assert "no-model" not in err


def test_skip_bad(floatlens: Run, model: Path, data: Data, tmp_path: Path) -> None:
    path = data(0, "{", {"id": "a", "question": "Who?"})
    code, _, err = floatlens("trace", model, "--data", path, "--out", tmp_path / "run", "--skip-bad", *QUICK)
    assert code == 0
    assert f"1 of 1 items in {tmp_path / 'run'}" in err
    assert f"floatlens: warning: {path}: 1 bad record skipped; the first was {path}:1: not valid JSON" in err


def test_one_question(floatlens: Run, model: Path, tmp_path: Path) -> None:
    out = tmp_path / "new" / "one.zarr.zip"
    documents = ("--document", "It rained.", "--document", "Ann built it.", "--gold-document", "1")
    command = ("trace", model, "--question", "Who [b]built[/b] it?", *documents, "--out", out.with_name("one"), *ONE)
    code, stdout, _ = floatlens(*command)
    assert code == 0
    trace = fl.open_trace(out)
    assert trace.data.attrs["prompt"]["gold"] == 1
    assert trace.data_set is None
    assert "Who [b]built[/b] it?" in stdout
    assert f"saved as {out}; look at it with: floatlens show {out}" in stdout.splitlines()
    code, _, err = floatlens(*command)
    assert code == 2
    assert "the file exists; remove it or give another name" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--out", "."), "with --question, give a file, such as one.zarr.zip"),
        (("--out", f"{__file__}/x"), "--out"),
        (("--out", "x.zarr.zip", "--limit", "2"), "--limit goes with --data, not with --question"),
        (
            ("--out", "x.zarr.zip", "--gold-document", "0"),
            "--gold-document 0: there is no such document; give it with --document",
        ),
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
