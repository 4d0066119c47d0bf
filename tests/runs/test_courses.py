"""Training courses in a study: steps from the study or from adaptation.json, names, origins, and what is refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from floatlens.core.errors import FloatlensError
from floatlens.models.course import Course, earlier
from floatlens.runs.courses import given_models
from floatlens.runs.manifest import manifest_of
from floatlens.runs.plan import Plan, make_plan
from floatlens.runs.study import StudyModel, StudySnapshots
from floatlens.runs.study_file import read_study, schema

Made = Callable[..., Path]


@pytest.fixture
def snapshots(tmp_path: Path) -> Made:
    """A folder of snapshots as `floatlens adapt` leaves it, without weights, given their steps."""

    def make(*steps: int, name: str = "twin") -> Path:
        for step in steps:
            # the names say nothing: what counts is the file
            folder = tmp_path / name / "snapshots" / f"kept-{(step * 7) % 5}-{step}"
            folder.mkdir(parents=True)
            facts = {"to": "diffusion", "attention": "full", "mask_token_id": 4, "base": "scale:llama"}
            facts |= {"step": step, "tokens": 100 * step}
            (folder / "adaptation.json").write_text(json.dumps(facts))
        return tmp_path / name

    return make


def study(*models: Any, **more: Any) -> dict[str, Any]:
    return {"models": list(models), "data": [{"ref": "scale:rag:documents=2", "limit": 1}], "conditions": [], **more}


def courses(*models: Any) -> list[tuple[str, Course | None]]:
    return [(one.name, one.course) for one in given_models(read_study(study(*models)))]


def refused(*models: Any) -> str:
    with pytest.raises(FloatlensError) as error:
        given_models(read_study(study(*models)))
    assert "\n" not in str(error.value)
    return str(error.value)


def test_a_folder_is_spread_out_by_step_whatever_the_names(snapshots: Made) -> None:
    folder = snapshots(100, 0, 25)
    expected = [(f"twin, step {step}", Course("twin", step, 100 * step)) for step in (0, 25, 100)]
    assert courses({"snapshots": str(folder)}) == expected
    assert courses({"snapshots": str(folder / "snapshots")}) == expected


def test_steps_may_be_chosen_and_stages_chained(snapshots: Made) -> None:
    first, second = snapshots(0, 50, name="a"), snapshots(0, 25, 50, name="b")
    found = courses(
        {"snapshots": str(first), "course": "x"}, {"snapshots": str(second), "course": "x", "steps": [25], "after": 50}
    )
    assert found == [
        ("x, step 0", Course("x", 0, 0)),
        ("x, step 50", Course("x", 50, 5000)),
        ("x, step 75", Course("x", 75, None)),  # tokens of the first stage are not known to the second
    ]
    assert "no snapshot of step 30; there are 0, 25, 50" in refused({"snapshots": str(second), "steps": [30]})
    clash = refused({"snapshots": str(first), "course": "x"}, {"snapshots": str(second), "course": "x", "after": 50})
    assert "study: models[1]: x, step 50 is given twice" in clash


def test_single_snapshots_take_their_step_from_the_study_or_the_file(snapshots: Made) -> None:
    folder = str(next((snapshots(25) / "snapshots").iterdir()))
    assert courses({"ref": folder, "course": "c"}) == [("c, step 25", Course("c", 25, 2500))]
    assert courses({"ref": folder, "course": "c", "step": 30}) == [("c, step 30", Course("c", 30, None))]
    assert courses({"ref": folder, "course": "c", "tokens": 7}) == [("c, step 25", Course("c", 25, 7))]
    given = {"ref": "scale:llada", "course": "c", "step": 3, "tokens": 9}
    assert courses(given) == [("c, step 3", Course("c", 3, 9))]


def test_revisions_of_one_repository_can_be_a_course() -> None:
    steps = [{"ref": "org/model", "revision": f"step{n}", "course": "pretraining", "step": n} for n in (1, 512)]
    assert [name for name, _ in courses(*steps)] == ["pretraining, step 1", "pretraining, step 512"]


def test_an_origin_is_a_model_of_the_study_and_holds_for_the_course(snapshots: Made) -> None:
    folder = str(snapshots(0, 25))
    found = courses("scale:llama", {"snapshots": folder, "course": "c", "origin": "scale:llama"})
    assert [None if one is None else one.origin for _, one in found] == [None, "scale:llama", "scale:llama"]
    assert "models[0].origin: scale:llama is not among the models" in refused(
        {"snapshots": folder, "origin": "scale:llama"}
    )
    more = {"ref": "scale:llada", "course": "c", "step": 9, "origin": "scale:qwen"}
    both = ("scale:llama", "scale:qwen", {"snapshots": folder, "course": "c", "origin": "scale:llama"}, more)
    assert "the course c has another origin already: scale:llama" in refused(*both)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"ref": "scale:llada", "course": "c"}, "no training step is known"),
        ({"ref": "scale:llada", "step": 3}, "step is that of a training course; give its name as course: too"),
        ({"ref": "scale:llada", "origin": "scale:qwen"}, "origin is that of a training course"),
        ({"ref": "scale:llada", "course": "c", "step": -1}, "models[0].step wants at least 0, got -1"),
        ({"ref": "scale:llada", "course": "a/b", "step": 1}, "printable characters without slashes"),
        ({"ref": "scale:llada", "course": "a\nb", "step": 1}, "printable characters without slashes"),
        ({"ref": "scale:llada", "curse": "c"}, 'no key "models[0].curse"; did you mean "course"?'),
        ({"snapshots": "nowhere"}, "nowhere: no such folder; give a folder that floatlens adapt wrote"),
        ({"snapshots": "nowhere", "ref": "scale:llada"}, 'no key "models[0].ref"'),
        ({"snapshots": "nowhere", "step": 3}, 'no key "models[0].step"; did you mean "steps"?'),
        ({"snapshots": "nowhere", "device": "cpu", "device_map": "auto"}, "give device or device_map, not both"),
        ({"snapshots": "."}, "no snapshots in it; a snapshot is a folder with an adaptation.json"),
        ({"snapshots": "${NO_SUCH_VARIABLE}"}, "the environment variable NO_SUCH_VARIABLE is not set"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(
    given: dict[str, Any], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert says in refused(given)


def test_a_file_that_states_no_step_is_no_snapshot(snapshots: Made) -> None:
    """The step of adaptation.json has a default, which must not be taken for a statement."""
    folder = next((snapshots(0) / "snapshots").iterdir())
    facts = json.loads((folder / "adaptation.json").read_text())
    del facts["step"]
    (folder / "adaptation.json").write_text(json.dumps(facts))
    assert "no training step is known" in refused({"ref": str(folder), "course": "c"})


def test_models_and_steps_are_given_once() -> None:
    assert "scale:llada is given twice; give every model once" in refused("scale:llada", "scale:llada")
    steps = ({"ref": ref, "course": "c", "step": 1} for ref in ("scale:llada", "scale:dream"))
    assert "c, step 1 is given twice, as scale:llada and as scale:dream" in refused(*steps)


def test_variables_come_from_the_environment(snapshots: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path in a variable is relative to the working directory, one in the file to the file."""
    snapshots(0, 25)
    (tmp_path / "elsewhere").mkdir()
    text = "models: [{snapshots: '${TWIN}/snapshots'}]\ndata: [scale:rag]\n"
    (tmp_path / "elsewhere" / "study.yaml").write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TWIN", "twin")
    found = given_models(read_study(tmp_path / "elsewhere" / "study.yaml"))
    assert [one.name for one in found] == ["twin, step 0", "twin, step 25"]
    monkeypatch.setenv("TWIN", "")
    with pytest.raises(FloatlensError, match=r"study\.yaml:1: models\[0\]: \$\{TWIN\}/snapshots: the environment"):
        given_models(read_study(tmp_path / "elsewhere" / "study.yaml"))


def test_both_forms_of_an_entry_are_in_the_schema() -> None:
    found = json.loads(schema())
    known = [one.get("$ref", one.get("type")) for one in found["properties"]["models"]["items"]["anyOf"]]
    assert known == ["string", "#/$defs/StudyModel", "#/$defs/StudySnapshots"]
    assert {"snapshots", "course", "origin", "steps", "after"} <= set(found["$defs"]["StudySnapshots"]["properties"])
    made = read_study(study("scale:llada", {"snapshots": "x", "dtype": "float32"})).study
    assert [type(one) for one in made.models] == [StudyModel, StudySnapshots]
    assert read_study(json.loads(made.model_dump_json())).study.models == made.models


# -- planned ------------------------------------------------------------------------------------------------------


def plan_of(*models: Any, **more: Any) -> Plan:
    return make_plan(read_study(study(*models, **more)))


def test_the_plan_and_the_manifest_know_a_snapshot_by_course_and_step() -> None:
    origin = {"ref": "scale:dream", "course": "c", "step": 0, "origin": "scale:llada"}
    plan = plan_of("scale:llada", origin)
    assert [model.ref for model in plan.models] == ["scale:llada", "c, step 0"]
    assert [model.config.ref for model in plan.models] == ["scale:llada", "scale:dream"]
    made = json.loads(json.dumps(manifest_of(plan)))["models"]
    assert made["c, step 0"]["course"] == {"name": "c", "step": 0, "tokens": None, "origin": "scale:llada"}
    assert made["scale:llada"]["course"] is None


def test_a_course_is_one_model_over_training(tmp_path: Path) -> None:
    from floatlens.subjects.scale import WEIGHTS

    shutil.copytree(WEIGHTS / "llada", tmp_path / "other")
    config = json.loads((tmp_path / "other" / "config.json").read_text())
    (tmp_path / "other" / "config.json").write_text(json.dumps(config | {"n_layers": 2}))
    models = [
        {"ref": ref, "course": "c", "step": step} for step, ref in enumerate(("scale:llada", str(tmp_path / "other")))
    ]
    with pytest.raises(FloatlensError, match="c, step 1 has layers 2 and c, step 0 8; a course is one model"):
        plan_of(*models)


def test_only_the_last_step_has_controls() -> None:
    steps = [{"ref": ref, "course": "c", "step": n} for n, ref in enumerate(("scale:llada", "scale:dream"))]
    plan = plan_of("scale:qwen", *steps, controls={"shuffled_weights": 1})
    expected = ["scale:qwen, weights shuffled (seed 0)", "c, step 1, weights shuffled (seed 0)"]
    assert [model.ref for model in plan.models if model.shuffled is not None] == expected
    assert [one.ref for one in plan.controls_of(plan.models[2])] == expected[1:]


def test_the_snapshots_before_the_last_of_each_course() -> None:
    steps = {f"{name}{step}": {"name": name, "step": step} for name in "ab" for step in (25, 0, 100)}
    assert earlier({**steps, "plain": None, "c": {"name": "c", "step": 0}}) == {"a25", "a0", "b25", "b0"}
