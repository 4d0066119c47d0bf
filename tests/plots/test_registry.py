"""Every figure at once, from results of every kind: nothing breaks, nothing covers anything; and figures of others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from floatlens.analysis import ANALYSES, Result
from floatlens.core.errors import FloatlensError
from floatlens.plots import FIGURES, FigureType, describe_figures, plot_drift
from floatlens.plots.drawing import draw

ONE = {"scale:llada": "mdm"}
TWO = {"scale:llada": "mdm", "scale:qwen": "arm"}
SIX = {**TWO, "scale:llama": "arm", "scale:dream": "mdm", "hub/Some-8B-$x$": "mdm", "/home/me/other": "arm"}
CASES: dict[str, dict[str, Any]] = {
    "one model": {"models": ONE},
    "two models": {"models": TWO},
    "six models": {"models": SIX, "layers": 9},
    "one sample": {"models": TWO, "n": 1},
    "one layer": {"models": TWO, "layers": 1},
    "nothing defined": {"models": TWO, "undefined": True},
    "nothing defined at all": {"models": ONE, "undefined": True},
}
OF_RESULTS = [name for name, kind in FIGURES.items() if set(kind.needs) <= set(ANALYSES) and not kind.every_step]
NEW = ("sinks", "sink_kinds", "order", "lens", "smoothing", "cacheability")
OTHERS = ("anchors", "qk_maps", "gains", "stress", "misled", "collection", "edits", "patching", "cache")
ELSEWHERE = {name: f"no result of {name}" for name in OTHERS}


def _assert_readable(figure: Any) -> None:
    """Legend and small print lie in the figure and outside of the axes, and every axis has a label."""
    outer = [*(legend.get_window_extent() for legend in figure.legends), figure.texts[0].get_window_extent()]
    panels = [axes for axes in figure.axes if axes.get_visible() and axes.axison]
    for box in outer:
        assert figure.bbox.padded(1).contains(box.x0, box.y0)
        assert figure.bbox.padded(1).contains(box.x1, box.y1)
        for axes in panels:
            assert not box.overlaps(axes.get_tightbbox())
    for axes in panels:
        assert axes.get_legend() is None
        box = axes.get_window_extent()
        assert min(box.width, box.height) > 10
    last = [axes for axes in panels if axes.get_subplotspec() is not None and axes.get_subplotspec().is_last_row()]
    assert all(axes.get_xlabel() for axes in last)


@pytest.mark.parametrize("case", CASES)
def test_every_figure_is_readable(case: str, every_result: Callable[..., dict[str, Result]], shown: Any) -> None:
    found = describe_figures(every_result(**CASES[case]))
    assert found.skipped == ELSEWHERE
    assert len(found.figures) == len(OF_RESULTS) - 1 + len(CASES[case]["models"])
    for figure in found.figures.values():
        _assert_readable(shown(draw(figure)))


def test_figures_of_what_the_analyses_find_in_real_traces(real_results: dict[str, Result], shown: Any) -> None:
    found = describe_figures(real_results)
    assert found.skipped == ELSEWHERE
    drawn = {name: shown(draw(figure)) for name, figure in found.figures.items()}
    for figure in drawn.values():
        _assert_readable(figure)
    lines = drawn["absorption"].axes[1].lines
    for group in real_results["absorption"]:
        expected = group.estimate("absorbed").mean[1]
        assert any(np.array_equal(line.get_ydata(), expected) for line in lines)


def test_every_analysis_has_a_figure() -> None:
    assert {need for name in OF_RESULTS for need in FIGURES[name].needs} == set(ANALYSES)


def test_what_is_absent_is_skipped_with_a_reason(every_result: Callable[..., dict[str, Result]]) -> None:
    found = every_result()
    del found["flow"], found["absorption"]
    described = describe_figures(found)
    assert described.skipped == ELSEWHERE | {
        "summary": "no result of absorption",
        "absorption": "no result of absorption",
        "rollout": "no result of flow",
        "gold_lift": "no result of flow",
    }
    assert set(described.figures) == {"drift", "qk", "token_classes", "retrieval_heads", "extremes", *NEW}


def test_names_are_fit_for_files(every_result: Callable[..., dict[str, Result]]) -> None:
    names = set(describe_figures(every_result(SIX), ["rollout"]).figures)
    assert "rollout-scale-llada" in names
    assert "rollout-Some-8B-x" in names
    assert len(names) == 6
    alike = every_result({"a:b": "mdm", "a$b": "mdm"})
    assert set(describe_figures(alike, ["rollout"]).figures) == {"rollout-a-b", "rollout-a-b-2"}


def test_an_unknown_figure_is_refused(every_result: Callable[..., dict[str, Result]]) -> None:
    with pytest.raises(FloatlensError, match='did you mean "drift"'):
        describe_figures(every_result(), ["drft"])


@pytest.fixture
def added() -> Iterator[str]:
    """A figure that a user adds at run time."""
    FIGURES.add("my_drift", FigureType(("drift",), lambda data: plot_drift.describe(data["drift"])))
    yield "my_drift"
    FIGURES.remove("my_drift")


def test_an_added_figure_is_described_with_the_others(added: str, every_result: Callable[..., Any]) -> None:
    assert added in describe_figures(every_result()).figures
    assert FIGURES[added].home == "drift"
