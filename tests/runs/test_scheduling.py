"""How tasks are shared out: another worker for what failed, halves for what failed twice, and every task once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from floatlens.runs.scheduling import ATTEMPTS, Pending, Spread
from floatlens.runs.workers import Holder, Workers


@dataclass(frozen=True)
class Batch:
    """Numbers of which some can never be done."""

    numbers: tuple[int, ...]
    bad: int | None = None

    def perform(self, holder: Holder | None) -> list[str]:
        if self.bad in self.numbers:
            raise ValueError(f"{self.bad} is bad")
        return [f"{number} done" for number in self.numbers]

    def failed(self, error: str) -> list[str]:
        return [f"{number} failed: {error}" for number in self.numbers]

    def halves(self) -> list[Batch]:
        middle = len(self.numbers) // 2
        parts = (self.numbers[:middle], self.numbers[middle:])
        return [replace(self, numbers=part) for part in parts] if middle else []


class Fake:
    """Works at once, and remembers what it was given."""

    def __init__(self, number: int, seen: list[tuple[int, tuple[int, ...]]]) -> None:
        self.number, self.seen = number, seen
        self.pending: Pending[Any] | None = None

    def give(self, pending: Pending[Any]) -> None:
        self.pending = pending
        self.seen.append((self.number, pending.task.numbers))  # type: ignore[attr-defined]

    def receive(self) -> tuple[bool, Any]:
        pending, self.pending = self.pending, None
        assert pending is not None
        try:
            return True, pending.task.perform(None)  # type: ignore[arg-type]
        except ValueError as error:
            return False, str(error)


def spread(tasks: Sequence[Batch], workers: int) -> tuple[list[str], list[tuple[int, tuple[int, ...]]]]:
    seen: list[tuple[int, tuple[int, ...]]] = []
    team = [Fake(number, seen) for number in range(workers)]
    made = Spread(team, lambda busy: list(busy)[:1]).run(iter(tasks))
    return sorted(line for _, lines in made for line in lines), seen


def test_one_bad_item_fails_alone() -> None:
    tasks = [Batch((1, 2, 3, 4), bad=3), Batch((5, 6))]
    for workers in (1, 2, 3):
        found, seen = spread(tasks, workers)
        why = f"3 failed: 3 is bad (tried {ATTEMPTS} times)"
        assert found == ["1 done", "2 done", why, "4 done", "5 done", "6 done"]
        assert sum(numbers == (1, 2, 3, 4) for _, numbers in seen) == 2  # then in halves


def test_what_failed_goes_to_somebody_else() -> None:
    _, seen = spread([Batch((1,), bad=1)], 2)
    who = [number for number, _ in seen]
    assert len(who) == ATTEMPTS
    assert all(one != other for one, other in pairwise(who))


def test_in_one_process_a_batch_is_divided_at_once() -> None:
    with Workers(1) as here:
        found = sorted(line for _, lines in here.run([Batch((1, 2, 3), bad=2)]) for line in lines)
    assert found == ["1 done", "2 failed: ValueError: 2 is bad", "3 done"]
