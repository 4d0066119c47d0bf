"""How tasks are distributed to workers, and what happens when one fails or dies.

A task that fails is tried twice more, by another worker where there is one, then counts as failed. A batch that failed
twice is divided before the third attempt, so one bad item, or memory for half of the batch, fails no other item.
Workers are processes of this machine (`workers`) or actors of a Ray cluster (`ray_workers`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from floatlens.runs.workers import Holder

__all__ = ["ATTEMPTS", "Pending", "Spread", "Task", "Worker", "halves"]

ATTEMPTS = 3
"""Attempts before a task counts as failed."""

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class Task(Protocol[R_co]):
    """A piece of work that can be sent to another process."""

    def perform(self, holder: Holder) -> R_co:
        """Do it with the models of the holder."""

    def failed(self, error: str) -> R_co:
        """What to put on record when it could not be done."""


def halves(task: Task[R]) -> Sequence[Task[R]]:
    """Two tasks instead of one that has `halves`; nothing where it cannot be divided."""
    found: Sequence[Task[R]] = getattr(task, "halves", tuple)()
    return found


@dataclass(eq=False)
class Pending(Generic[R]):
    """A task, how often it was tried, and which worker tried it last."""

    task: Task[R]
    tried: int = 0
    errors: list[str] = field(default_factory=list)
    last: int | None = None


class Worker(Protocol):
    """Does one task at a time."""

    number: int
    pending: Pending[Any] | None

    def give(self, pending: Pending[Any]) -> None:
        """Start the task; a dead worker is found in `receive`."""

    def receive(self) -> tuple[bool, Any]:
        """(True, result), or (False, what went wrong); a dead worker has replaced itself. `pending` is None again."""


W = TypeVar("W", bound=Worker)


class Spread(Generic[W]):
    """Gives tasks to a team and takes their results, until there are no more.

    `ready` waits until at least one of the busy workers has a result, and returns those that have.
    """

    def __init__(self, team: Sequence[W], ready: Callable[[Sequence[W]], Sequence[W]]) -> None:
        self._team, self._ready = team, ready
        self._again: deque[Pending[Any]] = deque()

    def run(self, tasks: Iterator[Task[R]]) -> Iterator[tuple[Task[R], R]]:
        while True:
            for worker in self._team:
                if worker.pending is None and (pending := self._next(worker, tasks)) is not None:
                    worker.give(pending)
            busy = [worker for worker in self._team if worker.pending is not None]
            if not busy:
                return
            for worker in self._ready(busy):
                yield from self._take(worker)

    def _next(self, worker: W, tasks: Iterator[Task[R]]) -> Pending[R] | None:
        """A task to be tried again that another worker had, else a new one.

        A task that this worker failed waits for another worker.
        """
        for pending in self._again:
            if pending.last != worker.number or len(self._team) == 1:
                self._again.remove(pending)
                return pending
        new = next(tasks, None)
        return None if new is None else Pending(new)

    def _take(self, worker: W) -> Iterator[tuple[Task[R], R]]:
        pending = worker.pending
        assert pending is not None
        done, result = worker.receive()
        if done:
            yield pending.task, result
            return
        pending.tried += 1
        pending.last = worker.number
        pending.errors.append(str(result))
        parts = halves(pending.task) if pending.tried == ATTEMPTS - 1 else ()
        if parts:
            self._again.extend(Pending(part, 1, list(pending.errors), worker.number) for part in parts)
        elif pending.tried < ATTEMPTS:
            self._again.append(pending)
        else:
            yield pending.task, pending.task.failed(f"{pending.errors[-1]} (tried {ATTEMPTS} times)")
