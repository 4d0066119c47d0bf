"""Table 1 and the gains against numbers worked out by hand; text from data stays text in every form of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from floatlens.analysis.intervals import mean_of_means
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


def test_a_gain_that_every_question_shares_has_no_width_and_pairing_narrows() -> None:
    same = gains(answers(m__a__closed=[0.0] * 30, m__a__rag=[1.0] * 30))
    assert row(same, data="average", metric="accuracy")[["low", "high"]].tolist() == [1.0, 1.0]
    half = [0.0, 1.0] * 20
    paired = gains(answers(m__a__closed=half, m__a__rag=half))  # unpaired, this would be uncertain
    assert row(paired, data="a", metric="accuracy")["gain"] == 0.0
    assert row(paired, data="average", metric="accuracy")[["low", "high"]].tolist() == [0.0, 0.0]


def test_mean_of_means_weighs_groups_alike_and_draws_within_them() -> None:
    many, few = np.zeros(1000), np.array([1.0, 1.0])
    found = mean_of_means([many, few])
    assert (float(found.mean), float(found.low), float(found.high), int(found.n)) == (0.5, 0.5, 0.5, 1002)
    assert np.isnan(mean_of_means([np.ones(1)]).low)


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
