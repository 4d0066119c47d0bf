"""Every figure at once, from results of every kind: nothing breaks, nothing covers anything."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from floatlens.analysis import ANALYSES, Result
from floatlens.core.errors import FloatlensError
from floatlens.plots import FIGURES, draw_figures

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
    drawn = draw_figures(every_result(**CASES[case]))
    assert drawn.skipped == {}
    assert len(drawn.figures) == len(FIGURES) - 1 + len(CASES[case]["models"])
    for figure in drawn.figures.values():
        _assert_readable(shown(figure))


def test_figures_of_what_the_analyses_find_in_real_traces(real_results: dict[str, Result], shown: Any) -> None:
    drawn = draw_figures(real_results)
    assert drawn.skipped == {}
    for figure in drawn.figures.values():
        _assert_readable(shown(figure))
    lines = drawn.figures["absorption"].axes[1].lines
    for group in real_results["absorption"]:
        expected = group.estimate("absorbed").mean[1]
        assert any(np.array_equal(line.get_ydata(), expected) for line in lines)


def test_every_analysis_has_a_figure() -> None:
    needed = {name for recipe in FIGURES.values() for name in recipe.needs}
    assert needed == set(ANALYSES)


def test_what_is_absent_is_skipped_with_a_reason(every_result: Callable[..., dict[str, Result]]) -> None:
    found = every_result()
    del found["flow"], found["absorption"]
    drawn = draw_figures(found)
    assert drawn.skipped == {
        "summary": "no result of absorption",
        "absorption": "no result of absorption",
        "rollout": "no result of flow",
        "gold_lift": "no result of flow",
    }
    assert set(drawn.figures) == {"drift", "qk", "token_classes", "retrieval", "extremes"}


def test_names_are_fit_for_files(every_result: Callable[..., dict[str, Result]]) -> None:
    names = set(draw_figures(every_result(SIX), ["rollout"]).figures)
    assert "rollout-scale-llada" in names
    assert "rollout-Some-8B-x" in names
    assert len(names) == 6
    alike = every_result({"a:b": "mdm", "a$b": "mdm"})
    assert set(draw_figures(alike, ["rollout"]).figures) == {"rollout-a-b", "rollout-a-b-2"}


def test_an_unknown_figure_is_refused(every_result: Callable[..., dict[str, Result]]) -> None:
    with pytest.raises(FloatlensError, match='did you mean "drift"'):
        draw_figures(every_result(), ["drft"])
