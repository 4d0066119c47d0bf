"""A run of questions: the same records in any order, batch and process, and nothing twice when it goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from floatlens.decoding.config import DecodingConfig
from floatlens.evaluation.config import AskConfig
from floatlens.models.config import ModelConfig
from floatlens.core.errors import FloatlensError
from floatlens.data import Data, Example, open_data
from floatlens.evaluation.answers import Answer, Asked
from floatlens.evaluation.metrics import score
from floatlens.models.facts import look
from floatlens.runs import AnswerRecord, RunFolder, asking
from floatlens.runs.asking import WHY, AskTask, Condition, Subject, count_items, manifest_of, run_items, subjects
from floatlens.runs.records import read_records
from floatlens.runs.workers import Workers, suggest

MODEL = ModelConfig(ref="scale:llada")
CONFIG = AskConfig(decoding=DecodingConfig(settings={"gen_length": 4}))


def closed(example: Example) -> Example:
    return example.model_copy(update={"documents": []})


CONDITIONS = [Condition("closed", closed), Condition("rag", lambda example: example)]


def answer(model: Any, questions: Sequence[Asked], config: AskConfig, room: object) -> list[Answer]:
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
        self.tasks: list[AskTask] = []
        self.stop_after = stop_after

    def run(self, tasks: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
        for task in tasks:
            if len(self.tasks) == self.stop_after:
                raise KeyboardInterrupt
            self.tasks.append(task)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(asking, "ask", answer)
                yield task, task.perform(SimpleNamespace(get=lambda model: None, room=None))


@pytest.fixture(scope="module")
def subject() -> Subject:
    (one,) = subjects([(MODEL, look(MODEL.ref))], CONFIG)
    return one


@pytest.fixture
def data(tmp_path: Path) -> Data:
    return write(tmp_path / "d.jsonl", 10)


def write(path: Path, count: int) -> Data:
    lines = (
        f'{{"id": "q{i}", "question": "{"x" * (i % 4)} who?", "answers": ["q{i}"], '
        f'"documents": [{{"text": "{"it " * (7 * i % 5 + 1)}", "is_gold": true}}]}}\n'
        for i in range(count)
    )
    path.write_text("".join(lines))
    return open_data(path)


def go(
    out: Path, who: Sequence[Subject], data: Data, workers: Workers, batch: int = 3, **more: Any
) -> list[AnswerRecord]:
    with RunFolder.open(out, AnswerRecord) as run:
        manifest, free = manifest_of("qa", who, [data], more, run.manifest)
        run.settle(manifest, free=free)
        return list(run_items(who, [data], lambda data, subject: CONDITIONS, run, workers, batch))


def bare(records: Iterable[AnswerRecord]) -> dict[str, AnswerRecord]:
    found = {record.item: record.model_copy(update={"seconds": None}) for record in records}
    return dict(sorted(found.items()))


def test_every_item_once_with_documents_and_without(tmp_path: Path, subject: Subject, data: Data) -> None:
    workers = Fake()
    records = go(tmp_path / "run", [subject], data, workers)
    assert len(records) == len({record.item for record in records}) == 20
    assert all(record.accuracy == 1.0 for record in records)
    shown = {(i.condition, len(i.asked.example.documents)) for task in workers.tasks for i in task.items}
    assert shown == {("closed", 0), ("rag", 1)}
    assert max(len(task.items) for task in workers.tasks) == 3
    written = read_records(tmp_path / "run" / "records.jsonl", AnswerRecord)
    assert bare(written) == bare(records)


def test_running_again_asks_what_is_missing(tmp_path: Path, subject: Subject, data: Data) -> None:
    out = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        go(out, [subject], data, Fake(stop_after=3))
    assert len(read_records(out / "records.jsonl", AnswerRecord)) == 9
    torn = (out / "records.jsonl").read_bytes()[:-25]  # a kill in the middle of a write
    (out / "records.jsonl").write_bytes(torn)
    assert len(go(out, [subject], data, Fake(), batch=5)) == 12
    assert go(out, [subject], data, Fake()) == []
    whole = go(tmp_path / "whole", [subject], data, Fake(), batch=7)
    assert bare(read_records(out / "records.jsonl", AnswerRecord)) == bare(whole)


@pytest.mark.parametrize("count", [6, 9])
def test_a_stress_run_keeps_its_number_of_questions(tmp_path: Path, subject: Subject, count: int) -> None:
    """Its distractors are drawn from all of them, so that with others one name would stand for two prompts."""
    write(tmp_path / "d.v2.jsonl", 9)
    with RunFolder.open(tmp_path / "run", AnswerRecord) as run:
        for limit in (8, 8, count):
            data = open_data(tmp_path / "d.v2.jsonl", limit=limit)
            manifest, free = manifest_of("stress", [subject], [data], {}, run.manifest)
            if limit == 8:
                run.settle(manifest, free=free)
                run.add(AnswerRecord(item="i", index=0, id="q0", status="done", model="m", data="d", condition="c"))
                continue
            with pytest.raises(FloatlensError) as caught:
                run.check(manifest, free=free, why=WHY)
    said = str(caught.value)
    assert f"made with data.d.v2.count = 8, now it is {count} (distractors are drawn from all questions" in said
    assert "another folder with --out" in said
    assert "\n" not in said


def test_failures_are_kept_and_tried_again(tmp_path: Path, subject: Subject) -> None:
    path = tmp_path / "d.jsonl"
    good = '{"id": "a", "question": "who?", "answers": ["a"], "documents": [{"text": "a"}]}\n'
    path.write_text(good + good.replace('"a"', '"b"', 1).replace("who", "bad"))
    records = go(tmp_path / "run", [subject], open_data(path), Fake())
    assert sorted(record.status for record in records) == ["done", "done", "failed", "failed"]
    again = go(tmp_path / "run", [subject], open_data(path), Fake())
    assert [(record.id, record.error) for record in again] == [("b", "it is bad")] * 2
    assert len(read_records(tmp_path / "run" / "records.jsonl", AnswerRecord)) == 4


def test_more_questions_and_other_data_join_a_run(tmp_path: Path, subject: Subject, data: Data) -> None:
    go(tmp_path / "run", [subject], open_data(data.ref, limit=4), Fake())
    assert len(go(tmp_path / "run", [subject], data, Fake())) == 12
    assert go(tmp_path / "run", [subject], open_data(data.ref, limit=4), Fake()) == []  # fewer takes nothing back
    other = write(tmp_path / "e.jsonl", 2)
    assert len(go(tmp_path / "run", [subject], other, Fake())) == 4
    with RunFolder.open(tmp_path / "run", AnswerRecord) as run:
        assert run.manifest is not None
        assert {name: one["count"] for name, one in run.manifest["data"].items()} == {"d": 10, "e": 2}


def test_what_has_the_same_name_must_be_the_same(tmp_path: Path, subject: Subject, data: Data) -> None:
    go(tmp_path / "run", [subject], data, Fake())
    with pytest.raises(FloatlensError, match=r"data\.d\.sha256"):
        go(tmp_path / "run", [subject], write(tmp_path / "d.jsonl", 9), Fake())
    data = write(tmp_path / "d.jsonl", 10)
    longer = CONFIG.model_copy(update={"decoding": DecodingConfig(settings={"gen_length": 5})})
    with pytest.raises(FloatlensError, match="gen_length = 4, now it is 5"):
        go(tmp_path / "run", subjects([(MODEL, look(MODEL.ref))], longer), data, Fake())
    with pytest.raises(FloatlensError, match="corpus = not set"):
        go(tmp_path / "run", [subject], data, Fake(), corpus="c")


@pytest.mark.slow
def test_processes_give_the_same_records(tmp_path: Path, subject: Subject) -> None:
    data = open_data("scale:rag:documents=2", limit=6)
    one = go(tmp_path / "one", [subject], data, Workers(1), batch=4)
    two = go(tmp_path / "two", [subject], data, Workers(2), batch=5)
    assert bare(one) == bare(two)
    assert len(one) == 12


def test_a_condition_may_be_for_some_models_and_questions(tmp_path: Path, subject: Subject, data: Data) -> None:
    def conditions(data: Data, subject: Subject) -> list[Condition]:
        few = Condition("few", closed, lambda example: example.id in ("q1", "q2"))
        return [few, Condition("arms", closed, kind="arm"), Condition("mdms", closed, kind="mdm")]

    with RunFolder.open(tmp_path / "run", AnswerRecord) as run:
        assert count_items([subject], [data], conditions, run) == (12, 0)
        made = list(run_items([subject], [data], conditions, run, Fake(), 4))
        assert {record.condition for record in made} == {"few", "mdms"}
        assert count_items([subject], [data], conditions, run) == (12, 12)


Models = Callable[..., list[Subject]]


@pytest.fixture
def both() -> Models:
    """An autoregressive and a masked diffusion model, by their facts."""
    arm = replace(look(MODEL.ref), ref="arm", kind="arm", family="causal")
    mdm = replace(arm, ref="mdm", kind="mdm", family="llada")

    def make(sampler: str | None = None, **settings: Any) -> list[Subject]:
        config = AskConfig(decoding=DecodingConfig(sampler=sampler, settings=settings))
        return subjects([(ModelConfig(ref="arm"), arm), (ModelConfig(ref="mdm"), mdm)], config)

    return make


def test_settings_go_to_the_samplers_that_have_them(both: Models) -> None:
    arm, mdm = both(gen_length=8, steps=4)
    assert (arm.config.decoding.sampler, mdm.config.decoding.sampler) == ("ar", "llada")
    assert mdm.config.decoding.settings["steps"] == 4
    assert "steps" not in arm.config.decoding.settings
    assert arm.config.decoding.settings["gen_length"] == 8
    arm, mdm = both("threshold")
    assert (arm.config.decoding.sampler, mdm.config.decoding.sampler) == ("ar", "threshold")


@pytest.mark.parametrize(
    ("sampler", "settings", "message"),
    [
        (None, {"stpes": 4}, 'no setting "stpes"'),
        ("treshold", {}, 'unknown sampler "treshold"; did you mean "threshold"'),
    ],
)
def test_what_fits_no_model_is_refused(both: Models, sampler: str | None, settings: Any, message: str) -> None:
    with pytest.raises(FloatlensError, match=message):
        both(sampler, **settings)


def test_a_sampler_that_fits_none_of_the_models_is_refused() -> None:
    with pytest.raises(FloatlensError, match='the sampler "ar" is for autoregressive models'):
        subjects([(MODEL, look(MODEL.ref))], AskConfig(decoding=DecodingConfig(sampler="ar")))
    with pytest.raises(FloatlensError, match="scale:llada is given twice"):
        subjects([(MODEL, look(MODEL.ref))] * 2, CONFIG)


def test_processes_are_suggested_for_small_models_with_enough_to_ask() -> None:
    assert suggest([MODEL], 10_000, threads=2) == 2
    assert suggest([MODEL], 10, threads=2) == 1
    assert suggest([MODEL, ModelConfig(ref="org/large")], 10_000, threads=2) == 1
    assert suggest([ModelConfig(ref="scale:llada", device="cuda")], 10_000, threads=2) == 1
    with pytest.raises(FloatlensError, match="--workers 0: expected at least 1"):
        Workers(0)
