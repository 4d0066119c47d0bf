"""Who asks the questions: this process, or several that each hold the model. Answers do not depend on which.

Small models on a CPU gain from processes with one thread each; large ones have more to lose in memory. The process that
started them is the only one that writes. A worker ends when that process is gone, however it went.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import wait as wait_for
from types import TracebackType
from typing import TYPE_CHECKING, Any

from floatlens.errors import FloatlensError

if TYPE_CHECKING:
    from floatlens.config import ModelConfig
    from floatlens.models import LanguageModel
    from floatlens.qa.answering import Answer
    from floatlens.study.asking import Task

__all__ = ["Workers", "cores", "suggest"]

_SMALL = 300_000_000
"""Weights up to this many bytes on disk make a small model: it is held once per core without a thought."""
_WORTH = 200
"""Fewer questions than these are answered before a second process has loaded its libraries."""


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def suggest(models: Iterable[ModelConfig], questions: int, threads: int | None = None) -> int:
    """How many processes: one per core for small models on a CPU with enough to ask, else one."""
    many = threads or cores()
    if many < 2 or questions < _WORTH or not all(_small_on_cpu(model) for model in models):
        return 1
    return many


def _small_on_cpu(model: ModelConfig) -> bool:
    from pathlib import Path

    import torch

    from floatlens.models.names import is_registered_form, resolve_name

    device = model.device or ("cuda" if torch.cuda.is_available() else "cpu")
    path = resolve_name(model.ref) if is_registered_form(model.ref) else Path(model.ref).expanduser()
    if device != "cpu" or not path.exists():  # of a hub repository nothing is known yet
        return False
    files = [path] if path.is_file() else [*path.glob("*.safetensors"), *path.glob("*.bin")]
    return sum(file.stat().st_size for file in files) <= _SMALL


class Workers:
    """Answers tasks in `count` processes, or in this one. Example: `with Workers(2) as w: list(w.run(tasks))`"""

    def __init__(self, count: int = 1) -> None:
        if count < 1:
            raise FloatlensError(f"--workers {count}: expected at least 1")
        self.count = count
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> Workers:
        if self.count > 1:
            self._pool = ProcessPoolExecutor(
                self.count,
                multiprocessing.get_context("spawn"),
                initializer=_begin,
                initargs=(max(1, cores() // self.count),),
            )
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: BaseException | TracebackType | None) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=kind is None, cancel_futures=True)
            if kind is not None:  # stopped in the middle: what is under way is not waited for
                for process in list((self._pool._processes or {}).values()):
                    process.terminate()

    def run(self, tasks: Iterable[Task]) -> Iterator[tuple[Task, list[Answer]]]:
        """Every task with its answers, as they come. Tasks are taken from the iterable only as they are needed."""
        if self._pool is None:
            holder = _Holder()
            yield from ((task, holder.answer(task)) for task in tasks)
            return
        try:
            yield from self._spread(self._pool, iter(tasks))
        except BrokenProcessPool:
            raise FloatlensError(
                "a worker process died, for want of memory perhaps; run the same command again to continue, "
                "with fewer --workers"
            ) from None

    def _spread(self, pool: ProcessPoolExecutor, tasks: Iterator[Task]) -> Iterator[tuple[Task, list[Answer]]]:
        running: dict[Future[list[Answer]], Task] = {}
        while True:
            while len(running) < 2 * self.count:  # one under way and one waiting for each
                task = next(tasks, None)
                if task is None:
                    break
                running[pool.submit(_answer, task)] = task
            if not running:
                return
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                yield running.pop(future), future.result()


class _Holder:
    """Holds one model, the last that was asked for, and answers with it."""

    def __init__(self) -> None:
        self._ref: str | None = None
        self._model: LanguageModel | None = None

    def answer(self, task: Task) -> list[Answer]:
        from floatlens.qa.answering import ask

        return ask(self._loaded(task.subject.model), [item.asked for item in task.items], task.subject.config)

    def _loaded(self, model: ModelConfig) -> LanguageModel:
        from floatlens.models import load

        if self._ref != model.ref or self._model is None:
            self._model = None  # let go of the last one before the next comes
            options: dict[str, Any] = model.model_dump(exclude={"ref"})
            self._model = load(model.ref, **options)
            self._ref = model.ref
        return self._model


# -- in a worker process ------------------------------------------------------------------------------------------

_holder = _Holder()


def _begin(threads: int) -> None:
    """Ctrl-C is for the process that writes; torch gets its share of the cores."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    import torch

    torch.set_num_threads(threads)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait_for([parent.sentinel])
        os._exit(1)


def _answer(task: Task) -> list[Answer]:
    return _holder.answer(task)
