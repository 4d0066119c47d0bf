"""A real small study: what it writes, what reads it, and that it comes out the same whoever does the work."""

from __future__ import annotations

from pathlib import Path

import pytest

import floatlens as fl
from floatlens.core.errors import FloatlensError
from floatlens.runs import publish
from floatlens.runs.reporting import report_runs
from shared.parts import Parts
from shared.small import ITEMS, STUDY, assert_same, bare


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> fl.Run:
    """The study, run in this process."""
    return fl.run(STUDY, tmp_path_factory.mktemp("study") / "run")


def test_everything_is_in_the_folder(done: fl.Run) -> None:
    assert len(done.records) == len(bare(done.path)) == ITEMS
    assert done.failed == []
    assert {"scores", "gains", "curves", "robustness", "effects", "measured", "drift", "flow", "claims"} <= set(
        done.tables
    )
    assert "qk" not in done.tables  # not among the study's analyses
    pictures = {path.name for path in (done.path / "figures").iterdir()}
    assert {"gains.png", "stress-noise.png", "edits-accuracy.png", "drift.png", "gold_lift.png"} <= pictures
    assert {path.rpartition(".")[2] for path in pictures} == {"png"}
    assert done.report is not None
    with pytest.raises(KeyError, match='no table "gain"; did you mean "gains"'):
        done.tables["gain"]


def test_nothing_is_published_again_where_nothing_has_changed(
    done: fl.Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[Path] = []

    def publish_answers(folder: Path, *_: object, **__: object) -> None:
        asked.append(folder)
        raise InterruptedError

    monkeypatch.setattr(publish, "publish_answers", publish_answers)
    assert fl.run(STUDY, done.path, progress=False).records == done.records
    assert asked == []
    assert capsys.readouterr().err == ""
    for change in ({"force": True}, {"study": {**STUDY, "output": {"figures": ["svg"]}}}):
        with pytest.raises(InterruptedError):
            fl.run(**{"study": STUDY, "out": done.path, "progress": False, **change})
    assert asked == [done.path] * 2


def test_the_run_can_be_looked_into(done: fl.Run) -> None:
    again = fl.open_run(done.path)
    traces = list(again.traces())
    models = ["scale:qwen", "scale:llada", *(f"{ref}, weights shuffled (seed 0)" for ref in STUDY["models"])]
    assert [trace.model["ref"] for trace in traces] == [model for model in models for _ in range(2)]
    assert [trace.data.attrs["prompt"]["gold"] for trace in traces] == [0, 2] * 4
    assert {trace.data_set for trace in traces} == {"scale:rag:documents=3"}
    assert {one.label for one in again.answers["condition"]} == {
        *("closed", "rag", "clean", "noise 0", "noise 1"),
        *("drop_anchors k=1", "drop_anchors k=1 (count control)", "drop_anchors k=1 (mass control)"),
        *("ablate_heads top=2", "ablate_heads top=2 (count control)"),
    }
    assert {"mdm-moves (answer rows)", "rag-gain", "mdm-without-anchors", "flow-follows-gold (rollout)"} <= set(
        again.claims["claim"]
    )
    assert repr(again).endswith(f"run': small, {ITEMS} records)")
    with pytest.raises(FloatlensError, match="not a run"):
        fl.open_run(done.path / "tables")


def test_the_manifest_says_what_is_needed_to_repeat_it(done: fl.Run) -> None:
    manifest = done.manifest
    assert manifest["format"] == 3
    assert manifest["study"]["traces"]["places"] == [0, 2]
    assert manifest["models"]["scale:llada"]["ask"]["decoding"]["settings"]["steps"] == 2
    assert len(manifest["data"]["scale:rag:documents=3"]["sha256"]) == 64
    assert {"floatlens", "torch", "python"} <= set(manifest["versions"])
    assert manifest["machine"]["cores"] >= 1
    assert set(manifest["git"]) == {"floatlens", "study"}
    again = {**manifest["study"], "output": {"figures": ["png"], "report": False}, "analyses": ["drift"]}
    assert fl.run(again, done.path).records == done.records  # it is a study itself, and all of it is done


def test_edits_are_measured_beside_their_answers(done: fl.Run) -> None:
    own = [one for one in done.records if one.measured is not None]
    assert {one.condition.label for one in own} >= {"rag", "drop_anchors k=1", "ablate_heads top=2 (count control)"}
    assert {one.index for one in own} == {0}
    assert all(one.kl is not None for one in own if one.condition.kind == "edit")


def test_the_report_speaks_of_answers_too(done: fl.Run, tmp_path: Path) -> None:
    page = report_runs([done.path], tmp_path / "r.html", examples=1).path.read_text()
    for id in ("qa", "stress", "edits", "drift"):
        assert f'<section id="{id}"' in page
    data = Parts(page).json("report")
    assert any("etrieved documents help diffusion models" in row["statement"] for row in data["claims"])
    answers = [record for record in done.records if record.what == "answer"]
    assert data["settings"] == {"traces": 4, "answers": len(answers), "controls": 4}
    assert done.report is not None
    assert '<section id="edits"' in done.report.read_text()  # what the run itself wrote, as well
    (facts,) = data["runs"]
    assert (facts["answers"], facts["traces"], facts["outcomes"]) == (len(answers), 8, {"done": ITEMS})


@pytest.mark.slow
def test_processes_and_batches_give_the_same(done: fl.Run, tmp_path: Path) -> None:
    fl.run({**STUDY, "output": {"report": False, "figures": ["png"]}}, tmp_path / "two", workers=2)
    assert_same(done.path, tmp_path / "two")
    larger = {**STUDY, "machine": {"batch": 16}, "output": {"report": False, "figures": ["png"]}}
    fl.run(larger, tmp_path / "large")
    left, right = bare(done.path), bare(tmp_path / "large")
    assert left.keys() == right.keys()
    for item, one in left.items():
        other = right[item]
        assert one.model_copy(update={"kl": None}) == other.model_copy(update={"kl": None})
        assert one.kl == pytest.approx(other.kl, abs=1e-5)


def test_failures_are_on_record_and_the_rest_goes_on(
    done: fl.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from floatlens.runs import tasks

    def broken(*_: object, **__: object) -> None:
        raise ValueError("no luck")

    monkeypatch.setattr(tasks, "ask", broken)
    monkeypatch.setattr(tasks, "trace", broken)
    few = {"models": ["scale:qwen"], "data": [{"ref": "scale:rag:documents=2", "limit": 2}], "traces": {"questions": 1}}
    few["analyses"] = ["drift"]
    run = fl.run(few, tmp_path / "run")
    assert [(one.status, one.error) for one in run.records] == [("failed", "ValueError: no luck")] * 5
    monkeypatch.undo()
    assert fl.run({**few, "output": {"figures": ["png"], "report": False}}, tmp_path / "run").failed == []
    assert len(bare(tmp_path / "run")) == 5
