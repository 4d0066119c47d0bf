"""Activation patching in a study: what is planned, what a worker gives back, and how a run is continued."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import floatlens as fl
from floatlens.core.errors import FloatlensError
from floatlens.data import open_data
from floatlens.evaluation.patching import patch_pair
from floatlens.prompts import build
from floatlens.records import Patched, read_records
from floatlens.records.store import write_records
from floatlens.runs.counts import count, forecast
from floatlens.runs.items import all_items
from floatlens.runs.plan import Plan, make_plan
from floatlens.runs.study_file import read_study
from floatlens.runs.tasks import PatchTask
from floatlens.runs.workers import Holder
from shared.small import assert_same

DATA = "scale:rag:documents=2:seed=3"
STUDY: dict[str, Any] = {
    "models": ["scale:llada"],
    "data": [{"ref": DATA, "limit": 6}],
    "conditions": [],
    "decoding": {"settings": {"gen_length": 4, "steps": 2}},
    "traces": {"questions": 0},
    "patching": {"questions": 3, "draws": 2},
    "seeds": {"controls": 5},
    "output": {"figures": ["png"], "report": False},
}


def plan_of(**more: Any) -> tuple[Plan, list[str]]:
    said: list[str] = []
    return make_plan(read_study(STUDY | more), said.append), said


@pytest.fixture(scope="module")
def task() -> PatchTask:
    plan, _ = plan_of()
    first = next(plan.patch_tasks(plan.models[0], lambda item: False))
    return pickle.loads(pickle.dumps(first))  # noqa: S301  (as a worker gets it)


def test_items_are_the_questions_with_a_counterfactual() -> None:
    plan, said = plan_of()
    examples = [one.id for one in open_data(DATA, limit=6).examples()]
    chosen = plan.data[0].counterfactuals["scale:llada"]
    items = list(all_items(plan.models[0], plan.data[0]))
    assert [one.example.id for one in items] == [id for id in examples[:3] if id in chosen]
    assert {one.what for one in items} == {"patch"}
    assert {one.condition for one in items} == {Patched(what=("kv", "residual"), draws=2, seed=5)}
    assert bool(said) == (len(chosen) < 3)
    counts = count(plan)
    assert counts.total == len(items) > 0
    assert counts.rows[0].patched == items[0].condition
    seconds = forecast(plan, counts, (), 1, 1).seconds
    assert seconds is not None
    assert seconds > 0


def test_default_is_off_and_a_data_set_may_differ() -> None:
    plan, _ = plan_of(patching={}, conditions=["rag"])
    assert {one.what for one in all_items(plan.models[0], plan.data[0])} == {"answer"}
    plan, _ = plan_of(data=[{"ref": DATA, "limit": 6, "patching": 0, "conditions": ["rag"]}])
    assert {one.what for one in all_items(plan.models[0], plan.data[0])} == {"answer"}
    plan, _ = plan_of(patching={}, data=[{"ref": DATA, "limit": 6, "patching": "all"}])
    assert plan.data[0].patched == 6


def test_controls_are_not_patched() -> None:
    plan, _ = plan_of(traces={"questions": 1}, controls={"shuffled_weights": 1})
    (control,) = plan.controls_of(plan.subjects[0])
    assert {one.what for one in all_items(control, plan.data[0])} == {"trace"}


def test_draws_are_those_of_other_controls_unless_given() -> None:
    plan, _ = plan_of(patching={"questions": 3}, control_draws=4)
    condition = plan.data[0].patch.condition if plan.data[0].patch else None
    assert condition == Patched(draws=4, seed=5)


def test_questions_without_a_counterfactual_are_counted(tmp_path: Path) -> None:
    """The second question's documents do not state its answer."""
    file = tmp_path / "asked.jsonl"
    lines = [("Ada", "flute", "Ada plays the flute."), ("Otto", "harp", "It rained."), ("Ben", "piano", "Ben: piano.")]
    questions = (
        {"id": id, "question": f"What does {id} play?", "answers": [answer], "documents": [{"text": text}]}
        for id, answer, text in lines
    )
    file.write_text("".join(json.dumps(one) + "\n" for one in questions))
    plan, said = plan_of(data=[str(file)])
    assert plan.data[0].counterfactuals == {"scale:llada": {"Ada": "harp", "Ben": "flute"}}
    (text,) = [one for one in said if one.startswith("patching")]
    assert text == (
        "patching: 1 of 3 questions of asked skipped: no counterfactual prompt of the same length "
        "(question Otto: no document states its answer)"
    )
    assert text in plan.notes


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"data": [{"ref": DATA, "limit": 1}]}, "no question has a counterfactual prompt of the same length"),
        ({"data": ["scale:closed-known"]}, "documents"),
        ({"patching": {}}, "no conditions and no traces; give some, or patching.questions"),
        ({"patching": {"questions": -1}}, "patching.questions=-1"),
        ({"patching": {"k": 0}}, "patching.k wants at least 1"),
        ({"patching": {"what": ["keys"]}}, 'patching.what[0] wants "kv" or "residual"'),
        ({"patching": {"what": []}}, "an empty list"),
        ({"patching": {"what": ["kv", "kv"]}}, "given twice"),
        ({"patching": {"rows": "al"}}, "patching.rows"),
        ({"patching": {"question": 3}}, 'did you mean "questions"'),
    ],
)
def test_mistakes_are_refused_in_a_line(more: dict[str, Any], message: str) -> None:
    with pytest.raises(FloatlensError) as caught:
        plan_of(**more)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_record_holds_what_was_measured(task: PatchTask) -> None:
    holder = Holder()
    (record,) = task.perform(holder)
    found, how = record.patched, record.condition
    assert (record.status, record.what) == ("done", "patch")
    assert found is not None
    assert isinstance(how, Patched)
    assert found.answer == task.answer
    model = fl.load("scale:llada")
    example = task.question.asked.example
    own, other = example.answers[0], task.answer
    changed = [one.model_copy(update={"text": one.text.replace(own, other)}) for one in example.documents]
    one, two = (
        list(build(model.tokenizer, question=example.question, documents=documents).ids)
        for documents in (example.documents, changed)
    )
    measured = patch_pair(model, (one, two), how, record.index, gen_length=4, steps=2)
    assert found.tokens == measured.tokens
    assert found.original == pytest.approx(measured.original, abs=1e-4)
    assert found.effect is not None
    for what in how.what:
        both = [found.effect[what]["anchors"], found.effect[what]["control"]]
        np.testing.assert_allclose(both, measured.effect(what), atol=1e-4)


def test_a_failure_is_on_record(task: PatchTask) -> None:
    condition = task.question.condition.model_copy(update={"k": 10_000})
    (record,) = replace(task, question=replace(task.question, condition=condition)).perform(Holder())
    assert record.status == "failed"
    assert "k=10000" in (record.error or "")


@pytest.mark.slow
@pytest.mark.ci
def test_a_run_is_continued_and_workers_agree(tmp_path: Path) -> None:
    study = STUDY | {"data": [{"ref": DATA, "limit": 12}], "patching": {"questions": 6}}
    whole = fl.run(study, tmp_path / "whole", progress=False)
    records = read_records(whole.path)
    assert len(records) >= 3
    fl.run(study, tmp_path / "halves", progress=False)
    write_records(tmp_path / "halves", records[:1])
    asked: list[str] = []
    fl.run(study, tmp_path / "halves", progress=False, workers=2, each=lambda record: asked.append(record.item))
    assert sorted(asked) == sorted(one.item for one in records[1:])
    assert_same(tmp_path / "whole", tmp_path / "halves")
    with pytest.raises(FloatlensError, match=r"patching\.k = 1, now it is 2"):
        fl.run(study | {"patching": {"questions": 6, "k": 2}}, tmp_path / "whole", progress=False)
