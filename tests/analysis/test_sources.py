"""Where traces come from: one, many, files, folders, runs; streamed, and refused in one line."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

from floatlens.analysis import ANALYSES, absorption, analyse, drift
from floatlens.analysis.sources import each_trace, trace_files
from floatlens.core.errors import FloatlensError
from shared.synthetic import ready


@pytest.fixture(scope="module")
def traces():
    return [ready("moving", causal=False, sample=sample) for sample in range(3)]


@pytest.fixture(scope="module")
def folder(traces, tmp_path_factory):
    """A run: a folder with `traces/` in it, saved out of order."""
    run = tmp_path_factory.mktemp("run")
    for number in (2, 0, 1):
        traces[number].save(run / "traces" / "moving-mdm" / f"{number:03}")
    (run / "notes.txt").write_text("not a trace")
    return run


def absorbed(source):
    return absorption(source).group().values("absorbed")


def test_every_source_gives_the_same_numbers(traces, folder):
    expected = absorbed(traces)
    assert expected.shape == (3, 2, 4)
    files = sorted((folder / "traces").rglob("*.zarr.zip"))
    for source in (
        tuple(traces),
        (trace for trace in traces),
        folder,
        str(folder),
        folder / "traces",
        folder / "traces" / "moving-mdm",
        files,
        [str(files[0]), traces[1], files[2]],
    ):
        assert np.array_equal(absorbed(source), expected)
    assert np.array_equal(absorbed(traces[1]), expected[1:2])
    assert np.array_equal(absorbed(files[2]), expected[2:])


def test_files_come_in_the_order_of_their_names(tmp_path):
    names = [f"{number:02}.zarr.zip" for number in range(20)]
    for number in (7, 0, 19, 3, 12, 1, 18, 5, 9, 14, 2, 16, 4, 11, 6, 17, 8, 13, 10, 15):
        (tmp_path / names[number]).touch()
    assert [path.name for path in trace_files(tmp_path)] == names


def test_an_empty_folder_says_how_to_make_traces(tmp_path):
    with pytest.raises(
        FloatlensError, match=r"no traces in it \(\*\.zarr\.zip\); make some with: floatlens trace"
    ) as e:
        drift(tmp_path)
    assert str(tmp_path) in str(e.value)
    (tmp_path / "traces").mkdir()
    with pytest.raises(FloatlensError, match="traces: no traces in it"):
        drift(tmp_path)


def test_a_file_that_is_not_there_and_nothing_at_all(tmp_path):
    with pytest.raises(FloatlensError, match="no such trace file"):
        drift(tmp_path / "missing.zarr.zip")
    for nothing in ([], iter(()), [[]]):
        with pytest.raises(FloatlensError, match="no traces to analyse"):
            drift(nothing)


def test_files_are_opened_when_their_turn_comes(folder, tmp_path):
    """A file that is missing is met only after the traces before it."""
    walk = each_trace([*trace_files(folder)[:2], tmp_path / "missing.zarr.zip"])
    assert next(walk).model["ref"] == next(walk).model["ref"] == "moving-mdm"
    with pytest.raises(FloatlensError, match="no such trace file"):
        next(walk)


def test_traces_are_let_go_while_the_next_is_made():
    """A generator of traces is taken one at a time: when one is asked for, those before the last are gone, and none is
    kept when the work is done. Every analysis runs, so that none of them holds on to a trace."""
    made: list[weakref.ref] = []
    arrays: list[weakref.ref] = []
    alive: list[int] = []

    def stream():
        for sample in range(4):
            gc.collect()
            alive.append(sum(one() is not None for one in made[:-1]) + sum(one() is not None for one in arrays[:-1]))
            trace = ready("fixed", causal=True, sample=sample, layers=2)
            made.append(weakref.ref(trace))
            arrays.append(weakref.ref(trace.data["received"].values))
            yield trace
            del trace

    results = analyse(stream(), list(ANALYSES))
    gc.collect()
    assert alive == [0, 0, 0, 0]
    assert [one() for one in made] == [None] * 4
    assert [one() for one in arrays] == [None] * 4
    assert all(result.n == 4 for result in results.values())
