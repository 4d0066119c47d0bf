"""Figures of answers: gains with their intervals and n, and axes that say what was shown."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from floatlens.analysis.intervals import estimate
from floatlens.analysis.stress import Curve
from floatlens.data.stress import StressSettings
from floatlens.plots import plot_gains, plot_stress
from shared.stress import points

ROWS = [
    {"model": "a", "kind": "mdm", "data": "d", "before": 0.2, "after": 0.5, "gain": 0.3, "low": 0.1, "high": 0.45},
    {"model": "b", "kind": "arm", "data": "d", "before": 0.6, "after": 0.4, "gain": -0.2, "low": -0.3, "high": -0.05},
]


def small_print(figure: Any) -> str:
    """The text in the corner in one line."""
    return " ".join(figure.texts[0].get_text().split())


def whiskers(figure: Any) -> list[list[float]]:
    """Both ends of every error bar."""
    bars = [one for one in figure.axes[0].containers if hasattr(one, "lines")]
    return [sorted(float(y) for y in bar.lines[2][0].get_segments()[0][:, 1]) for bar in bars]


def test_a_gain_has_its_interval_and_its_n() -> None:
    figure = plot_gains(
        pd.DataFrame([{**row, "metric": "accuracy", "n": n} for row, n in zip(ROWS, (40, 60), strict=True)])
    )
    assert np.allclose(whiskers(figure), [[0.3, 0.65], [0.3, 0.55]])  # before + low, before + high
    assert "n = 40–60 questions" in small_print(figure)
    assert "95 %" in small_print(figure)
    same = plot_gains(pd.DataFrame([{**row, "metric": "accuracy", "n": 40} for row in ROWS]))
    assert "n = 40 questions" in small_print(same)


@pytest.mark.parametrize(
    ("test", "ticks", "axis"),
    [
        ("noise", ["0", "1", "2", "3", "4"], "noise documents"),
        ("position", ["1", "5", "10"], "position of the gold document"),
    ],
)
def test_an_axis_says_what_was_shown(test: str, ticks: list[str], axis: str) -> None:
    line = points(test, StressSettings(position={"places": (0, 4, 9)}))
    scores = estimate(np.ones((9, len(line))))
    curve = Curve("a", "mdm", "d", test, test, "accuracy", tuple(line), scores, estimate(np.ones(9)), scores)
    (axes,) = plot_stress([curve], test).axes
    assert [label.get_text() for label in axes.get_xticklabels()] == ticks
    assert axes.get_xlabel() == axis
    assert np.allclose(axes.get_xticks(), [point.x for point in line])  # of noise still the ratio: the area stays
