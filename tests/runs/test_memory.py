"""Memory that runs out in analyses, figures, the report or a command: one line that says what to leave out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from floatlens.analysis import ANALYSES, analyse
from floatlens.cli.app import main
from floatlens.core.errors import FloatlensError
from floatlens.core.memory import enough_memory
from floatlens.runs import outputs, reporting
from shared.synthetic import ready


def run_out(*_: Any, **__: Any) -> Any:
    return np.empty(1 << 58)  # as numpy says it: a subclass of MemoryError


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    folder = tmp_path / "traces"
    folder.mkdir()
    ready("moving", causal=False, sample=0).save(folder / "0")
    return folder


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_the_line() -> None:
    said = "memory ran out while drawing x; leave it out; records and traces are kept"
    with pytest.raises(FloatlensError, match=said), enough_memory("drawing x", "leave it out"):
        run_out()
    with pytest.raises(FloatlensError, match=r"^other$"), enough_memory("drawing x", "leave it out"):
        raise FloatlensError("other")


def test_an_analysis_is_named_and_never_left_out_in_silence(traces: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = content(traces)
    broken = type("Broken", (), {"__getattr__": lambda self, name: getattr(ANALYSES["drift"], name)})()
    broken.measure = run_out
    found = {"drift": broken, "absorption": ANALYSES["absorption"]}
    monkeypatch.setattr("floatlens.analysis.registry.ANALYSES", found)
    with pytest.raises(FloatlensError, match=r"memory ran out while analysing drift; leave it out \(analyses:"):
        analyse(traces, ["drift", "absorption"], skipped={})
    assert content(traces) == before


def test_a_figure_is_named(traces: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = content(traces)
    monkeypatch.setattr(outputs, "save_figure", run_out)
    with pytest.raises(FloatlensError, match="memory ran out while drawing drift; draw fewer figures"):
        outputs.publish_traces([traces], tmp_path / "out", only=["drift"], formats=["png"])
    assert content(traces) == before


def test_the_report(traces: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reporting, "report", run_out)
    with pytest.raises(FloatlensError, match="memory ran out while making the report; give fewer --examples"):
        reporting.report_runs([traces], tmp_path / "report.html")
    assert not (tmp_path / "report.html").exists()


def test_a_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("floatlens.data.open_data", run_out)
    assert main(["data", "scale:rag"]) == 2
    assert capsys.readouterr().err == (
        "floatlens: memory ran out; do less at once, or give the process more; what is on record is kept\n"
    )
