"""`floatlens run` and `floatlens demo`: the plan, a small run from file to report, going on, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from floatlens.runs import engine

Run = Callable[..., tuple[int, str, str]]
STUDY = {
    "name": "tiny",
    "models": ["scale:llada"],
    "data": [{"ref": "scale:rag:documents=2", "limit": 3, "conditions": ["closed", "rag", "drop_anchors"]}],
    "decoding": {"settings": {"gen_length": 4, "steps": 2}},
    "traces": {"questions": 1},
    "analyses": ["drift", "absorption"],
    "output": {"figures": ["png"], "examples": 1},
}


@pytest.fixture
def study(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.yaml"
    path.write_text(yaml.safe_dump(STUDY))
    return path


def test_from_a_plan_to_a_report_and_on(floatlens: Run, study: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    code, shown, err = floatlens("run", study, "--out", out, "--dry-run")
    assert (code, out.exists()) == (0, False), err
    assert "drop_anchors k=1, and 2 random controls" in shown
    assert "16 items to do" in shown
    code, shown, err = floatlens("run", study, "--out", out, "--workers", "1")
    assert code == 0, err
    for words in ("Answers", "Edits", "Attention"):
        assert words in shown
    assert "16 of 16 items" in err
    assert f"report: {out / 'report.html'}" in err
    assert "skipped" not in err  # nothing is said of analyses that the study did not choose
    assert any(line.startswith("floatlens: does attention float? ") for line in err.splitlines()[-4:]), err
    records = (out / "records.jsonl").read_bytes()
    code, shown, err = floatlens("run", study, "--out", out)
    assert (code, "finished: 16 items on record" in shown) == (0, True)
    assert (out / "records.jsonl").read_bytes() == records
    code, shown, err = floatlens("claims", out)
    assert code == 0
    lines = [line for line in err.splitlines() if "skipped" in line]
    assert len(lines) == 1, err
    assert "retrieval-deep" in lines[0]
    assert "the study left out analyses they need (qk, token_classes, retrieval_heads, " in lines[0]
    assert "removing its anchors" in " ".join(shown.split())  # of the answers
    assert "the anchors of a" in " ".join(shown.split())  # of the traces
    (out / "figures" / "edits-accuracy.png").unlink()
    code, _, err = floatlens("figures", out, "--format", "png")
    assert code == 0, err
    assert (out / "figures" / "edits-accuracy.png").is_file()


def test_ctrl_c_says_how_to_continue(
    floatlens: Run, study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import signal

    settle = engine._write

    def interrupted(*args: object) -> object:
        signal.raise_signal(signal.SIGINT)
        return settle(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(engine, "_write", interrupted)
    out = tmp_path / "run"
    code, _, err = floatlens("run", study, "--out", out, "--workers", "1")
    assert code == 130
    assert "finishing the items under way" in err
    assert "stopped with 1 of 16 items on record" in err
    assert f"to continue: floatlens run {study} --out {out} --workers 1" in err


def test_mistakes_are_one_line(floatlens: Run, study: Path, tmp_path: Path) -> None:
    assert floatlens("run")[0] == 2
    study.write_text(yaml.safe_dump({**STUDY, "trace": {"questions": 1}}))
    code, _, err = floatlens("run", study, "--out", tmp_path / "run")
    assert (code, err.count("\n")) == (2, 1)
    assert 'no key "trace"; did you mean "traces"?' in err
    study.write_text(yaml.safe_dump(STUDY))
    code, _, err = floatlens("run", study, "--address", "auto", "--dry-run")
    assert (code, "give the executor ray with it" in err) == (2, True)
    assert not (tmp_path / "run").exists()


def test_the_schema_is_printed(floatlens: Run) -> None:
    code, shown, _ = floatlens("run", "--schema")
    assert code == 0
    assert json.loads(shown)["title"] == "Study"


def test_the_demo_shows_its_plan_and_itself(floatlens: Run, tmp_path: Path) -> None:
    code, shown, err = floatlens("demo", "--dry-run", "--out", tmp_path / "demo")
    assert code == 0, err
    assert "traces, gold document at 0, 9" in shown
    assert "traces, gold document at 4" in shown
    assert "4 controls" in shown
    assert "by a rule of thumb" in shown
    code, shown, _ = floatlens("demo", "--show")
    assert yaml.safe_load(shown)["name"] == "demo"
