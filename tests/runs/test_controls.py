"""Models with shuffled weights in a study: planned and traced beside their models, never asked, told apart later."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import floatlens as fl
import floatlens.models
from floatlens.core.errors import FloatlensError
from floatlens.models.config import ModelConfig
from floatlens.records import Record
from floatlens.runs.counts import count, forecast
from floatlens.runs.engine import run_plan
from floatlens.runs.manifest import manifest_of
from floatlens.runs.plan import Plan, make_plan
from floatlens.runs.reporting import _traces, _walk, report_runs
from floatlens.runs.run import opened_folder
from floatlens.runs.study_file import read_study
from floatlens.runs.workers import Holder, Workers
from shared.parts import Parts

SHUFFLED = ", weights shuffled (seed {})"
STUDY: dict[str, Any] = {
    "models": ["scale:qwen", "scale:llada"],
    "data": [{"ref": "scale:rag:documents=2", "limit": 2, "conditions": ["rag", "drop_anchors", "ablate_heads:top=2"]}],
    "decoding": {"settings": {"gen_length": 4, "steps": 2}},
    "traces": {"questions": 1, "edited": 0},
    "controls": {"shuffled_weights": 2},
    "analyses": ["drift", "absorption", "flow"],
    "output": {"figures": ["png"], "examples": 1},
}


def plan_of(**change: Any) -> Plan:
    return make_plan(read_study({**STUDY, **change}))


# -- planned ------------------------------------------------------------------------------------------------------


def test_controls_come_after_the_models_and_are_only_traced() -> None:
    plan = plan_of()
    expected = [f"{ref}{SHUFFLED.format(seed)}" for ref in STUDY["models"] for seed in (0, 1)]
    assert [model.ref for model in plan.models] == [*STUDY["models"], *expected]
    assert [model.ref for model in plan.subjects] == STUDY["models"]
    assert [[one.ref for one in plan.controls_of(model)] for model in plan.subjects] == [expected[:2], expected[2:]]
    asked = {row.what: {name: one.total for name, one in row.by_model.items()} for row in count(plan).rows}
    assert asked["trace"] == dict.fromkeys([*STUDY["models"], *expected], 1)
    assert all(set(by_model) == set(STUDY["models"]) for what, by_model in asked.items() if what != "trace")
    assert {"rag", "drop_anchors k=1", "ablate_heads top=2"} < set(asked)


def test_a_control_has_everything_of_its_model() -> None:
    plan = plan_of()
    qwen, control = plan.models[0], plan.models[2]
    assert (control.config, control.ask, control.capture) == (qwen.config, qwen.ask, qwen.capture)
    assert (control.original, control.shuffled, qwen.original, qwen.shuffled) == ("scale:qwen", 0, "scale:qwen", None)
    assert control.facts.layers == qwen.facts.layers
    manifest = manifest_of(plan)["models"]
    assert manifest[control.ref]["control"] == {"of": "scale:qwen", "kind": "shuffled_weights", "seed": 0}
    assert manifest["scale:qwen"]["control"] is None


def test_by_default_there_are_none() -> None:
    assert len(plan_of(controls={}).models) == len(STUDY["models"])


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(FloatlensError, match="controls are traced, and this study traces nothing"):
        plan_of(traces={"questions": 0}, data=[{"ref": "scale:rag:documents=2", "conditions": ["rag"]}])
    with pytest.raises(FloatlensError, match=r"controls\.shuffled_weights"):
        plan_of(controls={"shuffled_weights": -1})
    with pytest.raises(FloatlensError, match="shuffled_weight"):
        plan_of(controls={"shuffled_weight": 1})


def test_the_time_of_a_control_is_that_of_its_model() -> None:
    plan = plan_of(conditions=[], data=["scale:rag:documents=2"], traces={"questions": 4})
    example = {"data": "scale:rag:documents=2", "condition": {"kind": "rag"}, "index": 0, "status": "done"}
    seen = [
        Record.model_validate({"what": "trace", "model": ref, "id": "x", "seconds": seconds, **example})
        for ref, seconds in (("scale:qwen", 2.0), ("scale:llada", 3.0))
    ]
    told = forecast(plan, count(plan), seen, workers=1, threads=1)
    assert told.basis == "from the 2 items on record"
    assert told.seconds == pytest.approx(4 * 3 * (2.0 + 3.0), abs=10)


# -- in a worker --------------------------------------------------------------------------------------------------


def test_a_worker_shuffles_what_it_holds_and_loads_what_it_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[str] = []
    real = floatlens.models.load

    def load(ref: str, **options: Any) -> fl.LanguageModel:
        loaded.append(ref)
        return real(ref, **options)

    monkeypatch.setattr(floatlens.models, "load", load)
    holder, qwen = Holder(), ModelConfig(ref="scale:qwen")
    plain = real("scale:qwen")
    name = "model.layers.1.mlp.down_proj.weight"

    def held(shuffled: int | None) -> torch.Tensor:
        return holder.get(qwen, shuffled).module.get_parameter(name)

    def expected(seed: int) -> torch.Tensor:
        return fl.shuffled(plain, seed).module.get_parameter(name)

    assert torch.equal(held(None), plain.module.get_parameter(name))
    assert torch.equal(held(0), expected(0))
    assert torch.equal(held(0), expected(0))
    assert len(loaded) == 1
    assert torch.equal(held(1), expected(1))
    assert torch.equal(held(None), plain.module.get_parameter(name))
    assert len(loaded) == 3
    assert holder.get(ModelConfig(ref="scale:llada"), 0).ref == "scale:llada, weights shuffled (seed 0)"
    assert loaded == ["scale:qwen"] * 3 + ["scale:llada"]


class Order(Workers):
    """Notes whose tasks come in which order, and does none."""

    def __init__(self) -> None:
        super().__init__(1)
        self.given: list[tuple[str, str]] = []

    def run(self, tasks: Any) -> Any:
        self.given += [(type(task).__name__, task.model.ref) for task in tasks]
        return iter(())


def test_controls_are_traced_while_their_model_is_at_hand(tmp_path: Path) -> None:
    plan, order = plan_of(data=[{**STUDY["data"][0], "conditions": ["rag"]}]), Order()
    with opened_folder(plan, tmp_path / "run") as run:
        assert list(run_plan(plan, run, order)) == []
    qwen, llada = ([("TraceTask", ref), ("AnswerTask", ref)] for ref in STUDY["models"])
    shuffled = [[("TraceTask", f"{ref}{SHUFFLED.format(seed)}") for seed in (0, 1)] for ref in STUDY["models"]]
    assert order.given == [*qwen, *shuffled[0], *llada, *shuffled[1]]


# -- run ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> fl.Run:
    return fl.run(STUDY, tmp_path_factory.mktemp("controls") / "run")


def test_traces_of_controls_are_those_of_the_shuffled_model(done: fl.Run) -> None:
    assert done.failed == []
    controls = [record for record in done.records if "shuffled" in record.model]
    assert {(record.what, record.model) for record in controls} == {
        ("trace", f"{ref}{SHUFFLED.format(seed)}") for ref in STUDY["models"] for seed in (0, 1)
    }
    assert "shuffled" not in " ".join(done.answers["model"])
    record = next(one for one in controls if one.model == "scale:llada, weights shuffled (seed 1)")
    found = fl.open_trace(done.path / str(record.file))
    assert found.model["control"] == {"of": "scale:llada", "kind": "shuffled_weights", "seed": 1}
    plain = next(one for one in done.traces() if one.model["ref"] == "scale:llada")
    assert found.data["sequence"].values[0].tolist() == plain.data["sequence"].values[0].tolist()
    example = next(iter(plan_of().data[0].data.examples()))
    again = fl.trace(fl.shuffled(fl.load("scale:llada"), 1), **example.to_trace(None), gen_length=4, steps=2)
    np.testing.assert_array_equal(found.data["received"].values, again.data["received"].values)
    assert not np.allclose(found.data["received"].values, plain.data["received"].values)


def test_more_seeds_can_be_added(tmp_path: Path) -> None:
    few = {**STUDY, "models": ["scale:llada"], "data": [{"ref": "scale:rag:documents=2", "conditions": []}]}
    few["output"] = {"figures": ["png"], "report": False}
    first = fl.run({**few, "controls": {"shuffled_weights": 0}}, tmp_path / "run")
    assert [record.model for record in first.records] == ["scale:llada"]
    more = fl.run({**few, "controls": {"shuffled_weights": 1}}, tmp_path / "run")
    assert [record.model for record in more.records] == ["scale:llada", "scale:llada, weights shuffled (seed 0)"]
    assert more.records[0] == first.records[0]
    fewer = fl.run({**few, "controls": {"shuffled_weights": 0}}, tmp_path / "run")
    assert fewer.records == more.records
    assert "scale:llada, weights shuffled (seed 0)" in fewer.manifest["models"]


def test_tables_have_controls_and_verdicts_have_not(done: fl.Run) -> None:
    models = {*STUDY["models"], *(f"{ref}{SHUFFLED.format(seed)}" for ref in STUDY["models"] for seed in (0, 1))}
    for name in ("drift", "absorption", "flow"):
        assert set(done.tables[name]["model"]) == models, name
    assert not done.claims["subject"].str.contains("shuffled").any()
    assert not done.claims.empty
    assert "shuffled" not in " ".join(map(str, done.tables["effects"]["model"]))


def test_the_report_shows_controls_beside_their_models_only(done: fl.Run) -> None:
    assert done.report is not None
    page = Parts(done.report.read_text(encoding="utf-8"))
    data = page.json("report")
    assert [model["ref"] for model in data["models"]] == STUDY["models"]
    assert data["settings"]["traces"] == 2
    assert data["settings"]["controls"] == 4
    assert {model for row in data["headline"] for model in row["values"]} == set(STUDY["models"])
    assert [model["ref"] for model in page.json("explorer")["models"]] == STUDY["models"]
    figures = {one["id"]: one for part in data["sections"] for one in part["figures"]}
    for name, expected in (("drift", 4), ("absorption", 4), ("gold_lift", 0)):
        panel = figures[name]["panels"][0]
        shown = [one["name"] for one in panel["series"] if one["role"] == "shuffled"]
        assert len(shown) == expected, name
        assert ("weights shuffled" in {one["name"] for one in figures[name]["legend"]}) == bool(expected)
    assert not any("shuffled" in name for name in figures)
    assert not any("shuffled" in path.name for path in (done.path / "figures").iterdir())


def test_controls_are_controls_of_the_model_with_the_same_settings(tmp_path: Path) -> None:
    """A report that sets one model under two settings apart renames what its controls are controls of."""
    for steps in (2, 4):
        few = {"models": ["scale:llada"], "data": [{"ref": "scale:rag:documents=2", "limit": 1}], "conditions": []}
        few |= {"decoding": {"settings": {"gen_length": 4, "steps": steps}}, "controls": {"shuffled_weights": 1}}
        few |= {"analyses": ["drift"], "output": {"figures": ["png"], "report": False}}
        fl.run(few, tmp_path / f"steps{steps}")
    runs = [tmp_path / "steps2", tmp_path / "steps4"]
    walked = [trace.model for trace in _walk(_traces(runs, by_run=False), lambda done, total: None)]
    assert [(model["ref"], model.get("control", {}).get("of")) for model in walked] == [
        (f"scale:llada{more} · steps {steps}", of and f"{of} · steps {steps}")
        for steps in (2, 4)
        for more, of in (("", None), (SHUFFLED.format(0), "scale:llada"))
    ]
    out = report_runs(runs, tmp_path / "r.html", examples=1).path
    data = Parts(out.read_text(encoding="utf-8")).json("report")
    names = [model["ref"] for model in data["models"]]
    assert names == ["scale:llada · steps 2", "scale:llada · steps 4"]
    assert {one["subject"] for one in data["claims"] if one["model"]} == set(names)


def test_a_folder_of_controls_alone_can_be_reported(tmp_path: Path) -> None:
    asked = {"question": "Where does Ann live?", "documents": ["Ann lives here.", "It rains."], "gold": 0}
    made = fl.trace(fl.shuffled(fl.load("scale:llada")), **asked, gen_length=2, steps=1)
    made.save(tmp_path / "traces" / "one")
    data = Parts(report_runs([tmp_path], tmp_path / "r.html").path.read_text(encoding="utf-8")).json("report")
    assert data["models"] == []
    assert data["settings"] == {"traces": 0, "answers": 0, "controls": 1}
    assert "1 of 1 traces" in repr(fl.explore(made))
