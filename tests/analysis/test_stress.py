"""Stress curves: robustness against areas worked out by hand, pairing, and agreement over orders."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from floatlens.analysis.stress import agreement, curves, curves_frame, misled_curves, points_of, robustness_frame
from shared import frames
from shared.frames import CLEAN, stressed

LAYOUTS = ("adjacent", "scattered", "reversed", "split")


def point(name: str) -> Any:
    """`noise-0.2`, `layout-split`, `masks-mask-4` or `clean`."""
    test, *series, place = name.split("-") if "-" in name else ("", "")
    if name == "clean":
        return CLEAN
    if test == "layout":
        return stressed(test, LAYOUTS.index(place), place)
    return stressed(test, float(place), series=series[0] if series else None)


def frame(columns: dict[str, list[float]], said: dict[str, list[str]] | None = None) -> pd.DataFrame:
    at = {point(name): name for name in columns}
    given = {point(name): values for name, values in columns.items()}
    return frames.answers(given, more=lambda c, i, _: {"prediction": said[at[c]][i]} if said else {})


def test_points_come_by_test_series_and_place() -> None:
    given = [
        *(stressed("masks", 1, series="dot"), stressed("masks", 4, series="mask"), stressed("masks", 1, series="mask")),
        *(stressed("noise", 0.8, "4"), stressed("noise", 0.2, "1"), CLEAN),
    ]
    assert points_of(frames.answers({one: [1.0] for one in [frames.RAG, *given]})) == [
        CLEAN,
        *given[4:2:-1],
        *given[2:0:-1],
        given[0],
    ]


def test_robustness_is_the_area_over_the_clean_score() -> None:
    ratios = {"noise-0": 1.0, "noise-0.2": 0.75, "noise-0.4": 0.5, "noise-0.6": 0.5, "noise-0.8": 0.0}
    columns = {name: [float(i < 4 * mean) for i in range(4)] for name, mean in ratios.items()} | {"clean": [1, 1, 0, 0]}
    (curve,) = curves(frame(columns))
    np.testing.assert_allclose(curve.scores.mean, list(ratios.values()))
    area = (0.875 + 0.625 + 0.5 + 0.25) * 0.2 / 0.8
    assert float(curve.robustness.mean) == pytest.approx(area / 0.5)
    assert curve.x == [0, 0.2, 0.4, 0.6, 0.8]


def test_layouts_have_no_scale_so_their_mean_counts() -> None:
    columns = {"layout-adjacent": [1, 1], "layout-scattered": [1, 0], "layout-split": [0, 0], "clean": [1, 1]}
    (curve,) = curves(frame(columns))
    assert [point.point for point in curve.points] == ["adjacent", "scattered", "split"]  # reversed was not asked
    assert float(curve.robustness.mean) == pytest.approx(0.5)


def test_only_questions_with_every_point_are_compared() -> None:
    nan = float("nan")
    columns = {"layout-adjacent": [0, 1, 1], "layout-scattered": [nan, 1, 0], "clean": [1, 1, 1]}
    (curve,) = curves(frame(columns))
    assert float(curve.robustness.mean) == pytest.approx(0.75)
    assert curve.scores.n.tolist() == [3, 2]


def test_a_reference_of_nothing_leaves_robustness_open() -> None:
    (curve,) = curves(frame({"layout-adjacent": [0, 1], "clean": [0, 0]}))
    assert np.isnan(curve.robustness.mean)


def test_without_its_reference_robustness_is_open() -> None:
    (curve,) = curves(frame({"layout-adjacent": [0, 1], "layout-split": [1, 1]}))
    assert np.isnan([curve.robustness.mean, curve.reference.mean]).all()
    assert curve.scores.mean.tolist() == [0.5, 1.0]


def test_masks_are_compared_with_the_fewest() -> None:
    names = [f"masks-mask-{n}" for n in (1, 2, 4)]
    (curve,) = curves(frame(dict(zip(names, ([1, 1], [1, 0], [0, 0]), strict=True))))
    assert (curve.series, float(curve.reference.mean)) == ("mask", 1.0)
    assert float(curve.robustness.mean) == pytest.approx((0.75 * 1 + 0.25 * 2) / 3)


def test_frames_hold_what_the_curves_do() -> None:
    found = curves(frame({"layout-adjacent": [1, 0], "layout-split": [0, 0], "clean": [1, 1]}))
    rows = curves_frame(found)
    assert rows[["test", "label", "mean", "n"]].values.tolist() == [
        ["layout", "adjacent", 0.5, 2],
        ["layout", "split", 0.0, 2],
    ]
    (one,) = robustness_frame(found).to_dict("records")
    assert (one["reference"], one["robustness"]) == (1.0, 0.25)


def test_agreement_is_over_pairs_of_orders_after_normalisation() -> None:
    said = {"order-0": ["The Ann", "x"], "order-1": ["ann.", "y"], "order-2": ["Bob", "z"]}
    (row,) = agreement(frame({name: [1, 1] for name in said}, said)).to_dict("records")
    assert row["orders"] == 3
    assert row["mean"] == pytest.approx((1 / 3 + 0) / 2)


def test_misled_rates_along_a_curve() -> None:
    columns = {"wrong-0": [1, 1], "wrong-0.5": [1, 0], "wrong-1": [0, 0], "noise-0": [1, 1], "clean": [1, 1]}
    named = {point("wrong-0"): (0.0, 0.0), point("wrong-0.5"): (0.0, 1.0), point("wrong-1"): (1.0, 1.0)}
    given = {point(name): values for name, values in columns.items()}
    made = frames.answers(given, more=lambda c, i, _: {"misled": named[c][i]} if c in named else {})
    (curve,) = misled_curves(made)
    assert (curve.test, curve.metric) == ("wrong", "misled")
    np.testing.assert_allclose(curve.scores.mean, [0, 0.5, 1])
    assert curves_frame([curve])["n"].tolist() == [2, 2, 2]
    assert misled_curves(frames.answers({point("noise-0"): [1, 1]})) == []
