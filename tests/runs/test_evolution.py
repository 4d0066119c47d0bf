"""A study of a course from end to end: a tiny model is adapted, and its snapshots are measured in one run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import floatlens as fl
import floatlens.adaptation.training as training
import floatlens.models
from floatlens.adaptation import Recipe
from floatlens.data import open_data
from floatlens.runs.reporting import report_runs
from floatlens.runs.study_file import read_study
from shared.parts import Parts

STUDY = Path(__file__).parents[2] / "docs" / "studies" / "evolution.yaml"
STEPS = (0, 2, 4)


@pytest.fixture(scope="module")
def twin(base: Path, world_data: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny Llama adapted for four steps, with a snapshot every other step."""
    folder = tmp_path_factory.mktemp("adapted") / "twin"
    recipe = Recipe(steps=4, rows=2, width=64, rank=2, learning_rate=5e-2, warmup=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "SNAPSHOTS", STEPS)
        fl.adapt(base, world_data, folder, recipe=recipe, check_every=0)
    return folder


@pytest.fixture(scope="module")
def questions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file in the place of the study's."""
    path = tmp_path_factory.mktemp("data") / "nq-open-oracle-1655.jsonl.gz"
    examples = list(open_data("scale:rag:documents=2", limit=3).examples())
    pd.Series([one.model_dump_json() for one in examples]).to_csv(
        path, index=False, header=False, compression="gzip", quoting=3, sep="\x1f"
    )
    return path


@pytest.fixture(scope="module")
def loads() -> list[str]:
    return []


@pytest.fixture(scope="module")
def done(base: Path, twin: Path, questions: Path, loads: list[str], tmp_path_factory: pytest.TempPathFactory) -> fl.Run:
    """The study of the docs as it is, with the tiny models in the place of SmolLM2 and its snapshots."""
    real = floatlens.models.load

    def load(ref: str, **options: Any) -> fl.LanguageModel:
        loads.append(ref)
        return real(ref, **options)

    folder = tmp_path_factory.mktemp("study")
    text = STUDY.read_text(encoding="utf-8").replace("natural:smollm2", str(base))
    text += "output: {figures: [png], examples: 1}\n"
    (folder / "evolution.yaml").write_text(text, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(floatlens.models, "load", load)
        patch.setenv("SNAPSHOTS", str(twin))
        patch.setenv("DATA", str(questions.parent))
        return fl.run(folder / "evolution.yaml", folder / "run", progress=False)


def test_the_study_of_the_docs_is_for_the_natural_model() -> None:
    study = read_study(STUDY).study
    assert [getattr(one, "ref", None) or one.snapshots for one in study.models] == ["natural:smollm2", "${SNAPSHOTS}"]
    assert (study.data[0].limit, study.traces.target) == (50, "answer")


def test_every_snapshot_is_loaded_once_and_in_turn(done: fl.Run, base: Path, twin: Path, loads: list[str]) -> None:
    assert done.failed == []
    assert loads == [str(base), *(str(twin / "snapshots" / f"step-{step:06d}") for step in STEPS)]


def test_records_manifest_and_traces_say_course_step_and_tokens(done: fl.Run, base: Path, twin: Path) -> None:
    for step in STEPS:
        name = f"diffusion, step {step}"
        facts = json.loads((twin / "snapshots" / f"step-{step:06d}" / "adaptation.json").read_text())
        expected = {"name": "diffusion", "step": step, "tokens": facts["tokens"], "origin": str(base)}
        assert done.manifest["models"][name]["course"] == expected
        records = [one for one in done.records if one.model == name]
        assert len(records) == 3
        assert all(one.course is not None and one.course.to_dict() == expected for one in records)
        trace = fl.open_trace(done.path / str(records[0].file))
        assert (trace.model["ref"], trace.model["course"], trace.model["kind"]) == (name, expected, "mdm")
    assert all(one.course is None for one in done.records if one.model == str(base))


def test_numbers_are_those_of_each_snapshot_alone(done: fl.Run, base: Path, twin: Path, questions: Path) -> None:
    """Loaded by hand and traced one by one, without the run."""
    examples = list(open_data(str(questions)).examples())
    found = {view: fl.evolution(done.path, "absorbed", view=view) for view in ("fixed", "floating")}
    for step in (None, *STEPS):
        model = fl.load(base if step is None else twin / "snapshots" / f"step-{step:06d}")
        traces = [fl.trace(model, **one.to_trace("answer"), probes=["received"]) for one in examples]
        alone = fl.absorption(traces).group()
        for place, view in enumerate(("fixed", "floating")):
            one = found[view]
            here = one.origin if step is None else one.data.sel(training_step=step)
            for number in ("mean", "low", "high"):
                expected = getattr(alone.estimate("absorbed"), number)[place]
                np.testing.assert_allclose(here.sel(course="diffusion")[number], expected, rtol=1e-6)
            overall = alone.estimated(alone.values("absorbed")[:, place].mean(axis=1))
            inner = one.layer_mean
            assert inner is not None
            mean = inner.origin if step is None else inner.data.sel(training_step=step)
            assert float(mean.sel(course="diffusion")["low"]) == pytest.approx(float(overall.low), rel=1e-6)
            assert int(mean.sel(course="diffusion")["n"]) == 3


def test_step_zero_is_the_base_under_another_mask(done: fl.Run, base: Path) -> None:
    """Same weights: what a token sees of itself in the first layer's values is not at issue, the mask is."""
    kinds = {name: facts["kind"] for name, facts in done.manifest["models"].items()}
    assert kinds == {str(base): "arm", **{f"diffusion, step {step}": "mdm" for step in STEPS}}
    uniform = fl.evolution(done.path, "uniform", view="fixed")
    origin = float(uniform.origin["mean"].sel(course="diffusion", layer=0))
    assert origin > 2 * float(uniform.data["mean"].sel(course="diffusion", training_step=0, layer=0))


def test_tables_and_figures_are_published(done: fl.Run) -> None:
    frame = done.tables["evolution"]
    assert set(frame["training_step"].dropna().astype(int)) == set(STEPS)
    own = frame[(frame["variable"] == "absorbed") & (frame["view"] == "fixed") & frame["layer"].isna()]
    expected = fl.evolution(done.path, "absorbed", view="fixed").layer_mean
    assert expected is not None
    np.testing.assert_allclose(own["mean"].to_numpy()[1:], expected.data["mean"].sel(course="diffusion"), rtol=1e-9)
    assert list(done.tables["absorption"].columns[:3]) == ["model", "course", "training_step"]
    names = {path.stem for path in (done.path / "figures").iterdir()}
    assert "evolution" in names
    assert {name for name in names if "step" in name} == {
        name for name in names if name.startswith("anchors-diffusion-step-4")
    }


def test_verdicts_are_about_the_last_step(done: fl.Run, base: Path) -> None:
    assert not done.claims.empty
    told = " ".join(done.claims["subject"])
    assert "diffusion, step 4" in told
    assert not any(f"step {step}" in told for step in STEPS[:-1])
    kinds = done.claims[done.claims["claim"].str.startswith("mdm-absorbs-less")]
    assert set(kinds["models"]) == {"1 diffusion and 1 autoregressive"}


def page_of(path: Path) -> Mapping[str, Any]:
    data: Mapping[str, Any] = Parts(path.read_text(encoding="utf-8")).json("report")
    return data


def test_the_report_opens_with_the_course(done: fl.Run, base: Path, tmp_path: Path) -> None:
    assert done.report is not None
    again = report_runs([done.path], tmp_path / "again.html", examples=1).path
    for path in (done.report, again):
        data = page_of(path)
        assert data["sections"][0]["id"] == "evolution"
        (figure,) = data["sections"][0]["figures"]
        heat = figure["panels"][0]["heat"]
        assert heat["columns"] == ["base (causal)", "", "0 new mask, not trained", "2", "4"]
        assert [model["ref"] for model in data["models"]] == [str(base), "diffusion, step 4"]


def test_a_course_can_go_on(done: fl.Run, base: Path, twin: Path, questions: Path, tmp_path: Path) -> None:
    """More snapshots join a run that is there; what is on record is not done again."""
    few = {"models": [{"snapshots": str(twin), "course": "c", "steps": [0]}], "conditions": []}
    few |= {"data": [{"ref": str(questions), "limit": 1}], "traces": {"questions": 1, "probes": ["received"]}}
    few |= {"analyses": ["absorption"], "decoding": {"settings": {"gen_length": 2, "steps": 1}}}
    few |= {"output": {"figures": [], "report": False}}
    first = fl.run(few, tmp_path / "run", progress=False)
    assert "evolution" not in first.tables
    few["models"] = [{"snapshots": str(twin), "course": "c", "steps": [0, 4]}]
    second = fl.run(few, tmp_path / "run", progress=False)
    assert [one.model for one in second.records] == ["c, step 0", "c, step 4"]
    assert second.records[0] == first.records[0]
    assert set(second.tables["evolution"]["training_step"]) == {0, 4}
