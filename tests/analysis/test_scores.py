"""Table 1 and the gains against numbers worked out by hand; text from data stays text in every form of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from floatlens.analysis.intervals import average_share_difference, share_difference
from floatlens.analysis.scores import gains, scores, table_one
from floatlens.records.condition import CLOSED, RAG
from shared import frames


def answers(**scores: list[float]) -> pd.DataFrame:
    """`model/data/condition` to the accuracy of questions 0, 1, …; F1 is half of it."""
    made = []
    for key, values in scores.items():
        model, data, condition = key.split("__")
        made.append(frames.answers({{"closed": CLOSED, "rag": RAG}[condition]: values}, model=model, data=data))
    return pd.concat(made, ignore_index=True)


TWO = answers(
    m__a__closed=[0, 0, 1, 0], m__a__rag=[1, 1, 1, 0], m__b__closed=[0, 0], m__b__rag=[1, 0], n__a__closed=[1, 1, 1, 1]
)


def row(frame: pd.DataFrame, **where: str) -> pd.Series[Any]:
    for column, value in where.items():
        frame = frame[frame[column] == value]
    assert len(frame) == 1
    return frame.iloc[0]


def test_scores_are_means_over_questions() -> None:
    found = row(scores(TWO), model="m", data="a", kind="rag", metric="accuracy")
    assert (found["mean"], found["n"]) == (0.75, 4)
    assert found["low"] <= 0.75 <= found["high"]
    assert row(scores(TWO), model="m", data="b", kind="rag", metric="f1")["mean"] == 0.25


def test_gains_are_paired_and_data_sets_count_alike() -> None:
    found = gains(TWO)
    one = row(found, model="m", data="a", metric="accuracy")
    assert (one["before"], one["after"], one["gain"], one["n"]) == (0.25, 0.75, 0.5, 4)
    total = row(found, model="m", data="average", metric="accuracy")
    assert (total["before"], total["after"], total["gain"], total["n"]) == (0.125, 0.625, 0.5, 6)
    both = row(found, model="m", data="average", metric="average")  # accuracy and F1, which is half of it
    assert both["gain"] == pytest.approx(0.375)
    assert "n" not in set(found["model"])  # asked closed book only


def test_questions_that_one_condition_lacks_do_not_count() -> None:
    found = gains(answers(m__a__closed=[1, 0, 0], m__a__rag=[1, 1]))
    one = row(found, model="m", data="a", metric="accuracy")
    assert (one["before"], one["after"], one["n"]) == (0.5, 1.0, 2)


def test_scores_have_wilsons_interval_where_all_are_right_too() -> None:
    """Of 20 right answers: 20 ÷ (20 + 1.96²) = 0.839 to 1; F1 is 0.5 in all of them."""
    found = scores(answers(m__a__rag=[1.0] * 20))
    assert row(found, metric="accuracy")[["low", "high"]].tolist() == pytest.approx([20 / (20 + 1.959964**2), 1.0])
    assert row(found, metric="f1")[["low", "high"]].tolist() == [0.5, 0.5]


def test_gains_have_an_interval_where_every_question_gains_and_pairing_narrows_it() -> None:
    same = gains(answers(m__a__closed=[0.0] * 30, m__a__rag=[1.0] * 30))
    low, high = row(same, data="a", metric="accuracy")[["low", "high"]]
    assert low == pytest.approx((30 - 1.959964**2) / (30 + 1.959964**2))  # by hand: Tango where all pairs differ alike
    assert high == 1
    half = [0.0, 1.0] * 20
    paired = row(gains(answers(m__a__closed=half, m__a__rag=half)), data="a", metric="accuracy")
    assert paired["gain"] == 0.0
    alone = share_difference(np.array(half), np.array(half), paired=False)
    assert 0 < paired["high"] < 0.5 * float(alone.high)
    assert -paired["low"] == pytest.approx(paired["high"])


def test_gains_of_several_sets_put_their_intervals_together() -> None:
    found = gains(TWO)
    sets = [(np.array(new), np.array(old)) for old, new in (([0.0, 0, 1, 0], [1.0, 1, 1, 0]), ([0.0, 0], [1.0, 0]))]
    expected = average_share_difference(sets)
    total = row(found, model="m", data="average", metric="accuracy")
    assert total[["low", "high"]].tolist() == pytest.approx([float(expected.low), float(expected.high)])
    one = row(found, model="m", data="a", metric="accuracy")
    alone = share_difference(*sets[0], paired=True)
    assert one[["low", "high"]].tolist() == pytest.approx([float(alone.low), float(alone.high)])


def test_table_one() -> None:
    table = table_one(TWO, [("a", "Set A"), ("b", "Set B")])
    assert table.columns == ("model", "Acc", "F1", "Acc", "F1", "", "")
    closed, rag, other = table.rows
    assert closed == ("m", "25.0", "12.5", "0.0", "0.0", "9.4", "")
    assert rag[:6] == ("m w/ RAG", "75.0", "37.5", "50.0", "25.0", "46.9")
    assert rag[6].startswith("+37.5 [")
    assert other == ("n", "100.0", "50.0", "", "", "75.0", "")
    assert "6 questions" in table.caption
    assert [name for name, _ in table.groups] == ["", "Set A", "Set B", "Avg.", "Gain"]


def test_an_average_over_some_data_sets_names_them() -> None:
    """With the whole row in view, "Avg. 100.0" beside an accuracy of 95 would look wrong."""
    table = table_one(answers(m__a__closed=[0, 1], m__a__rag=[1, 1], m__b__rag=[0, 1]), [("a", "A"), ("b", "B")])
    assert [name for name, _ in table.groups] == ["", "A", "B", "Avg. (A)", "Gain"]
    assert table.rows[1][1:6] == ("100.0", "50.0", "50.0", "25.0", "75.0")


def test_the_papers_rows_stand_below_where_they_are_known() -> None:
    table = table_one(answers(m__nq__closed=[1.0, 0.0]), [("nq", "NQ")], paper=True)
    rows = {row[0]: row[1:] for row in table.rows}
    assert rows["LLaDA w/ RAG (arXiv 2601.07894, Table 1)"] == ("55.30", "", "48.20", "+25.68")
    assert rows["Llama (arXiv 2601.07894, Table 1)"] == ("15.69", "", "28.89", "")


def named(given: dict[Any, list[tuple[float, float]]], data: str = "a") -> pd.DataFrame:
    """Accuracy and misled of questions 0, 1, … under each condition."""
    return frames.answers(
        {one: [right for right, _ in values] for one, values in given.items()},
        data=data,
        more=lambda condition, i, _: {"misled": given[condition][i][1]},
    )


RIGHT, MISLED, BOTH, NONE = (1.0, 0.0), (0.0, 1.0), (1.0, 1.0), (0.0, 0.0)


def test_right_misled_and_none_add_up() -> None:
    found = scores(named({RAG: [RIGHT, RIGHT, RIGHT, MISLED, BOTH, NONE, NONE, NONE]}))
    means = found.set_index("metric")["mean"]
    assert means[["accuracy", "right", "misled", "none"]].tolist() == [4 / 8, 3 / 8, 2 / 8, 3 / 8]
    one = row(found, metric="misled")
    z2 = 1.959963984540054**2  # Wilson, written out
    middle, half = (0.25 + z2 / 16) / (1 + z2 / 8), (z2 * (0.25 * 0.75 / 8 + z2 / 256)) ** 0.5 / (1 + z2 / 8)
    assert (one["low"], one["high"]) == pytest.approx((middle - half, middle + half), abs=1e-9)
    assert set(scores(TWO)["metric"]) == {"accuracy", "f1", "exact_match"}  # nothing is named there


def test_misled_questions_are_paired_and_have_a_column() -> None:
    frame = named({CLOSED: [NONE, NONE, MISLED, RIGHT], RAG: [RIGHT, MISLED, MISLED, BOTH]})
    both = pd.concat([frame, answers(m__b__closed=[0, 1], m__b__rag=[1, 1])])
    gained = gains(both)
    one = row(gained, data="a", metric="misled")
    assert (one["before"], one["after"], one["gain"], one["n"]) == (0.25, 0.75, 0.5, 4)
    expected = share_difference(np.array([0, 1, 1, 1.0]), np.array([0, 0, 1, 0.0]), paired=True).numbers
    assert (one["low"], one["high"]) == (expected["low"], expected["high"])
    assert row(gained, data="average", metric="misled")["n"] == 4  # of the one set that names wrong answers
    table = table_one(both, [("a", "A"), ("b", "B")])
    assert table.columns == ("model", "Acc", "F1", "Misled", "Acc", "F1", "", "")
    assert table.groups[1:3] == (("A", 3), ("B", 2))
    assert table.rows[1][1:6] == ("50.0", "25.0", "75.0", "100.0", "50.0")
    assert "Misled: " in table.caption
    assert "Misled" not in table_one(TWO, [("a", "A"), ("b", "B")]).caption


def test_the_share_of_parts_is_a_score_of_its_own() -> None:
    frame = frames.answers({RAG: [1.0, 0.0]}, more=lambda c, i, right: {"parts": (1.0, 0.5)[i]})
    assert row(scores(frame), metric="parts")["mean"] == 0.75
