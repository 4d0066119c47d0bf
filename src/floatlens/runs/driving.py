"""Runs a plan into its folder: tasks go to the executor, what comes back is put on record, by this process alone.

A model's traces come first, then its answers; ablations of retrieval heads wait until all traces are there. Nothing is
printed: whoever runs it watches the records go by. The first Ctrl-C lets the items under way be finished.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar

from floatlens.core.errors import FloatlensError
from floatlens.runs.asking import AskTask, ask_tasks
from floatlens.runs.choosing import ablations
from floatlens.runs.intervening import copy_scores, heads_for
from floatlens.runs.records import AnswerRecord, StudyRecord
from floatlens.runs.tracetask import Traced, place

if TYPE_CHECKING:
    import xarray as xr

    from floatlens.edits.spec import EditSpec
    from floatlens.runs.folder import RunFolder
    from floatlens.runs.plan import Plan
    from floatlens.runs.spread import Task
    from floatlens.runs.workers import Executor, Holder

__all__ = ["Stop", "run_plan"]

T = TypeVar("T")


class Stop:
    """Whether the user wants to stop. Example: `with Stop(say).listening() as stop: …`

    The first Ctrl-C asks for no more tasks; the second interrupts at once, but never in the middle of writing.
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
        """Take Ctrl-C for the length of a run; signals are the main thread's business, elsewhere nothing changes."""
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
        """What is written inside is finished first."""
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


def run_plan(
    plan: Plan, run: RunFolder[StudyRecord], executor: Executor, batch: int, stop: Stop | None = None
) -> Iterator[StudyRecord]:
    """Do everything that has no record, and yield each record once it is on disk, in any order."""
    stop = stop or Stop()
    run.forget(lambda record: not record.complete(run.path))  # failures, and traces whose files are gone
    with executor:
        for tasks in (_first(plan, run, batch), _ablated(plan, run, batch)):
            for _, result in executor.run(stop.until(tasks)):
                with stop.writing():
                    records = _settle(run, result)
                yield from records


def _settle(run: RunFolder[StudyRecord], result: Traced | Sequence[AnswerRecord]) -> list[StudyRecord]:
    """Files first, then the records; of a batch that was asked again only what was missing."""
    if isinstance(result, Traced):
        place(result, run.path)
        run.add(result.record)
        return [result.record]
    records = [StudyRecord.model_validate(one.model_dump()) for one in result if not run.done(one.item)]
    run.add_all(records)
    return records


def _first(plan: Plan, run: RunFolder[StudyRecord], batch: int) -> Iterator[Task[Any]]:
    for subject in plan.subjects:
        yield from plan.trace_tasks(subject, run)
        for part in plan.parts:
            yield from ask_tasks(subject, [part.data], part.asked, run, batch)


def _ablated(plan: Plan, run: RunFolder[StudyRecord], batch: int) -> Iterator[Task[Any]]:
    """Of a model whose heads cannot be chosen the items fail, and the others are asked."""
    waiting = [(part, spec) for part in plan.parts for spec in part.chosen.ablated]
    scores = _copy_scores(run) if waiting else {}
    for subject in plan.subjects:
        for part, spec in waiting:
            one = replace(part.chosen, edits=(spec,))
            conditions, why = ablations(one, part.makers, scores), _unknown(spec, subject.ref, scores)
            if why is None:
                yield from ask_tasks(subject, [part.data], conditions, run, batch)
                continue
            named = ask_tasks(subject, [part.data], ablations(one, part.makers, None), run, batch)
            yield from (_Refused(task, why) for task in named)


def _unknown(spec: EditSpec, model: str, scores: Mapping[str, xr.DataArray]) -> str | None:
    """Why an ablation cannot be asked; None where it can."""
    if model not in scores:
        return f"{spec.label}: no trace of {model} came out, so its retrieval heads are not known"
    try:
        heads_for(spec, model, scores)
    except FloatlensError as error:
        return str(error)
    return None


@dataclass(frozen=True)
class _Refused:
    """A task that cannot be done, for a reason that is known before a worker sees it."""

    task: AskTask
    why: str

    def perform(self, holder: Holder) -> list[AnswerRecord]:
        return self.failed(self.why)

    def failed(self, error: str) -> list[AnswerRecord]:
        return self.task.failed(error)


def _copy_scores(run: RunFolder[StudyRecord]) -> dict[str, xr.DataArray]:
    """How much each head copies, from the traces of this study that are on record."""
    from floatlens.analysis import retrieval_heads

    done = (one.file for one in run.records.values() if one.what == "trace" and one.complete(run.path))
    files = sorted(file for file in done if file is not None)
    return copy_scores(retrieval_heads([run.path / file for file in files], score="copy")) if files else {}
