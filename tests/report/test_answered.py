"""Runs of answers in the report: sections, figures, tables, claims and headline numbers, held against the scores."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from floatlens.core.errors import FloatlensError
from floatlens.report import Made
from floatlens.runs.reporting import report_runs
from floatlens.traces import Trace
from shared.answering import CONDITIONS, KINDS, QUESTIONS, make_answers, share
from shared.parts import Parts
from shared.reported import make_trace


@pytest.fixture(scope="module")
def parts(made: Made) -> Parts:
    return Parts(made.path.read_text(encoding="utf-8"))


def section(parts: Parts, name: str) -> dict[str, Any]:
    return next(one for one in parts.json("report")["sections"] if one["id"] == name)


def test_answers_come_after_the_analyses(parts: Parts) -> None:
    ids = [one["id"] for one in parts.json("report")["sections"]]
    assert ids[-3:] == ["qa", "stress", "edits"]
    assert "drift" in ids


def test_gains_are_drawn_and_told(parts: Parts) -> None:
    (panel,) = section(parts, "qa")["figures"][0]["panels"]
    assert [label for _, label in panel["x"]["ticks"]] == ["people"]
    for drawn in panel["series"]:
        assert drawn["start"] == pytest.approx([share(drawn["name"], "closed")])
        assert drawn["mean"] == pytest.approx([share(drawn["name"], "rag")])
        assert drawn["low"] <= drawn["mean"] <= drawn["high"]
    row = next(
        row
        for row in parts.json("report")["headline"]
        if row["title"] == "Gain from documents, people (percentage points)"
    )
    for model in KINDS:
        assert row["values"][model]["mean"] == pytest.approx(100 * (share(model, "rag") - share(model, "closed")))
        assert row["values"][model]["n"] == QUESTIONS
    table = parts.table("table1")
    assert table["columns"][0] == [f"{model}{more}" for model in KINDS for more in ("", " w/ RAG")]
    assert table["columns"][1][0] == f"{100 * share('moving-mdm', 'closed'):.1f}"


def test_stress_curves_are_drawn_with_their_doses(parts: Parts) -> None:
    figures = {one["id"]: one for one in section(parts, "stress")["figures"]}
    assert list(figures) == ["stress-noise", "stress-position", "stress-distractor", "stress-order"]
    (noise,) = figures["stress-noise"]["panels"]
    for drawn in noise["series"]:
        assert drawn["x"] == [0.0, 0.4, 0.8]
        assert drawn["mean"] == pytest.approx([share(drawn["name"], f"noise-{x:g}") for x in drawn["x"]])
    assert len(figures["stress-distractor"]["panels"]) == 2
    rows = parts.table("stress-robustness")
    assert len(rows["columns"][0]) == 2 * 5  # two models; noise, position, two kinds of distractors, order


def test_edits_stand_beside_their_controls(parts: Parts) -> None:
    panels = section(parts, "edits")["figures"][0]["panels"]
    assert [panel["title"] for panel in panels] == ["drop anchors", "pin anchors to=step0", "sink token"]
    for drawn in panels[0]["series"]:
        more = f" ({drawn['role']} control)" if drawn["role"] else ""
        expected = [share(drawn["name"], f"drop_anchors k={k}{more}") - share(drawn["name"], "plain") for k in (1, 5)]
        assert [mean / 100 for mean in drawn["mean"]] == pytest.approx(expected)  # in percentage points
    assert "percentage points" in panels[0]["y"]["label"]
    assert len({tuple(panel["y"]["range"]) for panel in panels}) == 1
    assert [label for _, label in panels[0]["x"]["ticks"]] == ["k=1", "k=5"]
    moved = section(parts, "edits")["figures"][1]["panels"][0]["series"][0]
    assert moved["mean"] == pytest.approx([np.mean([0.25 + q / 100 for q in range(QUESTIONS)])] * 2)


def test_claims_about_answers_lead_to_their_figures(parts: Parts) -> None:
    figures = {row["id"]: row["figure"] for row in parts.json("report")["claims"]}
    assert figures["rag-gain"] == "gains"
    assert figures["robust-noise"] == "stress-noise"
    assert figures["anchors-held"] == "edits-accuracy"


def test_sections_say_what_they_rest_on(parts: Parts) -> None:
    for name in ("qa", "stress", "edits"):
        used = dict(section(parts, name)["definition"]["used"])
        assert used["n, people"] == f"{QUESTIONS} questions"
        assert used["prompt template"] == "default@1"
        assert "SQuAD" in used["normalisation"]
        assert used["decoding, moving-mdm"] == "own, gen_length 8"


def test_every_answer_is_in_a_table(parts: Parts) -> None:
    table = parts.table("qa-answers")
    assert len(table["columns"][0]) == len(KINDS) * len(CONDITIONS["qa"]) * QUESTIONS
    assert set(table["columns"][table["names"].index("prediction")]) == {"a grey dog", "no"}


def test_a_report_of_answers_alone_has_no_explorer(tmp_path: Path) -> None:
    made = report_runs([make_answers(tmp_path / "qa", "qa")], tmp_path / "r.html")
    page = Parts(made.path.read_text(encoding="utf-8"))
    assert not any(value == "explore" for _, name, value in page.attributes if name == "id")
    (run,) = page.json("report")["runs"]
    assert (run["answers"], run["outcomes"]) == (48, {"done": 48})


def test_two_runs_of_a_kind_stand_one_after_the_other(tmp_path: Path) -> None:
    runs = [make_answers(tmp_path / name, "qa", said=name) for name in ("one", "two")]
    data = Parts(report_runs(runs, tmp_path / "r.html").path.read_text(encoding="utf-8")).json("report")
    assert [(one["id"], one["run"]) for one in data["sections"]] == [("qa", "one"), ("qa-2", "two")]
    assert [row["figure"] for row in data["claims"]] == ["gains"] * 3 + ["gains-2"] * 3


def test_a_run_without_answers_is_left_out_with_the_reason(tmp_path: Path) -> None:
    empty = make_answers(tmp_path / "empty", "qa")
    (empty / "records.jsonl").write_text("")
    made = report_runs([make_answers(tmp_path / "qa", "qa"), empty], tmp_path / "r.html")
    assert made.skipped == {"empty": "no answer on record yet"}
    with pytest.raises(FloatlensError, match="nothing to report"):
        report_runs([empty], tmp_path / "r.html")


def test_runs_of_one_model_are_pooled_or_set_side_by_side(tmp_path: Path) -> None:
    for run in ("first", "second"):
        make_trace("mdm", len(run)).save(tmp_path / run / "0")
    for by_run, names in ((False, ["moving-mdm"]), (True, ["moving-mdm · run first", "moving-mdm · run second"])):
        made = report_runs([tmp_path / "first", tmp_path / "second"], tmp_path / "r.html", by_run=by_run)
        page = Parts(made.path.read_text(encoding="utf-8"))
        assert [model["label"] for model in page.json("report")["models"]] == names
        assert [model["label"] for model in page.json("explorer")["models"]] == names
        drift = next(one for one in page.json("report")["sections"] if one["id"] == "drift")
        assert [one["name"] for one in drift["figures"][0]["panels"][0]["series"]] == names


def test_other_settings_of_a_model_are_never_pooled(tmp_path: Path) -> None:
    make_trace("mdm", 0).save(tmp_path / "run" / "0")
    data = make_trace("mdm", 1).data.copy()
    data.attrs = {**data.attrs, "edits": ["a/b"]}
    Trace(data).save(tmp_path / "run" / "1")
    page = Parts(report_runs([tmp_path / "run"], tmp_path / "r.html").path.read_text(encoding="utf-8"))
    models = page.json("report")["models"]
    assert [model["label"] for model in models] == ["moving-mdm · edits none", "moving-mdm · edits a\u2215b"]
    assert [model["n"] for model in models] == [1, 1]
    assert len({model["colour"] for model in models}) == 2
    assert [m["colour"] for m in page.json("explorer")["models"]] == [m["colour"] for m in models]


def test_a_score_that_is_not_defined_is_left_blank(tmp_path: Path) -> None:
    run = make_answers(tmp_path / "stress", "stress")
    lines = [json.loads(line) for line in (run / "records.jsonl").read_text().splitlines()]
    for line in lines:
        if line["condition"].get("test") == "clean":
            line["accuracy"] = 0.0
    (run / "records.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    page = Parts(report_runs([run], tmp_path / "r.html").path.read_text(encoding="utf-8"))
    table = page.table("stress-robustness")
    assert set(table["columns"][table["names"].index("robustness")]) == {None}
    assert not any(isinstance(x, float) and math.isnan(x) for column in table["columns"] for x in column)
