"""Stress curves: robustness against areas worked out by hand, pairing, and agreement over orders."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from floatlens.analysis.curves import agreement, curves, curves_frame, robustness_frame
from floatlens.data.stress import StressSettings, points

POINTS = [p for test in ("clean", "noise", "layout", "order", "masks") for p in points(test, StressSettings())]


def frame(columns: dict[str, list[float]], said: dict[str, list[str]] | None = None) -> pd.DataFrame:
    rows: list[dict[str, Any]] = [
        {
            "model": "m",
            "kind": "mdm",
            "data": "d",
            "condition": name,
            "id": f"q{i}",
            "accuracy": value,
            "prediction": said[name][i] if said else "x",
        }
        for name, values in columns.items()
        for i, value in enumerate(values)
        if not np.isnan(value)
    ]
    return pd.DataFrame(rows)


def test_robustness_is_the_area_over_the_clean_score() -> None:
    ratios = {"noise-0": 1.0, "noise-0.2": 0.75, "noise-0.4": 0.5, "noise-0.6": 0.5, "noise-0.8": 0.0}
    columns = {name: [float(i < 4 * mean) for i in range(4)] for name, mean in ratios.items()} | {"clean": [1, 1, 0, 0]}
    (curve,) = curves(frame(columns), POINTS)
    np.testing.assert_allclose(curve.scores.mean, list(ratios.values()))
    area = (0.875 + 0.625 + 0.5 + 0.25) * 0.2 / 0.8
    assert float(curve.robustness.mean) == pytest.approx(area / 0.5)
    assert curve.x == [0, 0.2, 0.4, 0.6, 0.8]


def test_layouts_have_no_scale_so_their_mean_counts() -> None:
    columns = {"layout-adjacent": [1, 1], "layout-scattered": [1, 0], "layout-split": [0, 0], "clean": [1, 1]}
    (curve,) = curves(frame(columns), POINTS)
    assert [point.point for point in curve.points] == ["adjacent", "scattered", "split"]  # reversed was not asked
    assert float(curve.robustness.mean) == pytest.approx(0.5)


def test_only_questions_with_every_point_are_compared() -> None:
    nan = float("nan")
    columns = {"layout-adjacent": [0, 1, 1], "layout-scattered": [nan, 1, 0], "clean": [1, 1, 1]}
    (curve,) = curves(frame(columns), POINTS)
    assert float(curve.robustness.mean) == pytest.approx(0.75)
    assert curve.scores.n.tolist() == [3, 2]


def test_a_reference_of_nothing_leaves_robustness_open() -> None:
    (curve,) = curves(frame({"layout-adjacent": [0, 1], "clean": [0, 0]}), POINTS)
    assert np.isnan(curve.robustness.mean)


def test_masks_are_compared_with_the_fewest() -> None:
    names = [f"masks-mask-{n}" for n in (1, 2, 4)]
    (curve,) = curves(frame(dict(zip(names, ([1, 1], [1, 0], [0, 0]), strict=True))), POINTS)
    assert (curve.series, float(curve.reference.mean)) == ("mask", 1.0)
    assert float(curve.robustness.mean) == pytest.approx((0.75 * 1 + 0.25 * 2) / 3)


def test_frames_hold_what_the_curves_do() -> None:
    found = curves(frame({"layout-adjacent": [1, 0], "layout-split": [0, 0], "clean": [1, 1]}), POINTS)
    rows = curves_frame(found)
    assert rows[["test", "label", "mean", "n"]].values.tolist() == [
        ["layout", "adjacent", 0.5, 2],
        ["layout", "split", 0.0, 2],
    ]
    (one,) = robustness_frame(found).to_dict("records")
    assert (one["reference"], one["robustness"]) == (1.0, 0.25)


def test_agreement_is_over_pairs_of_orders_after_normalisation() -> None:
    said = {"order-0": ["The Ann", "x"], "order-1": ["ann.", "y"], "order-2": ["Bob", "z"]}
    (row,) = agreement(frame({name: [1, 1] for name in said}, said), POINTS).to_dict("records")
    assert row["orders"] == 3
    assert row["mean"] == pytest.approx((1 / 3 + 0) / 2)
