"""Runs a plan into its folder: tasks go to the executor, and their outcomes on record, written by this process alone.

The traces of a model come first, then its answers, its patched questions and the traces of its controls; ablations of
retrieval heads and refresh schedules of caches wait until all traces are there. It prints nothing: the caller sees the
records as they come.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar

from floatlens.core.errors import FloatlensError
from floatlens.runs.items import PlannedData, answer_items, batches
from floatlens.runs.refresh_schedules import key_drifts
from floatlens.runs.retrieval_heads import head_scores
from floatlens.runs.tasks import AnswerTask, Question, RefusedTask, Traced
from floatlens.runs.told import Told

if TYPE_CHECKING:
    from pathlib import Path

    import xarray as xr

    from floatlens.records.record import Record
    from floatlens.runs.conditions import PlannedCondition
    from floatlens.runs.folder import RunFolder
    from floatlens.runs.models import PlannedModel
    from floatlens.runs.plan import Plan
    from floatlens.runs.scheduling import Task
    from floatlens.runs.workers import Executor

__all__ = ["Stop", "answer_tasks", "run_plan"]

T = TypeVar("T")


def run_plan(plan: Plan, run: RunFolder, executor: Executor, stop: Stop | None = None) -> Iterator[Record]:
    """Do everything that is not done, and yield each record once it is on disk, in any order."""
    stop = stop or Stop()
    run.forget(lambda record: not record.complete(run.path))  # failures, and traces whose files are gone
    with executor:
        for tasks in (_first(plan, run), _waiting(plan, run)):
            for _, result in executor.run(stop.until(tasks)):
                with stop.writing():
                    new = _write(run, result)
                yield from new
    run.check_untouched()
    _check_files(run)


def _check_files(run: RunFolder) -> None:
    """An error where a trace that is on record has gone since: the run would count what is not there."""
    gone = [one for one in run.records.values() if one.status == "done" and not one.complete(run.path)]
    if gone:
        raise FloatlensError(
            f"{run.path / str(gone[0].file)}: removed by somebody else during the run ({len(gone)} in all); "
            "run it again"
        )


def _write(run: RunFolder, result: Traced | Sequence[Traced] | Sequence[Record]) -> list[Record]:
    """Put outcomes on record; of a batch that was asked again, only what was missing."""
    outcomes: Sequence[Traced | Record] = [result] if isinstance(result, Traced) else result
    records: list[Record] = []
    files: dict[str, bytes] = {}
    for one in outcomes:
        record = one.record if isinstance(one, Traced) else one
        records.append(record)
        if isinstance(one, Traced) and record.file is not None and one.content is not None:
            files[record.file] = one.content
    return run.add(records, files)


def _first(plan: Plan, run: RunFolder) -> Iterator[Task[Any]]:
    for model in plan.subjects:
        yield from plan.trace_tasks(model, run.done)
        for data in plan.data:
            yield from answer_tasks(plan, model, data, data.asked_of(model, waiting=False), run)
        yield from plan.patch_tasks(model, run.done)
        for control in plan.controls_of(model):  # while a worker still holds the model, which it need not load again
            yield from plan.trace_tasks(control, run.done)


def _waiting(plan: Plan, run: RunFolder) -> Iterator[Task[Any]]:
    """What waits for traces. Where they do not tell enough of a model its items fail, and the others are asked."""
    waiting = [one.edit.build().needs for data in plan.data for one in data.conditions if one.edit and one.waits]
    if not waiting:
        return
    told = _told(plan, run, frozenset().union(*waiting))
    for model in plan.subjects:
        for data in plan.data:
            for one in data.asked_of(model, waiting=True):
                found, why = _settled(one, model.ref, told)
                tasks = answer_tasks(plan, model, data, [found], run)
                yield from tasks if why is None else (RefusedTask(task, why) for task in tasks)


def answer_tasks(
    plan: Plan, model: PlannedModel, data: PlannedData, conditions: Sequence[PlannedCondition], run: RunFolder
) -> Iterator[AnswerTask]:
    """Batches of questions under these conditions, as far as they are not done."""
    items = answer_items(model, data, conditions)
    for batch in batches(items, plan.study.machine.batch, run.done):
        yield AnswerTask(model, tuple(Question.of(item, asked) for item, asked in batch))


def _settled(planned: PlannedCondition, model: str, told: Told) -> tuple[PlannedCondition, str | None]:
    """The condition with its heads or schedule, or as it is and the reason why they are not known."""
    assert planned.edit is not None
    try:
        return replace(planned, edit=told.settled(planned.edit, model)), None
    except FloatlensError as error:
        return planned, str(error)


def _told(plan: Plan, run: RunFolder, needs: frozenset[str]) -> Told:
    """What the traces of this run, or those of `heads_from`, tell."""
    heads: Mapping[str, xr.DataArray] = {}
    if "retrieval scores" in needs:
        heads = plan.scores if plan.heads_from is not None else _own_scores(plan, run)
    return Told(heads, key_drifts(_own_traces(plan, run)) if "refresh schedule" in needs else {})


def _own_scores(plan: Plan, run: RunFolder) -> dict[str, xr.DataArray]:
    """How much each head copies, from the traces of this run."""
    return head_scores(_own_traces(plan, run))


def _own_traces(plan: Plan, run: RunFolder) -> list[Path]:
    """The trace files of this run, without those of controls."""
    models = {model.ref for model in plan.subjects}
    traces = (one for one in run.records.values() if one.what == "trace" and one.model in models)
    done = (one.file for one in traces if one.complete(run.path))
    return [run.path / file for file in sorted(file for file in done if file is not None)]


# -- Ctrl-C -------------------------------------------------------------------------------------------------------


class Stop:
    """Whether the user wants to stop: the first Ctrl-C stops taking tasks, the second interrupts, but never a write.

    `on_ask` is called at the first Ctrl-C.

    Example: `with Stop(say).listening() as stop: …`
    """

    def __init__(self, on_ask: Callable[[], Any] = lambda: None) -> None:
        self.times = 0
        self._on_ask = on_ask
        self._writing = False

    @property
    def asked(self) -> bool:
        return self.times > 0

    @contextmanager
    def listening(self) -> Iterator[Stop]:
        """Handle Ctrl-C inside the block. Only the main thread receives signals; elsewhere nothing changes."""
        if threading.current_thread() is not threading.main_thread():
            yield self
            return
        before = signal.getsignal(signal.SIGINT)
        signal.signal(signal.SIGINT, self._heard)
        try:
            yield self
        finally:
            signal.signal(signal.SIGINT, before)

    def _heard(self, number: int, frame: FrameType | None) -> None:
        self.times += 1
        if self.times == 1:
            self._on_ask()
        elif not self._writing:
            raise KeyboardInterrupt

    @contextmanager
    def writing(self) -> Iterator[None]:
        """The block is finished before a second Ctrl-C interrupts."""
        self._writing = True
        try:
            yield
        finally:
            self._writing = False
        if self.times > 1:
            raise KeyboardInterrupt

    def until(self, tasks: Iterable[T]) -> Iterator[T]:
        """The tasks, up to the moment when stopping was asked for."""
        source = iter(tasks)
        while not self.asked:  # before a task is made: that may be work, or may fail
            task = next(source, None)
            if task is None:
                return
            yield task
