"""Refresh schedules: intervals and recommendations worked out by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from floatlens.analysis import Group, Result
from floatlens.analysis.cache_schedule import cache_layers, cache_schedules, interval, schedule_of
from shared.frames import RAG, answers, control, edit

MILD, STRONG = edit("stale", least=0.99), edit("stale", least=0.9)


def group(turns: list[float], steps: list[float], model: str = "m") -> Group:
    """Samples with the same numbers but for their steps."""
    turn = np.tile(turns, (len(steps), 1))
    data = {"turn": (("sample", "layer"), turn), "top": (("sample", "layer"), turn * 0 + 0.9)}
    data |= {f"keys_{n}": (("sample", "layer"), turn * 0 + n / 10) for n in (90, 95, 99)}
    held = xr.Dataset(data | {"steps": (("sample",), steps)}, coords={"layer": range(len(turns))})
    return Group({"model": model}, {}, held)


@pytest.mark.parametrize(
    ("turn", "least", "most", "steps"),
    [
        (5.0, 0.9, 64, 4),  # arccos(0.9) = 25.84 degrees: 3 steps turn by 15, 7 by 35
        (5.0, 0.99, 64, 2),  # arccos(0.99) = 8.11: 1 step by 5, 3 by 15
        (9.0, 0.99, 64, 1),
        (0.0, 1.0, 64, 64),  # keys that do not turn may be kept as long as was looked
        (0.0, 1.0, 63, 32),
        (0.1, 1.0, 64, 1),
        (math.nan, 0.5, 64, 1),
        (1.0, 0.5, 1, 1),
    ],
)
def test_an_interval_by_hand(turn: float, least: float, most: int, steps: int) -> None:
    assert interval(turn, least, most) == steps


def test_a_schedule_is_no_longer_than_the_shortest_trace() -> None:
    assert schedule_of(group([0.0, 5.0, math.nan], [16, 8]), 0.9) == {0: 8, 1: 4, 2: 1}


def frame(saved: dict[Any, float], **scores: list[float]) -> pd.DataFrame:
    given = {RAG: [1, 1, 1, 0], MILD: scores["mild"], STRONG: scores["strong"], control(MILD, "count"): [1, 0, 0, 0]}

    def more(condition: Any, index: int, value: float) -> dict[str, Any]:
        if condition.kind != "edit":
            return {}
        return {"saved_share": saved.get(condition, 0.1), "kl": 0.25 * index, "schedule": "0-1/4"}

    return answers(given, more=more)


def test_the_largest_saving_within_the_margin_is_recommended() -> None:
    """Full recomputation is right in 3 of 4; mild in 3, too; strong in 2, which is 25 points less."""
    given = frame({MILD: 0.5, STRONG: 0.75}, mild=[1, 1, 0, 1], strong=[1, 1, 0, 0])
    found = cache_schedules(given, 1.0, "all").set_index(["settings", "control"])
    mild, strong, random = (found.loc[key] for key in (("least=0.99", ""), ("least=0.9", ""), ("least=0.99", "count")))
    assert (mild["full"], mild["accuracy"], mild["change"], mild["saved"], mild["n"]) == (0.75, 0.75, 0, 0.5, 4)
    assert (strong["change"], random["change"]) == (-0.25, -0.5)
    assert strong["low"] < -0.25 < strong["high"]
    assert mild["kl"] == pytest.approx(0.375)
    assert (mild["recommended"], strong["recommended"], random["recommended"]) == (True, False, False)
    assert list(cache_schedules(given, 25, "all").query("recommended")["settings"]) == ["least=0.9"]


def test_chosen_on_some_questions_and_reported_on_the_others() -> None:
    """Strong is right wherever full recomputation is in the first two questions and in none after them."""
    given = frame({MILD: 0.5, STRONG: 0.75}, mild=[1, 0, 1, 0], strong=[1, 1, 0, 0])
    found = cache_schedules(given).set_index(["settings", "control"])  # half: questions 0 and 1
    strong, mild = found.loc["least=0.9", ""], found.loc["least=0.99", ""]
    assert (strong["recommended"], mild["recommended"]) == (True, False)
    assert (strong["choice_change"], strong["change"], mild["choice_change"], mild["change"]) == (0, -0.5, -0.5, 0)
    assert (strong["full"], strong["accuracy"], strong["n"], strong["choice_n"]) == (0.5, 0, 2, 2)
    assert strong["kl"] == pytest.approx((0.5 + 0.75) / 2)
    assert strong["choice_kl"] == pytest.approx(0.25 / 2)
    assert found["held_out"].all()
    three = cache_schedules(given, choose=3).set_index(["settings", "control"])
    assert (three["n"] == 1).all()
    assert not three["recommended"].any()  # strong loses question 2, mild question 1
    assert cache_schedules(given, 34, 3)["recommended"].sum() == 1
    none_left = cache_schedules(given, choose=4)
    assert (none_left["n"] == 4).all()
    assert not none_left["held_out"].any()


def test_each_data_set_is_divided_by_the_places_of_its_questions() -> None:
    """One data set has the places 0 to 3, the other 10 to 13; its question 10 failed in full recomputation."""
    one = frame({MILD: 0.2, STRONG: 0.4}, mild=[1, 1, 1, 0], strong=[0, 0, 1, 0])
    other = one.assign(data="e", index=one["index"] + 10)
    other = other[~((other["index"] == 10) & (other["condition"] == RAG))]
    found = cache_schedules(pd.concat([one, other])).set_index(["settings", "control"])
    assert (found["choice_n"] == 2 + 2).all()
    assert (found["n"] == 2 + 1).all()
    assert set(cache_schedules(pd.concat([one, other]), choose=11)["n"]) == {3}  # of "e" all but place 10


def test_nothing_is_recommended_where_all_cost_too_much() -> None:
    given = frame({MILD: 0.5, STRONG: 0.75}, mild=[0, 0, 0, 0], strong=[0, 0, 0, 0])
    assert not cache_schedules(given, choose="all").recommended.any()


def test_data_sets_are_pooled_question_by_question() -> None:
    one = frame({MILD: 0.2, STRONG: 0.4}, mild=[1, 1, 1, 0], strong=[1, 1, 1, 0])
    found = cache_schedules(pd.concat([one, one.assign(data="e", saved_share=one["saved_share"] + 0.2)]), choose="all")
    assert set(found["n"]) == {8}
    assert found.set_index(["settings", "control"])["saved"]["least=0.99", ""] == pytest.approx(0.3)


def test_other_edits_and_answers_alone_give_nothing() -> None:
    assert cache_schedules(answers({RAG: [1.0], edit("drop_anchors", k=1): [0.0]})).empty
    assert cache_schedules(answers({MILD: [1.0]})).empty
    assert cache_schedules(answers({RAG: [1.0]})).empty


def test_layers_have_the_recommended_interval_and_whole_keys() -> None:
    result = Result("cacheability", {}, (group([1.0, 2.0], [8]),))
    given = frame({MILD: 0.5, STRONG: 0.75}, mild=[1, 1, 1, 0], strong=[0, 0, 0, 0])
    found = cache_layers(result, cache_schedules(given, choose="all"))
    assert found["refresh"].tolist() == [4, 4]
    assert found["turn"].tolist() == [1, 2]
    assert found[["keys_90", "keys_95", "keys_99"]].iloc[0].tolist() == [9, 10, 10]  # 9, 9.5, 9.9
    assert cache_layers(result)["refresh"].isna().all()
    mixed = cache_schedules(given.assign(schedule=[f"0-1/{2 + i % 2}" for i in range(len(given))]))
    assert cache_layers(result, mixed)["refresh"].isna().all()  # questions had different schedules
