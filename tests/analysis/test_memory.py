"""Memory while many traces are analysed: what is kept of each is a few numbers, never the trace."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterator

import pytest
from synthetic import samples

from floatlens.analysis import ANALYSES, analyse
from floatlens.traces import Trace

FEW, MANY = 20, 120


@pytest.fixture(scope="module")
def made() -> list[Trace]:
    return samples("moving", causal=False, n=3, layers=2)


def stream(made: list[Trace], count: int) -> Iterator[Trace]:
    """So many traces, each with arrays of its own that nothing else holds."""
    for number in range(count):
        yield Trace(made[number % len(made)].data.copy(deep=True))


def peak(made: list[Trace], count: int) -> int:
    """Bytes above what there was before, at most, while the analyses of so many traces run."""
    gc.collect()
    tracemalloc.start()
    try:
        results = analyse(stream(made, count), list(ANALYSES))
        assert {one.n for one in results.values()} == {count}
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_does_not_grow_with_the_number_of_traces(made: list[Trace]) -> None:
    peak(made, 2)  # what is made once, by the first call
    each = (peak(made, MANY) - peak(made, FEW)) / (MANY - FEW)
    size = made[0].data.nbytes
    results = analyse(made[0], list(ANALYSES)).values()
    numbers = sum(array.nbytes for one in results for group in one for array in group.samples.values())
    assert numbers < 0.05 * size  # else a bound on what is kept would say nothing
    # Around the numbers: arrays of their own, all stacked at the end, and pandas' weak references to indexes that are
    # gone, which it clears from time to time.
    assert each < 0.25 * size
