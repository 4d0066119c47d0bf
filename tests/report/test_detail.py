"""The size of pages: arithmetic of the ladder, and what is left out where room is short."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from floatlens.core.errors import FloatlensError
from floatlens.report.build import LARGEST, explorer_data
from floatlens.report.detail import LADDER, estimated_size, fitting, thinned
from floatlens.report.render import report_page
from floatlens.report.subjects import look
from floatlens.report.view import packed_trace
from floatlens.runs.reporting import report_runs
from shared.reported import make_trace

SCALE = {"step": 8, "layer": 8, "key": 300}
LARGE = {"step": 64, "layer": 32, "key": 2000}
PAGE = len(report_page({"sections": []}, None, {}))


def test_rungs_get_smaller() -> None:
    sizes = [estimated_size(LARGE, rung) for rung in LADDER]
    assert all(a > b for a, b in itertools.pairwise(sizes))


def test_four_scale_models_and_twelve_examples_fit_in_full_detail() -> None:
    room = LARGEST - PAGE - 2_000_000  # generous for tables and words
    assert fitting([SCALE] * 48, room) == LADDER[0]


def test_four_large_models_and_twelve_examples_fit_in_less_detail() -> None:
    room = LARGEST - PAGE - 2_500_000
    rung = fitting([LARGE] * 48, room)
    assert rung not in LADDER[:2]
    assert 48 * estimated_size(LARGE, rung) <= room


def test_fitting_goes_on_below_a_rung() -> None:
    assert fitting([SCALE], 10**9, after=LADDER[2]) == LADDER[3]
    assert fitting([SCALE], 0, after=LADDER[-1]) == LADDER[-1]


def test_thinned_keeps_both_ends() -> None:
    assert thinned(5, None) == thinned(5, 9) == [0, 1, 2, 3, 4]
    assert thinned(32, 4) == [0, 10, 21, 31]
    assert thinned(9, 1) == [0]


def test_the_estimate_is_not_below_what_a_trace_takes() -> None:
    trace = make_trace("mdm", 0)
    sizes = {str(dim): size for dim, size in trace.data.sizes.items()}
    for rung in LADDER[:2]:
        words = 3000  # names, regions and the like weigh more than numbers in so small a trace
        assert len(packed_trace(trace, rung, "zscore")) <= estimated_size(sizes, rung) + words


def test_where_room_is_short_there_are_fewer_examples_and_it_is_said() -> None:
    traces = [make_trace("mdm", sample) for sample in range(4)]
    seen = [look(trace) for trace in traces]
    least = len(packed_trace(traces[0], LADDER[-1], "zscore"))
    index, views = explorer_data(seen, 4, "zscore", int(2.5 * least))
    assert 1 <= len(index["examples"]) <= 2
    assert index["left_out"] == 4 - len(index["examples"])
    assert sum(map(len, views.values())) <= 2.5 * least


def test_where_nothing_fits_it_is_an_error() -> None:
    with pytest.raises(FloatlensError, match="allow a larger page"):
        explorer_data([look(make_trace("mdm", 0))], 4, "zscore", 100)


def test_a_page_stays_below_the_size_asked_for(tmp_path: Path) -> None:
    for sample in range(2):
        make_trace("mdm", sample).save(tmp_path / "run" / f"{sample}")
    whole = report_runs([tmp_path / "run"], tmp_path / "a.html")
    tight = whole.size - 500
    small = report_runs([tmp_path / "run"], tmp_path / "b.html", largest=tight)
    assert small.size <= tight
    assert (tmp_path / "b.html").stat().st_size == small.size
