"""Hostile names through everything a run publishes: terminal, CSV, LaTeX, Markdown, SVG, JSON and paths."""

from __future__ import annotations

import csv
import json
import re
import unicodedata
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from floatlens.analysis.tables import Table
from floatlens.cli.app import main
from floatlens.records import read_records
from floatlens.runs.items import trace_file
from floatlens.runs.outputs import publish_traces, save_frame, save_table
from floatlens.runs.run import folder_of
from floatlens.runs.study_file import read_study
from floatlens.traces import Trace, open_trace
from shared.synthetic import ready

ESCAPES = "\x1b[31m\x1b]0;x\x07\u202e\u061c\u2066\x9b"
NAME = f"=1+1{ESCAPES}&<b>|[x](y)\\input{{z}}_%$#~^"
NAMES = (NAME, "[1em]row", "@SUM(A1)", "-cmd", "\t=1")


def hostile(sample: int) -> Trace:
    data = ready("moving", causal=False, sample=sample).data.copy()
    data.attrs = {**data.attrs, "model": {**data.attrs["model"], "ref": NAME}, "data_set": NAME}
    return Trace(data)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose own name is hostile, too."""
    folder = tmp_path_factory.mktemp("bad") / f"run{ESCAPES}".replace("/", "")
    for sample in range(2):
        path = folder / "traces" / f"{sample}-\x1b[2J\u202e"
        path.parent.mkdir(parents=True, exist_ok=True)
        hostile(sample).save(path)
    publish_traces([folder], folder, only=["drift", "absorption", "anchors"], formats=["svg", "png"])
    return folder


def acts(text: str) -> list[str]:
    """Characters that act on a terminal or reorder a line."""
    marks = ("RLO", "LRO", "RLE", "LRE", "PDF", "RLI", "LRI", "FSI", "PDI")
    bad = (c for c in text if unicodedata.category(c) == "Cc" or unicodedata.bidirectional(c) in marks or c == "\u061c")
    return [c for c in bad if c not in "\t\n"]


@pytest.mark.parametrize("command", [["claims"], ["plot", "--only", "drift", "--format", "png"], ["show"]])
def test_terminal(command: list[str], run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    more = ["--out", str(tmp_path)] if command[0] == "plot" else []
    where = next((run / "traces").iterdir()) if command[0] == "show" else run
    main([command[0], str(where), *command[1:], *more])
    said = capsys.readouterr()
    assert not acts(said.out + said.err)
    assert "=1+1" in said.out or command[0] == "plot"


def test_csv_and_parquet(run: Path) -> None:
    for path in (run / "tables").glob("*.csv"):
        with path.open(newline="") as file:
            cells = [cell for row in csv.reader(file) for cell in row]
        assert not [cell for cell in cells if cell.startswith(("=", "@", "\t", "\r"))]
        assert not [cell for cell in cells if acts(cell)]
        signed = [cell for cell in cells if cell.startswith(("+", "-"))]
        assert all(re.fullmatch(r"[+-][\d.e+-]+|[+-](nan|inf)", cell) for cell in signed)
    assert any("'=1+1" in path.read_text() for path in (run / "tables").glob("*.csv"))


def test_svg_is_valid_and_runs_nothing(run: Path) -> None:
    files = list((run / "figures").glob("*.svg"))
    assert files
    for path in files:
        root = ElementTree.fromstring(path.read_text())
        tags = {one.tag.rpartition("}")[2] for one in root.iter()}
        assert not tags & {"script", "foreignObject", "a"}
        links = [value for one in root.iter() for key, value in one.items() if key.endswith("href")]
        assert all(link.startswith(("#", "data:image/png;base64,")) for link in links)  # maps are pixels
        assert not acts(path.name)


def test_json(run: Path) -> None:
    """Names come back from JSON as they were, and the file holds them as text."""
    path = run / "tables" / "provenance.json"
    found = json.loads(path.read_text())
    assert any(NAME in one for one in _texts(found))
    assert not [c for c in path.read_text() if unicodedata.category(c) == "Cc" and c != "\n"]
    assert open_trace(next((run / "traces").iterdir())).model["ref"] == NAME


def _texts(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [one for key, inner in value.items() for one in [key, *_texts(inner)]]
    return [one for inner in value for one in _texts(inner)] if isinstance(value, list) else [str(value)]


def test_tables_for_readers(tmp_path: Path) -> None:
    table = Table((("", 1), (NAME, 2)), ("model", "Acc", "F1"), tuple((name, "1", "0.5") for name in NAMES), NAME)
    save_table(table, tmp_path / "t")
    latex, markdown = (tmp_path / "t.tex").read_text(), (tmp_path / "t.md").read_text()
    assert not acts(latex + markdown)
    assert not re.search(r"\\\\\s*\[|\\input", latex)  # no argument of a line end, no command
    assert r"\textbackslash{}input" in latex
    for line in (line for line in markdown.splitlines() if line.startswith("|")):
        assert len(re.findall(r"(?<!\\)\|", line)) == 4
        assert "<b>" not in line
        assert "[x](y)" not in line


def test_names_of_columns(tmp_path: Path) -> None:
    save_frame(pd.DataFrame({NAME: [1.5], "b": ["+1+1"]}), tmp_path / "f")
    head, row = (tmp_path / "f.csv").read_text().splitlines()
    assert head.startswith(("'=1+1", "\"'=1+1"))
    assert row == "1.5,'+1+1"


def _trace_file(name: str) -> str:
    item: Any = SimpleNamespace(data=name, condition=SimpleNamespace(label=name), index=3, id="0" * 64, model=name)
    return trace_file(item, 0)


def test_paths_of_traces_are_short_and_plain() -> None:
    long = "a" * 246
    for name in (long, NAME, "../../x", "😀" * 100):
        file = _trace_file(name)
        assert len(Path(file).name.encode()) < 200
        assert not file.startswith(("/", ".."))
        assert ".." not in Path(file).parts
        assert not acts(file)
    assert _trace_file(long) != _trace_file(long + "b")


def test_a_study_of_a_file_with_a_long_name(tmp_path: Path) -> None:
    """246 characters are a valid file name; what is made of it has to be one, too."""
    path = tmp_path / f"{'q' * 240}.jsonl"
    path.write_text('{"question": "What does Ada Frost play?", "answers": ["flute"]}\n')
    out = tmp_path / "out"
    asked = ["trace", "scale:llada", "--data", str(path), "--set", "gen_length=4", "--set", "steps=2", "--no-report"]
    assert main([*asked, "--probes", "received", "--limit", "1", "--workers", "1", "--out", str(out)]) == 0
    (record,) = read_records(out)
    assert record.file is not None
    assert (out / record.file).is_file()


@pytest.mark.parametrize("name", ["../../etc", "/etc", "..", "a" * 300, "x\x1b[2J\u202e", "a/b"])
def test_the_folder_of_a_study_stays_below_runs(name: str) -> None:
    source = read_study({"name": name, "models": ["scale:llada"], "data": ["scale:rag"]})
    folder = folder_of(source, None)
    assert folder.parent == Path("runs")
    assert folder.name not in ("", ".", "..")
    assert len(folder.name.encode()) <= 100
    assert not acts(str(folder))


def test_the_folder_of_a_study_has_its_name() -> None:
    for name in ("study", "My study (v2)", "größe_1.0"):
        source = read_study({"name": name, "models": ["scale:llada"], "data": ["scale:rag"]})
        assert folder_of(source, None) == Path("runs") / name
