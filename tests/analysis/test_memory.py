"""Memory while many traces are analysed: what is kept of each is a few numbers, never the trace."""

from __future__ import annotations

import gc
import os
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from floatlens.analysis import ANALYSES, absorption, analyse
from floatlens.analysis.sources import each_trace
from floatlens.traces import Trace
from shared.synthetic import samples

FEW, MANY = 20, 120


@pytest.fixture(scope="module")
def made() -> list[Trace]:
    return samples("moving", causal=False, n=3, layers=4)


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


@pytest.mark.slow
def test_memory_does_not_grow_with_the_number_of_traces(made: list[Trace]) -> None:
    peak(made, 2)  # what is made once, by the first call
    each = (peak(made, MANY) - peak(made, FEW)) / (MANY - FEW)
    size = made[0].data.nbytes
    results = analyse(made[0], list(ANALYSES)).values()
    numbers = sum(array.nbytes for one in results for group in one for array in group.samples.values())
    assert numbers < 0.1 * size  # else a bound on what is kept would say nothing
    # Around the numbers: arrays of their own, all stacked at the end, and pandas' weak references to indexes that are
    # gone, which it clears from time to time.
    assert each < 0.25 * size


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="open files are counted where the system lists them")
def test_files_do_not_stay_open_while_many_are_read(made: list[Trace], tmp_path: Path) -> None:
    """Each is let go with its trace, without waiting for the collector of cycles."""
    files = [made[0].save(tmp_path / f"trace{number}") for number in range(12)]
    counts = []
    gc.disable()
    try:
        for trace in each_trace(files):
            absorption.measure(trace)
            counts.append(len(os.listdir("/proc/self/fd")))
    finally:
        gc.enable()
    assert counts[-1] <= counts[0] + 1  # the one before may still be there while the next is opened
