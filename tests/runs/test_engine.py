"""Running a plan: every item once, files before records, and nothing lost or doubled however it stops."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import xarray as xr

from floatlens.core.errors import FloatlensError
from floatlens.evaluation import answers
from floatlens.evaluation.answers import Answer
from floatlens.records import Record, read_records
from floatlens.runs import engine, folder, tasks
from floatlens.runs.engine import Stop, run_plan
from floatlens.runs.folder import RunFolder
from floatlens.runs.plan import Plan, make_plan
from floatlens.runs.run import opened_folder
from floatlens.runs.study_file import read_study
from floatlens.runs.tasks import AnswerTask, RefusedTask, Traced, TraceTask
from floatlens.runs.workers import Workers

STUDY: dict[str, Any] = {
    "models": ["scale:llada", "scale:qwen"],
    "data": [{"ref": "scale:rag:documents=2", "limit": 5, "conditions": ["closed", "rag", "drop_anchors"]}],
    "traces": {"questions": 2},
    "machine": {"batch": 4},
}
ITEMS = 2 * (5 * (2 + 3) + 2)
"""Of each model: 5 questions closed, rag, edited and under two random controls, and 2 traces."""


class Fake(Workers):
    """Does every task without a model; stops, or is asked to stop, at a task of a number."""

    def __init__(self, *, fail: int | None = None, interrupt: int | None = None) -> None:
        super().__init__(1)
        self.fail, self.interrupt, self.given = fail, interrupt, 0

    def run(self, tasks: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
        for task in tasks:
            self.given += 1
            if self.given == self.fail:
                raise KeyboardInterrupt
            if self.given == self.interrupt:
                signal.raise_signal(signal.SIGINT)
            yield task, _done(task)


def _done(task: AnswerTask | TraceTask) -> Any:
    if isinstance(task, TraceTask):
        return Traced(task._record("done", file=task.file), f"trace of {task.question.id}".encode())
    return [task._record(one, Answer("done", one.asked.example.id)) for one in task.questions]


@pytest.fixture(scope="module")
def plan() -> Plan:
    return make_plan(read_study(STUDY))


def go(plan: Plan, out: Path, workers: Workers, stop: Stop | None = None) -> list[Record]:
    with opened_folder(plan, out) as run:
        return list(run_plan(plan, run, workers, stop))


def on_disk(out: Path) -> dict[str, Record]:
    found = read_records(out)
    assert len(found) == len({record.item for record in found})
    return {record.item: record for record in found}


def files(out: Path) -> set[str]:
    return {path.relative_to(out).as_posix() for path in (out / "traces").rglob("*") if path.is_file()}


def test_every_item_once_and_files_where_records_say(plan: Plan, tmp_path: Path) -> None:
    found = go(plan, tmp_path, Fake())
    assert len(found) == ITEMS
    assert on_disk(tmp_path) == {record.item: record for record in found}
    traced = [record for record in found if record.what == "trace"]
    assert files(tmp_path) == {record.file for record in traced}
    assert (tmp_path / str(traced[0].file)).read_text() == f"trace of {traced[0].item}"
    assert go(plan, tmp_path, Fake()) == []


@pytest.mark.parametrize("moment", range(1, 12))
def test_stopped_anywhere_and_continued_it_is_the_same(plan: Plan, tmp_path: Path, moment: int) -> None:
    with pytest.raises(KeyboardInterrupt):
        go(plan, tmp_path / "torn", Fake(fail=moment))
    lines = tmp_path / "torn" / "records.jsonl"
    if lines.is_file() and moment % 2:
        lines.write_bytes(lines.read_bytes()[:-9])  # a kill in the middle of a write
    go(plan, tmp_path / "torn", Fake())
    go(plan, tmp_path / "whole", Fake())
    assert on_disk(tmp_path / "torn") == on_disk(tmp_path / "whole")
    assert files(tmp_path / "torn") == files(tmp_path / "whole")


def test_a_trace_that_is_gone_is_made_again(plan: Plan, tmp_path: Path) -> None:
    go(plan, tmp_path, Fake())
    gone = sorted(files(tmp_path))[0]
    (tmp_path / gone).unlink()
    assert [record.file for record in go(plan, tmp_path, Fake())] == [gone]
    assert len(on_disk(tmp_path)) == ITEMS


def test_ctrl_c_finishes_what_is_under_way(plan: Plan, tmp_path: Path) -> None:
    said: list[str] = []
    before = signal.getsignal(signal.SIGINT)
    with Stop(lambda: said.append("stopping")).listening() as stop:
        found = go(plan, tmp_path, Fake(interrupt=2), stop)
    assert (len(found), said, stop.asked) == (2, ["stopping"], True)
    assert len(on_disk(tmp_path)) == 2
    assert signal.getsignal(signal.SIGINT) is before


def test_after_ctrl_c_no_task_is_even_made() -> None:
    """Choosing heads from half of the traces would be wasted work, or fail."""
    made: list[int] = []

    def tasks() -> Iterator[int]:
        for number in range(3):
            made.append(number)
            yield number

    stop = Stop()
    for _ in stop.until(tasks()):
        stop.times = 1
    assert made == [0]
    assert list(stop.until(tasks())) == []
    assert made == [0]


class Untraced(Fake):
    """Fails every trace of the first model, and none of the second."""

    def run(self, tasks: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
        for task in tasks:
            if isinstance(task, TraceTask) and task.model.ref == "scale:llada":
                yield task, task.failed("no")
            elif isinstance(task, RefusedTask):
                yield task, task.perform(None)  # type: ignore[arg-type]
            else:
                yield task, _done(task)


def test_heads_that_cannot_be_chosen_fail_their_items_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a model without traces, or with fewer scores than heads asked for; the rest is asked."""
    data = [{"ref": "scale:rag:documents=2", "limit": 5, "conditions": ["rag", "ablate_heads:top=1,2"]}]
    plan = make_plan(read_study({**STUDY, "data": data}))
    labels = {"layer": [0, 1], "head": [0, 1]}
    copied = xr.DataArray([[np.nan, 0.5], [np.nan, np.nan]], dims=("layer", "head"), coords=labels)
    scores = {"scale:qwen": copied}
    monkeypatch.setattr(engine, "_own_scores", lambda plan, run: scores)
    found = go(plan, tmp_path, Untraced())
    failed = [one for one in found if one.status == "failed" and one.what == "answer"]
    assert {(one.model, one.condition.label) for one in failed} == {
        ("scale:llada", f"ablate_heads top={top}{control}") for top in (1, 2) for control in ("", " (count control)")
    } | {("scale:qwen", f"ablate_heads top=2{control}") for control in ("", " (count control)")}
    assert len(failed) == 6 * 5
    errors = {one.error for one in failed}
    assert any(
        str(error).startswith("ablate_heads top=1: no trace of scale:llada, so its retrieval") for error in errors
    )
    assert any(str(error).startswith("ablate_heads top=2: 1 heads of scale:qwen have a copy score") for error in errors)
    assert len(on_disk(tmp_path)) == 2 * (5 * 5 + 2)


def test_a_second_ctrl_c_waits_for_the_disk_only(plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = engine._write

    def twice(*args: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        return write(*args)

    monkeypatch.setattr(engine, "_write", twice)
    with pytest.raises(KeyboardInterrupt), Stop().listening() as stop:
        go(plan, tmp_path, Fake(), stop)
    assert len(on_disk(tmp_path)) == 1


def test_ctrl_c_while_a_trace_is_written_leaves_it_whole(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = folder.write_atomically

    def interrupted(path: Path, content: bytes) -> None:
        if path.suffix == ".zip":
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
        write(path, content)

    with monkeypatch.context() as patch:
        patch.setattr(folder, "write_atomically", interrupted)
        with pytest.raises(KeyboardInterrupt), Stop().listening() as stop:
            go(plan, tmp_path, Fake(), stop)
    (only,) = on_disk(tmp_path).values()
    assert files(tmp_path) == {only.file}
    assert (tmp_path / str(only.file)).read_text() == f"trace of {only.item}"
    assert len(go(plan, tmp_path, Fake())) == ITEMS - 1


@pytest.mark.parametrize("fits", [True, False], ids=["halved", "never"])
def test_memory_that_runs_out_is_a_warning_or_one_failed_item(
    fits: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Answers are decoded in smaller batches, traces made in smaller blocks; what never fits fails on record."""
    real_decode, real_trace = answers.decode, tasks.trace

    def decode(model: Any, ids: Any, **how: Any) -> Any:
        if len(ids) > (2 if fits else 0):
            raise torch.OutOfMemoryError
        return real_decode(model, ids, **how)

    def trace(*args: Any, workspace: Any, **how: Any) -> Any:
        if workspace.block_bytes > (4 << 20 if fits else 0):
            raise torch.OutOfMemoryError
        return real_trace(*args, workspace=workspace, **how)

    monkeypatch.setattr(answers, "decode", decode)
    monkeypatch.setattr(tasks, "trace", trace)
    data = {"ref": "scale:rag:documents=2", "limit": 4, "conditions": ["rag"]}
    small = {"models": ["scale:llama"], "data": [data], "traces": {"questions": 1}}
    plan = make_plan(read_study({**small, "decoding": {"settings": {"gen_length": 2}}}))
    found = go(plan, tmp_path, Workers(1))
    assert len(on_disk(tmp_path)) == len(found) == 5
    (traced,) = (one for one in found if one.what == "trace")
    answered = [one for one in found if one.what == "answer"]
    if fits:
        assert {one.status for one in found} == {"done"}
        assert traced.warnings == ("out of memory with blocks of 8192 KiB; from now on 4096 KiB",)
        assert files(tmp_path) == {traced.file}
        told = ("out of memory with 4 questions at once; from now on 2 at a time",)
        assert [one.warnings for one in answered] == [told] * 4
    else:
        assert {one.status for one in found} == {"failed"}
        assert all(str(one.error).startswith("out of memory on cpu") for one in found)
        assert files(tmp_path) == set()
        assert len(go(plan, tmp_path, Workers(1))) == 5  # tried again


def test_a_full_disk_loses_nothing_that_is_on_record(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = Record.line

    def full(record: Record) -> bytes:
        if (tmp_path / "records.jsonl").read_bytes().count(b"\n") >= 6:
            with (tmp_path / "records.jsonl").open("ab") as file:
                file.write(line(record)[:30])  # what fitted
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return line(record)

    with monkeypatch.context() as patch:
        patch.setattr(Record, "line", full)
        with pytest.raises(OSError, match="No space left"):
            go(plan, tmp_path, Fake())
    assert len(go(plan, tmp_path, Fake())) == ITEMS - 6
    assert len(on_disk(tmp_path)) == ITEMS


def test_another_study_is_refused_by_its_first_difference(plan: Plan, tmp_path: Path) -> None:
    go(plan, tmp_path, Fake())
    other = make_plan(read_study({**STUDY, "seeds": {"controls": 1}}))
    with pytest.raises(FloatlensError, match=r"made with controls = \[0\], now it is \[1\]"):
        go(other, tmp_path, Fake())
    free = {"machine": {"batch": 2, "workers": 3}, "output": {"report": False}, "about": "words", "analyses": ["drift"]}
    assert go(make_plan(read_study({**STUDY, **free})), tmp_path, Fake()) == []
    with RunFolder.open(tmp_path) as held:
        manifest = held.manifest
    assert manifest is not None
    assert manifest["study"]["about"] == "words"
    assert {"versions", "machine", "git", "models", "data", "stress"} < set(manifest)


def test_other_weights_under_the_same_name_are_refused(plan: Plan, tmp_path: Path) -> None:
    go(plan, tmp_path, Fake())
    first = plan.models[0]
    assert len(first.facts.weights or "") == 64
    other = replace(first, facts=replace(first.facts, weights="ab" * 32))
    with pytest.raises(FloatlensError, match=r"made with models\.scale:llada\.weights = .*, now it is \"abab"):
        go(replace(plan, models=(other, *plan.models[1:])), tmp_path, Fake())


def test_two_processes_are_kept_apart(plan: Plan, tmp_path: Path) -> None:
    with opened_folder(plan, tmp_path), pytest.raises(FloatlensError, match="another floatlens is writing"):
        go(plan, tmp_path, Fake())
