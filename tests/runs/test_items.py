"""Answers of a plan: the same records in any order, batch and process, and nothing twice when it goes on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import floatlens as fl
from floatlens.core.errors import FloatlensError
from floatlens.data import Example
from floatlens.evaluation.answers import Answer, Asked
from floatlens.evaluation.metrics import score
from floatlens.models.config import ModelConfig
from floatlens.records import Record, read_records
from floatlens.runs import tasks
from floatlens.runs.counts import count
from floatlens.runs.engine import run_plan
from floatlens.runs.plan import make_plan
from floatlens.runs.presets import intervene_study, qa_study, stress_study, trace_study
from floatlens.runs.run import opened_folder
from floatlens.runs.study import Study
from floatlens.runs.study_file import read_study
from floatlens.runs.tasks import AnswerTask
from floatlens.runs.workers import Workers, suggest

MODEL = "scale:llada"


def answer(model: Any, questions: Sequence[Asked], config: Any, budget: object) -> list[Answer]:
    """Every question is answered with its id."""
    return [_answer(asked.example) for asked in questions]


def _answer(example: Example) -> Answer:
    if "bad" in example.question:
        return Answer("failed", error="it is bad")
    return Answer("done", example.id, score(example.id, example.answers), "0" * 16, 5, 0)


class Fake(Workers):
    """Works without a model, and remembers what it was given."""

    def __init__(self, stop_after: int | None = None) -> None:
        super().__init__(1)
        self.tasks: list[AnswerTask] = []
        self.stop_after = stop_after

    def run(self, given: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
        for task in given:
            if len(self.tasks) == self.stop_after:
                raise KeyboardInterrupt
            self.tasks.append(task)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(tasks, "ask", answer)
                yield task, task.perform(SimpleNamespace(get=lambda model: None, budget=None))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write(tmp_path / "d.jsonl", 10)


def write(path: Path, count: int) -> Path:
    lines = (
        f'{{"id": "q{i}", "question": "{"x" * (i % 4)} who?", "answers": ["q{i}"], '
        f'"documents": [{{"text": "{"it " * (7 * i % 5 + 1)}", "is_gold": true}}]}}\n'
        for i in range(count)
    )
    path.write_text("".join(lines))
    return path


def qa(data: Path, batch: int = 3, **more: Any) -> Study:
    return qa_study([MODEL], [str(data)], batch=batch, **({"settings": {"gen_length": 4}} | more))


def go(out: Path, study: Study, workers: Workers) -> list[Record]:
    plan = make_plan(read_study(study))
    with opened_folder(plan, out) as run:
        return list(run_plan(plan, run, workers))


def bare(records: Iterable[Record]) -> dict[str, Record]:
    found = {record.item: record.model_copy(update={"seconds": None}) for record in records}
    return dict(sorted(found.items()))


def test_every_item_once_with_documents_and_without(tmp_path: Path, data: Path) -> None:
    workers = Fake()
    records = go(tmp_path / "run", qa(data), workers)
    assert len(records) == len({record.item for record in records}) == 20
    assert all(record.accuracy == 1.0 for record in records)
    shown = {(i.condition.label, len(i.asked.example.documents)) for task in workers.tasks for i in task.questions}
    assert shown == {("closed", 0), ("rag", 1)}
    assert max(len(task.questions) for task in workers.tasks) == 3
    assert bare(read_records(tmp_path / "run")) == bare(records)


def test_running_again_asks_what_is_missing(tmp_path: Path, data: Path) -> None:
    out = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        go(out, qa(data), Fake(stop_after=3))
    assert len(read_records(out)) == 9
    torn = (out / "records.jsonl").read_bytes()[:-25]  # a kill in the middle of a write
    (out / "records.jsonl").write_bytes(torn)
    assert len(go(out, qa(data, batch=5), Fake())) == 12
    assert go(out, qa(data), Fake()) == []
    whole = go(tmp_path / "whole", qa(data, batch=7), Fake())
    assert bare(read_records(out)) == bare(whole)


@pytest.mark.parametrize("limit", [6, 9])
def test_a_run_with_distractors_keeps_its_number_of_questions(tmp_path: Path, limit: int) -> None:
    """Distractors are drawn from all questions, so with others one item would be two prompts."""
    path = write(tmp_path / "d.v2.jsonl", 9)

    def stress(limit: int) -> Study:
        return stress_study([MODEL], [str(path)], tests=["order"], stress={"documents": 2}, limit=limit)

    go(tmp_path / "run", stress(8), Fake())
    assert go(tmp_path / "run", stress(8), Fake()) == []
    with pytest.raises(FloatlensError) as caught:
        go(tmp_path / "run", stress(limit), Fake())
    said = str(caught.value)
    assert f"made with data.d.v2.pool = 8, now it is {limit} (distractors are drawn from all questions" in said
    assert "another folder (--out)" in said
    assert "\n" not in said


def test_failures_are_kept_and_tried_again(tmp_path: Path) -> None:
    path = tmp_path / "d.jsonl"
    good = '{"id": "a", "question": "who?", "answers": ["a"], "documents": [{"text": "a"}]}\n'
    path.write_text(good + good.replace('"a"', '"b"', 1).replace("who", "bad"))
    records = go(tmp_path / "run", qa(path), Fake())
    assert sorted(record.status for record in records) == ["done", "done", "failed", "failed"]
    again = go(tmp_path / "run", qa(path), Fake())
    assert [(record.id, record.error) for record in again] == [("b", "it is bad")] * 2
    assert len(read_records(tmp_path / "run")) == 4


def test_more_questions_data_and_conditions_join_a_run(tmp_path: Path, data: Path) -> None:
    out = tmp_path / "run"
    go(out, qa(data, limit=4, modes=["rag"]), Fake())
    assert len(go(out, qa(data, modes=["rag"]), Fake())) == 6
    assert go(out, qa(data, limit=4, modes=["rag"]), Fake()) == []  # fewer takes nothing back
    assert len(go(out, qa(data), Fake())) == 10  # closed book
    assert len(go(out, qa(write(tmp_path / "e.jsonl", 2)), Fake())) == 4
    manifest = fl.open_run(out).manifest
    assert {name: one["count"] for name, one in manifest["data"].items()} == {"d": 10, "e": 2}


def test_what_has_the_same_name_must_be_the_same(tmp_path: Path, data: Path) -> None:
    go(tmp_path / "run", qa(data), Fake())
    with pytest.raises(FloatlensError, match=r"data\.d\.sha256"):
        go(tmp_path / "run", qa(write(tmp_path / "d.jsonl", 9)), Fake())
    write(tmp_path / "d.jsonl", 10)
    with pytest.raises(FloatlensError, match="gen_length = 4, now it is 5"):
        go(tmp_path / "run", qa(data, settings={"gen_length": 5}), Fake())
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text('{"id": "1", "text": "It rained."}\n')
    with pytest.raises(FloatlensError, match='made with documents = "data"'):
        go(tmp_path / "run", qa(data, corpus=corpus), Fake())


def test_a_condition_may_be_for_some_models_and_questions(tmp_path: Path, data: Path) -> None:
    study = stress_study([MODEL, "scale:qwen"], [str(data)], tests=["masks"], stress={"masks": {"counts": [1, 2]}})
    made = go(tmp_path / "run", study, Fake())
    assert {(record.model, record.condition.kind) for record in made} == {(MODEL, "stress")}
    assert len(made) == 2 * 2 * 10


def test_every_preset_is_planned(tmp_path: Path, data: Path) -> None:
    studies = [
        qa_study([MODEL], [str(data)]),
        stress_study([MODEL], [str(data)], tests=["masks"]),
        intervene_study([MODEL], [str(data)], edits=["drop_anchors:k=1,5"]),
        trace_study([MODEL], [str(data)], limit=3),
        trace_study([MODEL], ["scale:rag"], limit=2),
    ]
    assert [count(make_plan(read_study(study))).total for study in studies] == [20, 120, 70, 3, 2]


@pytest.mark.slow
def test_processes_give_the_same_records(tmp_path: Path) -> None:
    study = qa_study([MODEL], ["scale:rag:documents=2"], limit=6, settings={"gen_length": 4}, batch=4)
    one = go(tmp_path / "one", study, Workers(1))
    two = go(tmp_path / "two", study, Workers(2))
    assert bare(one) == bare(two)
    assert len(one) == 12


def test_processes_are_suggested_for_small_models_with_enough_to_ask() -> None:
    model = ModelConfig(ref=MODEL)
    assert suggest([model], 10_000, threads=2) == 2
    assert suggest([model], 10, threads=2) == 1
    assert suggest([model, ModelConfig(ref="org/large")], 10_000, threads=2) == 1
    assert suggest([ModelConfig(ref=MODEL, device="cuda")], 10_000, threads=2) == 1
    with pytest.raises(FloatlensError, match="--workers 0: expected at least 1"):
        Workers(0)
