"""What the page says of itself: its runs, its own settings, what it left out, which of several runs a number is of."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from floatlens import __version__
from floatlens.cli import main
from floatlens.report import Made, answer_sections
from floatlens.runs.reporting import report_runs
from shared.answering import make_answers, make_study
from shared.parts import Parts
from shared.reported import make_trace

Visit = Callable[..., Any]


def read(made: Made) -> Parts:
    return Parts(made.path.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study with a trace, 48 answers asked for and three of them failed."""
    run = make_study(tmp_path_factory.mktemp("study") / "a_study", failed=3)
    make_trace("mdm", 0).save(run / "traces" / "0")
    return run


@pytest.fixture(scope="module")
def twice(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Two runs of a kind, and one that is alone of its kind."""
    root = tmp_path_factory.mktemp("twice")
    runs = [make_answers(root / name, kind) for name, kind in (("one", "qa"), ("two", "qa"), ("three", "stress"))]
    return report_runs(runs, root / "r.html")


def test_failed_items_are_not_counted_as_answers(study: Path, tmp_path: Path) -> None:
    (run,) = read(report_runs([study], tmp_path / "r.html")).json("report")["runs"]
    assert (run["answers"], run["traces"]) == (45, 1)
    assert run["outcomes"] == {"failed": 3, "done": 46}


@pytest.mark.browser
def test_runs_say_how_much_they_hold(visit: Visit, study: Path, asked: list[Path], tmp_path: Path) -> None:
    page = visit(report_runs([study, asked[0]], tmp_path / "r.html").path).page
    said = page.locator("#manifests .run summary small").all_inner_texts()
    assert said[0].strip() == f"floatlens {__version__}"
    assert said[1].strip() == "1 trace · 45 answers · 3 failed · 46 done · from manifest.json"
    assert said[2].strip() == "48 answers · 48 done · from manifest.json"


def test_the_report_can_be_repeated_from_what_it_says(study: Path, tmp_path: Path) -> None:
    more = ["--examples", "1", "--rule", "topk(2)", "--by-run", "--max-mb", "9.5"]
    assert main(["report", str(study), *more, "--out", str(tmp_path / "once.html")]) == 0
    made = Parts((tmp_path / "once.html").read_text(encoding="utf-8")).json("report")["made"]
    assert (made["floatlens"], made["rule"], made["examples"], made["by_run"]) == (__version__, "topk(2)", 1, True)
    command = shlex.split(made["command"])
    assert main([*command[1:], "--out", str(tmp_path / "again.html")]) == 0
    assert (tmp_path / "again.html").read_bytes() == (tmp_path / "once.html").read_bytes()


def test_progress_counts_the_traces_of_a_study(study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[int] = []

    def progress(_: str, total: int) -> Any:
        counted.append(total)
        return nullcontext(SimpleNamespace(item=lambda: counted.append(-1)))

    monkeypatch.setattr("floatlens.cli.results.progress", progress)
    assert main(["report", str(study), "--out", str(tmp_path / "r.html")]) == 0
    assert counted == [1, -1]


# -- several runs of one kind -----------------------------------------------------------------------------------------


def test_runs_of_one_kind_are_named_and_others_are_not(tmp_path: Path) -> None:
    folders = ["a/same", "b/same", "c/other"]
    runs = [make_answers(tmp_path / name, "qa") for name in folders]
    told = [one["run"] for one in read(report_runs(runs, tmp_path / "r.html")).json("report")["sections"]]
    assert told == [str(tmp_path / "a/same"), str(tmp_path / "b/same"), "other"]
    (alone,) = read(report_runs(runs[:1], tmp_path / "r.html")).json("report")["sections"]
    assert alone["run"] is None


def test_numbers_and_claims_say_which_run_they_are_of(twice: Made) -> None:
    data = read(twice).json("report")
    gained = [row["run"] for row in data["headline"] if row["title"].startswith("Gain")]
    assert gained == ["one", "two"]
    assert {row["run"] for row in data["headline"] if row["title"].startswith("Robust")} == {None}
    assert [row["run"] for row in data["claims"] if row["id"] == "rag-gain"] == ["one", "two"]


@pytest.mark.browser
def test_the_top_of_the_page_names_the_runs(visit: Visit, twice: Made) -> None:
    page = visit(twice.path).page
    titles = page.locator("#headline tbody th").all_inner_texts()
    assert [title.splitlines()[0] for title in titles[:2]] == [
        "Gain from documents, people (percentage points) in run one",
        "Gain from documents, people (percentage points) in run two",
    ]
    assert page.locator("nav.top .links a").all_inner_texts()[2:-1] == ["Answers one", "Answers two", "Stress tests"]
    abouts = page.locator('.finding[data-claim="rag-gain"] .subject').all_text_contents()
    assert [about.split()[-1] for about in abouts] == ["one", "two"]


# -- what is not in the page ------------------------------------------------------------------------------------------


def test_answers_that_are_not_listed_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_answers(tmp_path / "qa", "qa", said="w" * 301)
    cut = read(report_runs([run], tmp_path / "r.html")).json("report")["sections"][0]
    right = sum(json.loads(line)["prediction"] != "no" for line in (run / "records.jsonl").read_text().splitlines())
    assert cut["notes"] == [
        f"Of {right} answers only the first 300 characters are listed; the run's records.jsonl has the rest."
    ]
    monkeypatch.setattr(answer_sections, "_MOST", 47)
    made = report_runs([run], tmp_path / "r.html")
    none = read(made).json("report")["sections"][0]
    assert none["notes"][0].startswith("The 48 answers are not listed here, as they are more than 47: ")
    assert none["notes"][0] in made.path.read_text(encoding="utf-8").replace("&#39;", "'")
    assert "qa-answers" not in [table["id"] for table in none["tables"]]


def test_the_name_of_a_folder_that_is_left_out_is_kept(tmp_path: Path) -> None:
    empty = make_answers(tmp_path / "my_empty_run", "qa")
    (empty / "records.jsonl").write_text("")
    made = report_runs([make_answers(tmp_path / "qa", "qa"), empty], tmp_path / "r.html")
    assert read(made).json("report")["skipped"] == [["my_empty_run", "no answer on record yet"]]
