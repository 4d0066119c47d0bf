"""The section on refresh schedules of a cache, and the figure behind it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import floatlens as fl
from floatlens.analysis.cache_schedule import cache_schedules
from floatlens.plots import describe_figures
from floatlens.records.store import open_answers
from floatlens.report.cache_section import cache_sections
from floatlens.report.inputs import RunAnswers
from floatlens.runs.outputs import publish_answers
from floatlens.runs.reporting import report_runs
from shared.cached import make_cached, make_cached_run
from shared.parts import Parts

BAD = "</script><script>window.canary=1</script><img src=x onerror=canary=1>"


def page_of(*runs: Path, out: Path) -> tuple[str, dict[str, Any]]:
    text = report_runs(list(runs), out / "report.html").path.read_text(encoding="utf-8")
    return text, Parts(text).json("report")


def section_of(data: dict[str, Any]) -> dict[str, Any]:
    return next(one for one in data["sections"] if one["id"] == "cache")


def test_a_section_names_the_recommendation_and_has_the_table(tmp_path: Path) -> None:
    run = make_cached_run(tmp_path / "run")
    text, data = page_of(run, out=tmp_path)
    section = section_of(data)
    assert [figure["id"] for figure in section["figures"]] == ["cache"]
    assert [panel["name"] for panel in section["figures"][0]["panels"]] == ["accuracy", "kl"]
    (note,) = section["notes"]
    assert note.startswith("m: stale least=0.99 (0-1/4+2/2) saves 50% of the multiplications, 4.0 passes per")
    assert note.endswith("on 4 questions, the same that it was chosen on.")
    assert dict(section["definition"]["used"])["margin"] == "1 percentage points of accuracy (--within)"
    shown, frame = Parts(text).table("cache_schedules"), cache_schedules(open_answers(run)[0], choose="all")
    assert shown["names"] == list(frame.columns)
    assert shown["columns"][shown["names"].index("saved")] == frame["saved"].tolist()


def test_the_margin_is_that_of_the_run(tmp_path: Path) -> None:
    _, data = page_of(make_cached_run(tmp_path / "run", within=30), out=tmp_path)
    (note,) = section_of(data)["notes"]
    assert "stale least=0.9 (0-2/8) saves 75%" in note


def test_a_recommendation_says_what_it_was_chosen_on(tmp_path: Path) -> None:
    """On questions 0 and 1 the strong schedule is as good as full recomputation; of the others it loses one."""
    _, data = page_of(make_cached_run(tmp_path / "run", choose="half"), out=tmp_path)
    section = section_of(data)
    (note,) = section["notes"]
    assert "stale least=0.9 (0-2/8) saves 75% of the multiplications, 6.0 passes per question; accuracy -50.0" in note
    assert note.endswith("on 2 questions, chosen on 2 others.")
    assert dict(section["definition"]["used"])["chosen on, m"] == "2 questions"


def test_two_runs_have_a_section_each_and_other_answers_none() -> None:
    frame = make_cached()
    runs = [RunAnswers(name, f"runs/{name}", frame, {"models": {}}) for name in ("one", "two")]
    assert [(one["id"], one["run"]) for one in cache_sections({}, runs)] == [("cache", "one"), ("cache-2", "two")]
    plain = frame[frame["kind"] == "rag"]
    assert cache_sections({}, [RunAnswers("one", "runs/one", plain, {"models": {}})]) == []


def test_names_are_text(tmp_path: Path) -> None:
    text, _ = page_of(make_cached_run(tmp_path / "run", model=f"hub/{BAD}"), out=tmp_path)
    assert BAD not in text
    assert "<img src=x" not in text


def test_the_figure_has_a_point_for_each_schedule_and_its_control(tmp_path: Path) -> None:
    frame = cache_schedules(make_cached(), choose="all")
    drawn = describe_figures({"cache": frame}, ["cache"]).figures["cache"]
    accuracy, kl = drawn.panels
    assert [(one.role, one.x) for one in accuracy.series] == [("", (0.75, 0.5)), ("count", (0.75, 0.5))]
    assert accuracy.series[0].mean == (-25.0, 0.0)
    assert kl.series[0].mean == pytest.approx((0.375, 0.375))
    assert drawn.note.endswith("recommended: m: stale least=0.99")
    figure = fl.plot_cache(frame)
    figure.savefig(tmp_path / "cache.png")
    assert (tmp_path / "cache.png").stat().st_size > 5000


def test_files_of_a_run(tmp_path: Path) -> None:
    """The table in the run folder says what is recommended; the figure is beside it."""
    run = make_cached_run(tmp_path / "run")
    made = publish_answers(run, run, cache=(30, "all"), formats=["png"])
    assert made.cache["cache_schedules"]["recommended"].tolist() == [True, False, False, False]
    lines = (run / "tables" / "cache_schedules.csv").read_text().splitlines()
    assert lines[1].startswith("m,stale,least=0.9,")
    assert lines[1].endswith("True")
    assert (run / "figures" / "cache.png").is_file()
    again = publish_answers(run, run, formats=["png"])  # as in the study: 1 point
    assert again.cache["cache_schedules"]["recommended"].tolist() == [False, False, True, False]
