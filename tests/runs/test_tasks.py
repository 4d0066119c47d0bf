"""A trace as a task: blocks that shrink until they fit, what its record says, and a file that is whole or absent."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from floatlens.attention.memory_budget import MIN_BLOCK_BYTES, MemoryBudget, out_of_memory
from floatlens.core.errors import FloatlensError
from floatlens.runs import tasks
from floatlens.runs.folder import RunFolder
from floatlens.runs.plan import make_plan
from floatlens.runs.study_file import read_study
from floatlens.runs.tasks import TraceBatch, Traced, TraceTask
from floatlens.runs.workers import Holder
from floatlens.traces import open_trace

STUDY: dict[str, Any] = {
    "models": ["scale:llada"],
    "data": [{"ref": "scale:rag:documents=2", "limit": 1}],
    "decoding": {"settings": {"gen_length": 4, "steps": 2}},
    "traces": {"questions": 1, "probes": ["received"]},
}


@pytest.fixture(scope="module")
def holder() -> Holder:
    return Holder()


@pytest.fixture(scope="module")
def task() -> TraceTask:
    plan = make_plan(read_study(STUDY))
    (one,) = plan.trace_tasks(plan.models[0], lambda item: False)
    return pickle.loads(pickle.dumps(one))  # noqa: S301  (as a worker gets it)


def place(made: Traced, folder: Path) -> None:
    assert made.record.file is not None
    assert made.content is not None
    with RunFolder.open(folder) as run:
        run.add([made.record], {made.record.file: made.content})


def test_bytes_become_the_file_that_the_record_names(task: TraceTask, holder: Holder, tmp_path: Path) -> None:
    made = task.perform(holder)
    place(made, tmp_path)
    assert made.record.file is not None
    found = open_trace(tmp_path / made.record.file)
    assert (found.answer, found.data.sizes["step"]) == (made.record.answer, made.record.steps)
    assert (made.record.what, made.record.status, made.record.warnings) == ("trace", "done", ())
    assert found.data_set == made.record.data == "scale:rag:documents=2"
    assert [path.suffix for path in (tmp_path / "traces").rglob("*") if path.is_file()] == [".zip"]


def test_blocks_are_halved_until_they_fit(
    task: TraceTask, holder: Holder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = task.perform(holder)
    real, tried = tasks.trace, list[int]()

    def small(model: Any, *, workspace: Any, **more: Any) -> Any:
        tried.append(workspace.block_bytes)
        if workspace.block_bytes > 2 << 20:
            raise torch.OutOfMemoryError
        return real(model, workspace=workspace, **more)

    monkeypatch.setattr(tasks, "trace", small)
    monkeypatch.setattr(holder, "budget", MemoryBudget())
    made = task.perform(holder)
    assert tried == [8 << 20, 4 << 20, 2 << 20]
    assert made.record.warnings == (
        "out of memory with blocks of 8192 KiB; from now on 4096 KiB",
        "out of memory with blocks of 4096 KiB; from now on 2048 KiB",
    )
    assert task.perform(holder).record.warnings == ()  # it has learnt
    for name, one in (("plain", plain), ("small", made)):
        place(one, tmp_path / name)
    a, b = (open_trace(tmp_path / name / task.file) for name in ("plain", "small"))
    np.testing.assert_allclose(a.data["received"].values, b.data["received"].values, rtol=1e-4, atol=1e-6)
    assert a.answer == b.answer


BATCH: dict[str, Any] = {
    **STUDY,
    "data": [{"ref": "scale:rag:documents=2", "limit": 3}],
    "traces": {"questions": 3, "probes": ["received"]},
    "machine": {"trace_batch": 2},
}


def test_questions_traced_together_have_the_outcomes_of_one_at_a_time(holder: Holder, tmp_path: Path) -> None:
    plan = make_plan(read_study(BATCH))
    together = list(plan.trace_tasks(plan.models[0], lambda item: False))
    assert [len(task.tasks) if isinstance(task, TraceBatch) else 1 for task in together] == [2, 1]
    batch = pickle.loads(pickle.dumps(together[0]))  # noqa: S301
    for number, (ours, task) in enumerate(zip(batch.perform(holder), batch.tasks, strict=True)):
        alone = task.perform(holder)
        assert ours.record.model_copy(update={"seconds": None}) == alone.record.model_copy(update={"seconds": None})
        for name, made in (("ours", ours), ("alone", alone)):
            place(made, tmp_path / f"{name}{number}")
        a, b = (open_trace(tmp_path / f"{name}{number}" / task.file) for name in ("ours", "alone"))
        np.testing.assert_allclose(a.data["received"].values, b.data["received"].values, atol=1e-6)
        np.testing.assert_array_equal(a.data["final"].values, b.data["final"].values)


def test_one_bad_question_fails_alone_and_a_failing_batch_is_divided(
    holder: Holder, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = make_plan(read_study(BATCH))
    batch = next(iter(plan.trace_tasks(plan.models[0], lambda item: False)))
    assert isinstance(batch, TraceBatch)
    real, bad = tasks.ready_from, batch.tasks[0].example.question

    def refusing(model: Any, arguments: Any) -> Any:
        if arguments["question"] == bad:
            raise FloatlensError("too long")
        return real(model, arguments)

    monkeypatch.setattr(tasks, "ready_from", refusing)
    first, second = batch.perform(holder)
    assert (first.record.status, first.record.error, second.record.status) == ("failed", "too long", "done")
    assert [part.tasks for part in batch.halves()] == [batch.tasks[:1], batch.tasks[1:]]
    assert batch.halves()[0].halves() == []
    assert [made.record.error for made in batch.failed("gone")] == ["gone", "gone"]


def test_what_never_fits_fails_with_advice(task: TraceTask, holder: Holder, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object, **__: object) -> None:
        raise RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory")

    monkeypatch.setattr(tasks, "trace", never)
    monkeypatch.setattr(holder, "budget", MemoryBudget())
    made = task.perform(holder)
    assert (made.record.status, made.content) == ("failed", None)
    assert "out of memory on cpu; try heads: mean" in str(made.record.error)
    assert holder.budget.block_bytes == MIN_BLOCK_BYTES


def test_other_errors_are_no_lack_of_memory() -> None:
    assert out_of_memory(MemoryError())
    assert out_of_memory(torch.OutOfMemoryError())
    assert out_of_memory(RuntimeError("MPS backend out of memory (MPS allocated: 8.00 GB)"))
    assert out_of_memory(RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"))
    assert not out_of_memory(RuntimeError("shapes do not fit"))


def test_what_an_edit_keeps_shrinks_with_the_blocks() -> None:
    room = MemoryBudget()
    assert (room.workspace().block_bytes, room.workspace().keep_bytes) == (8 << 20, 64 << 20)
    room.smaller_blocks()
    assert (room.workspace().block_bytes, room.workspace().keep_bytes) == (4 << 20, 32 << 20)
