"""The section on activation patching: its tables are those of the analysis, and text from runs stays text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from floatlens.analysis.patching import patching_tables
from floatlens.records import open_patching
from floatlens.runs.reporting import report_runs
from shared.answering import make_answers
from shared.parts import Parts
from shared.patched import KINDS, QUESTIONS, make_patched

BAD = "</script><script>window.canary=1</script><img src=x onerror=canary=1>"


def page_of(*runs: Path, out: Path) -> tuple[str, dict[str, Any]]:
    text = report_runs(list(runs), out / "report.html").path.read_text(encoding="utf-8")
    return text, Parts(text).json("report")


def test_a_run_with_nothing_else(tmp_path: Path) -> None:
    run = make_patched(tmp_path / "run")
    text, data = page_of(run, out=tmp_path)
    (section,) = data["sections"]
    assert section["id"] == "patching"
    assert [figure["id"] for figure in section["figures"]] == ["patching"]
    assert [panel["name"] for panel in section["figures"][0]["panels"]] == ["kv", "residual"]
    assert data["settings"] == {"traces": 0, "answers": 0, "controls": 0, "patched": len(KINDS) * QUESTIONS}
    assert [model["patched"] for model in data["models"]] == [QUESTIONS, QUESTIONS]
    assert {row["section"] for row in data["headline"]} == {"patching"}
    assert "Left out: 1 of 4 questions of people for fixed-arm" in text
    used = dict(section["definition"]["used"])
    assert (used["keys patched together"], used["control draws"]) == ("2", "3")
    assert [one["id"] for one in section["tables"]] == ["patching_mean", "patching_difference", "patching"]


def test_tables_are_those_of_the_analysis(tmp_path: Path) -> None:
    run = make_patched(tmp_path / "run")
    text, _ = page_of(run, out=tmp_path)
    for name, frame in patching_tables(open_patching(run)).items():
        shown = Parts(text).table(name)
        assert shown["names"] == list(frame.columns)
        assert shown["columns"][shown["names"].index("n")] == frame["n"].tolist()


def test_two_runs_and_answers_beside_them(tmp_path: Path) -> None:
    runs = [make_patched(tmp_path / "one"), make_patched(tmp_path / "two", data="places")]
    asked = make_answers(tmp_path / "asked", "intervene")
    _, data = page_of(*runs, asked, out=tmp_path)
    assert [(one["id"], one["run"]) for one in data["sections"]] == [
        ("edits", None),
        ("patching", "one"),
        ("patching-2", "two"),
    ]


def test_names_are_text(tmp_path: Path) -> None:
    run = make_patched(tmp_path / "run", data=BAD, models={f"hub/{BAD}": "mdm", "other": "arm"})
    text, data = page_of(run, out=tmp_path)
    assert BAD not in text
    assert "<img src=x" not in text
    assert data["models"][0]["ref"] == f"hub/{BAD}"
