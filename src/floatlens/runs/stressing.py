"""Stress tests as conditions of a run: every point of every test, for the questions that can take it.

The gold documents alone are asked as well, once for each question that takes any of the tests: what robustness
compares with. Distractors come from the other questions of the same data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from floatlens.data.stress import STRESS_TESTS, Point, Pool, StressSettings, points
from floatlens.runs.asking import Condition, Conditions, Subject

if TYPE_CHECKING:
    from floatlens.data import Data

__all__ = ["stress_conditions"]


def stress_conditions(
    tests: Sequence[str], settings: StressSettings, say: Callable[[str], Any] = lambda message: None
) -> Conditions:
    """Conditions for each data set, whose pool is read when it is first asked for; `say` is told what does not fit."""
    made: dict[str, Sequence[Condition]] = {}

    def conditions(data: Data, subject: Subject) -> Sequence[Condition]:
        if data.name not in made:
            made[data.name] = _conditions(data, tests, settings, say)
        return made[data.name]

    return conditions


def _conditions(
    data: Data, tests: Sequence[str], settings: StressSettings, say: Callable[[str], Any]
) -> Sequence[Condition]:
    pool = Pool.of(data.examples())
    fitting = {test: _fitting(data, test, settings, pool, say) for test in tests}
    takes = [test for test, ids in fitting.items() if ids]
    documents = set().union(*(fitting[test] for test in takes if STRESS_TESTS[test].reference))
    found = [_condition(point, documents, pool, settings) for point in points("clean") if documents]
    for test in takes:
        found += [_condition(point, fitting[test], pool, settings) for point in points(test, settings)]
    return found


def _fitting(data: Data, test: str, settings: StressSettings, pool: Pool, say: Callable[[str], Any]) -> set[str]:
    """Ids of the questions that can take a test; how many cannot, and why the first of them, is said."""
    fits: set[str] = set()
    left: list[str] = []
    chosen = settings.of(test)
    for example in data.examples():
        reason = chosen.unfit(example, pool)
        if reason is None:
            fits.add(example.id)
        else:
            left.append(f"question {example.id} {reason}")
    if left:
        rest = "left out" if fits else "so there is nothing to ask"
        say(f"{test}: {len(left)} of {len(left) + len(fits)} questions of {data.name} do not fit, {rest} ({left[0]})")
    return fits


def _condition(point: Point, fits: set[str], pool: Pool, settings: StressSettings) -> Condition:
    test = settings.of(point.test)
    return Condition(
        point.name,
        partial(test.apply, point=point, pool=pool),
        lambda example: example.id in fits,
        test.kind,
        test.appended(point),
    )
