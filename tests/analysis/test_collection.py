"""Rates of a changing collection, all worked out by hand from the table in shared/collection.py."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from floatlens.analysis.collection import collection_agreement, collection_rates
from floatlens.analysis.intervals import share
from floatlens.analysis.stress import curves
from shared.collection import make_frame


@pytest.fixture
def frame(tmp_path: Path) -> pd.DataFrame:
    return make_frame(tmp_path)


@pytest.mark.parametrize(
    ("rate", "each", "counts", "whole", "n"),
    [
        ("accuracy", [1, 3 / 4, 2 / 3, 2 / 4], [3, 4, 3, 4], (3 / 4 + 3 / 4 + 1 / 3 + 1) / 4, 4),
        ("stale", [np.nan, np.nan, 1, 1 / 2], [0, 0, 2, 2], (1 / 2 + 1) / 2, 2),
        ("withdrawn", [np.nan, np.nan, 1, 1], [0, 0, 1, 1], 1.0, 1),
        ("recall", [1, 1, 1, 2 / 4], [3, 4, 3, 4], (1 + 3 / 4 + 2 / 3 + 1) / 4, 4),
    ],
)
def test_rates(frame: pd.DataFrame, rate: str, each: list[float], counts: list[int], whole: float, n: int) -> None:
    rows = collection_rates(frame)
    own = rows[rows["rate"] == rate]
    by_date = own[own["date"] != "all"]
    assert by_date["date"].tolist() == ["2020-01-01", "2021-01-01", "2022-01-01", "2023-01-01"]
    assert by_date["mean"].tolist() == pytest.approx(each, nan_ok=True)
    assert by_date["n"].tolist() == counts
    (over,) = own[own["date"] == "all"].to_dict("records")
    assert (over["mean"], over["n"]) == (pytest.approx(whole), n)


def test_intervals_are_those_of_scores(frame: pd.DataFrame) -> None:
    rows = collection_rates(frame)
    (one,) = rows[(rows["rate"] == "accuracy") & (rows["date"] == "2021-01-01")].to_dict("records")
    wanted = share(np.array([1.0, 1.0, 0.0, 1.0]))
    assert (one["low"], one["high"]) == pytest.approx((float(wanted.low), float(wanted.high)))


def test_agreement_where_nothing_relevant_changed(frame: pd.DataFrame) -> None:
    rows = collection_agreement(frame).set_index("pairs_with")
    assert rows["pairs"].to_dict() == {"all": 8, "same prompt": 4, "other documents": 4}
    assert rows["n"].to_dict() == {"all": 4, "same prompt": 3, "other documents": 4}
    wanted = {"all": (1 / 3 + 1 / 2 + 0 + 1) / 4, "same prompt": (1 / 2 + 1 + 1) / 3, "other documents": 1 / 4}
    assert rows["mean"].to_dict() == pytest.approx(wanted)


def test_a_snapshot_that_failed_breaks_the_pair(frame: pd.DataFrame) -> None:
    left = frame[~((frame["id"] == "q4") & np.array([one.x == 2 for one in frame["condition"]]))]
    rows = collection_agreement(left).set_index("pairs_with")
    assert rows.loc["all", "pairs"] == 6  # 2021 and 2023 are not successive


def test_the_curve_is_over_questions_that_always_have_an_answer(frame: pd.DataFrame) -> None:
    (curve,) = curves(frame)
    assert curve.scores.mean.tolist() == pytest.approx([1, 3 / 4, 2 / 3, 2 / 4])
    assert int(curve.robustness.n) == 2  # q1 and q2
    assert float(curve.robustness.mean) == pytest.approx((1 + 1 + 1 / 2 + 1 / 2) / 4)


def test_answers_of_other_conditions_are_not_counted(frame: pd.DataFrame) -> None:
    plain = frame.assign(snapshot=None)
    assert collection_rates(plain).empty
    assert collection_agreement(plain).empty
    both = pd.concat([frame, plain.assign(id="other")], ignore_index=True)
    pd.testing.assert_frame_equal(collection_rates(both), collection_rates(frame))
