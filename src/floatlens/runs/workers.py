"""Executors on this machine: this process, or several that each hold a model. Results do not depend on which.

Small models on a CPU gain from processes with one thread each; large ones cost memory. Only the process that started
the workers writes records. A task that fails is tried twice more, by another worker where there is one (`scheduling`);
a worker that dies is replaced. Workers end when the process that started them ends, however it ends.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.connection import wait as wait_for
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from floatlens.core.errors import FloatlensError
from floatlens.runs.scheduling import Pending, Spread, Task, halves

if TYPE_CHECKING:
    from multiprocessing.context import SpawnContext
    from multiprocessing.process import BaseProcess

    from floatlens.models import LanguageModel
    from floatlens.models.config import ModelConfig
    from floatlens.runs.plan import Plan

__all__ = ["Executor", "Holder", "Team", "Workers", "cores", "said", "suggest", "team_for"]

_SMALL = 300_000_000
"""Bytes of weights on disk up to which a model is small: it is held once per core."""
_WORTH = 200
"""Fewer items than these are done before a second process has loaded its libraries."""

R = TypeVar("R")


class Holder:
    """Holds one model, the last that was asked for, and the memory budget beside it."""

    def __init__(self) -> None:
        from floatlens.attention.memory_budget import MemoryBudget

        self.budget = MemoryBudget()
        self._of: ModelConfig | None = None
        self._shuffled: int | None = None
        self._model: LanguageModel | None = None

    def get(self, model: ModelConfig, shuffled: int | None = None) -> LanguageModel:
        """The model, loaded now unless it is the one that is held; or its control, its weights `shuffled` by a seed.

        A control takes the place of its model, so there are never two copies of the weights.
        """
        if self._model is None or self._of != model or self._shuffled not in (None, shuffled):
            self._load(model)
        assert self._model is not None
        if shuffled is not None and self._shuffled is None:
            from floatlens.models.shuffling import shuffle

            plain, self._model = self._model, None  # not to be used if shuffling is interrupted
            self._model, self._shuffled = shuffle(plain, shuffled), shuffled
        return self._model

    def _load(self, model: ModelConfig) -> None:
        from floatlens.attention.memory_budget import MemoryBudget
        from floatlens.models import load

        self._model, self._shuffled, self.budget = None, None, MemoryBudget()  # let go of it before the next comes
        options: dict[str, Any] = model.model_dump(exclude={"ref"})
        self._model, self._of = load(model.ref, **options), model


class Executor(Protocol):
    """Performs tasks somewhere, and gives each back with what came of it."""

    def __enter__(self) -> Executor: ...

    def __exit__(self, *details: Any) -> None: ...

    def run(self, tasks: Iterable[Task[R]]) -> Iterator[tuple[Task[R], R]]:
        """Every task with its result, as they come. Tasks are taken from the iterable only as they are needed."""


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def suggest(models: Iterable[ModelConfig], questions: int, threads: int | None = None) -> int:
    """How many processes: one per core for small models on a CPU with enough to ask, else one."""
    many = threads or cores()
    if many < 2 or questions < _WORTH or not all(small_on_cpu(model) for model in models):
        return 1
    return many


def threads_for(models: Iterable[ModelConfig], count: int) -> int:
    """Threads of torch in each of `count` processes: one for small models on a CPU, however many processes there are,
    since sums differ in their last bits with it; larger ones share the cores."""
    return 1 if all(small_on_cpu(model) for model in models) else max(1, cores() // count)


def small_on_cpu(model: ModelConfig) -> bool:
    import torch

    from floatlens.models.adapted import base_of, is_adapter
    from floatlens.models.names import resolve

    device = model.device or ("cuda" if torch.cuda.is_available() and model.device_map != "cpu" else "cpu")
    path = Path(resolve(model.ref)).expanduser()
    if is_adapter(path):
        path = Path(resolve(base_of(path))).expanduser()
    if device != "cpu" or not path.exists():  # of a hub repository nothing is known yet
        return False
    files = [path] if path.is_file() else [*path.glob("*.safetensors"), *path.glob("*.bin")]
    return sum(file.stat().st_size for file in files) <= _SMALL


class Workers:
    """Performs tasks in `count` processes, or in this one. Example: `with Workers(2) as team: list(team.run(tasks))`

    `threads` is what torch may use in each; if it is not given, the cores are shared out (and one process alone keeps
    what it has). Sums come out alike to the last bit only with the same number of threads.
    """

    def __init__(self, count: int = 1, threads: int | None = None) -> None:
        if count < 1:
            raise FloatlensError(f"--workers {count}: expected at least 1")
        self.count = count
        self._fixed = threads is not None
        self._threads = threads or max(1, cores() // count)
        self._holder = Holder()
        self._team: list[_Worker[Any]] = []

    def __enter__(self) -> Workers:
        if self.count > 1:
            context = multiprocessing.get_context("spawn")
            self._team = [_Worker(context, self._threads, number) for number in range(self.count)]
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: BaseException | TracebackType | None) -> None:
        for worker in self._team:
            worker.stop(kill=kind is not None)  # stopped in the middle: what is under way is not waited for
        self._team = []
        self._holder = Holder()

    def run(self, tasks: Iterable[Task[R]]) -> Iterator[tuple[Task[R], R]]:
        if self._team:
            yield from Spread(self._team, _ready).run(iter(tasks))
            return
        with _threads(self._threads if self._fixed else None):
            for task in tasks:
                yield from _alone(task, self._holder)


def _ready(busy: Sequence[_Worker[Any]]) -> list[_Worker[Any]]:
    """The workers that have sent something, or are dead."""
    found = set(wait_for([end for worker in busy for end in (worker.connection, worker.process.sentinel)]))
    return [worker for worker in busy if worker.connection in found or worker.process.sentinel in found]


@contextmanager
def _threads(count: int | None) -> Iterator[None]:
    """So many threads for torch in this process, for a while."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(count or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _alone(task: Task[R], holder: Holder) -> Iterator[tuple[Task[R], R]]:
    """Perform a task in this process, once: what failed here would fail again. A batch that fails is divided, so only
    the items at fault fail."""
    try:
        found = task.perform(holder)
    except Exception as error:
        parts, why = halves(task), said(error)
    else:
        yield task, found
        return
    for part in parts:
        yield from _alone(part, holder)
    if not parts:
        yield task, task.failed(why)


def said(error: BaseException) -> str:
    return str(error) if isinstance(error, FloatlensError) else f"{type(error).__name__}: {error}"


@contextmanager
def _deaf() -> Iterator[None]:
    """Processes started inside ignore Ctrl-C, which is for the process that writes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


class _Worker(Generic[R]):
    """One process and the pipe to it."""

    def __init__(self, context: SpawnContext, threads: int, number: int) -> None:
        self._context, self._threads, self.number = context, threads, number
        self.pending: Pending[R] | None = None
        self._start()

    def _start(self) -> None:
        self.connection: Connection[Any, Any]
        self.connection, theirs = self._context.Pipe()
        self.process: BaseProcess = self._context.Process(target=_serve, args=(theirs, self._threads), daemon=True)
        with _deaf():
            self.process.start()
        theirs.close()

    def give(self, pending: Pending[R]) -> None:
        self.pending = pending
        with suppress(OSError):  # of a dead one, which `receive` will find
            self.connection.send(pending.task)

    def receive(self) -> tuple[bool, Any]:
        """(True, result), or (False, what went wrong); a dead process is replaced."""
        self.pending = None
        try:
            found: tuple[bool, Any] = self.connection.recv()
            return found
        except (EOFError, OSError):
            self.process.join()
            code = self.process.exitcode
            self.connection.close()
            self._start()
            return False, f"the worker process died (exit code {code}), for want of memory perhaps"

    def stop(self, *, kill: bool) -> None:
        self.connection.close()  # the end of its input
        if kill:
            self.process.kill()
        self.process.join()


# -- the executor of a plan ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Team:
    """The executor of a run; `count` None: as many workers as a cluster has resources for."""

    executor: Executor
    count: int | None
    threads: int
    elsewhere: bool = False


def team_for(plan: Plan, items: int, local: int | None = None) -> Team:
    """The executor that a study asks for. Small models on a CPU get one thread each, and a worker per core.

    `local` is the number of workers on this machine where the study does not say; None: as suits the number of items.
    The threads of small models do not depend on the number of workers, since sums differ in their last bits with them.
    For larger ones they do, unless the study gives their number.
    """
    machine = plan.study.machine
    models = [model.config for model in plan.models]
    if machine.executor == "ray":
        from floatlens.runs.ray_workers import RayWorkers

        here = machine.address is None
        wanted = machine.workers or (suggest(models, items) if here else None)
        small = all(small_on_cpu(model) for model in models)
        threads = machine.threads or (1 if small else max(1, int(machine.cpus)))
        ray = RayWorkers(wanted, threads, cpus=machine.cpus, gpus=machine.gpus, address=machine.address)
        return Team(ray, wanted, threads, elsewhere=not here)
    count = machine.workers or local or suggest(models, items)
    threads = machine.threads or threads_for(models, count)
    return Team(Workers(count, threads), count, threads)


# -- in a worker process ------------------------------------------------------------------------------------------


def _serve(connection: Connection[Any, Any], threads: int) -> None:
    """Perform one task after another until there are no more. Ctrl-C is for the process that writes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # for those that were started outside of the main thread
    threading.Thread(target=_end_with_parent, daemon=True).start()
    import torch

    torch.set_num_threads(threads)
    holder = Holder()
    while True:
        try:
            task = connection.recv()
        except (EOFError, OSError):
            return
        try:
            result: tuple[bool, Any] = (True, task.perform(holder))
        except Exception as error:
            result = (False, said(error))
        connection.send(result)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait_for([parent.sentinel])
        os._exit(1)
