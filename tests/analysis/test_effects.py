"""Effects of edits against numbers worked out by hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
import pytest

from floatlens.analysis.effects import edit_effects, effects_table, measured, moved
from floatlens.records.condition import Condition
from shared.frames import RAG, answers, control, edit

ONE, FIVE = edit("drop_anchors", k=1), edit("drop_anchors", k=5)
RATES: dict[Condition, float] = {RAG: 1.0, ONE: 0.5, control(ONE): 0.9, FIVE: 0.25}


def frame(rates: Mapping[Condition, float], n: int = 20) -> pd.DataFrame:
    def more(condition: Condition, i: int, value: float) -> dict[str, Any]:
        rate = rates[condition]
        return {
            "f1": 0.5,
            "kl": None if condition == RAG else 1 - rate,
            "measured": {"speed": rate, "moved": 0.25} if i < 2 else None,
            "moved": ((1, 0, 4, 2.0 + i), (1, 3, 4, 0.0)) if i < 2 and condition != RAG else None,
        }

    return answers({one: [i < round(rate * n) for i in range(n)] for one, rate in rates.items()}, more=more)


def test_effects_are_differences_on_the_same_questions() -> None:
    rows = edit_effects(frame(RATES))
    drop = rows[(rows["metric"] == "accuracy") & (rows["settings"] == "k=1")]
    assert drop["difference"].tolist() == pytest.approx([-0.5, -0.1])
    assert drop["control"].tolist() == ["", "mass"]
    assert drop["condition"].tolist() == [ONE, control(ONE).pooled]
    assert drop["moved"].tolist() == pytest.approx([0.1, 0.1])
    assert set(drop["n"]) == {20}
    divergence = rows[(rows["metric"] == "kl") & (rows["settings"] == "k=5")].iloc[0]
    assert (divergence["unedited"], divergence["edited"], divergence["dose"]) == (0.0, 0.75, 5)


def test_draws_of_a_control_are_averaged_per_question_before_questions_are() -> None:
    """Question 0 is right under both draws, question 1 under one, and the second draw has no answer to question 2."""
    nan = float("nan")
    draws = {control(ONE, "count", 1): [1.0, 1.0, 1.0], control(ONE, "count", 2): [1.0, 0.0, nan]}
    given = {RAG: [1.0] * 3, ONE: [0.0] * 3, **draws, control(ONE, "mass", 1): [0.0, 1.0, 1.0]}
    rows = edit_effects(answers(given))
    own = rows[rows["metric"] == "accuracy"].set_index("control")
    assert own["difference"].to_dict() == pytest.approx({"": -1.0, "count": (1 + 0.5 + 1) / 3 - 1, "mass": -1 / 3})
    assert own["draws"].to_dict() == {"": 1, "count": 2, "mass": 1}
    assert set(own["n"]) == {3}
    table = effects_table(rows)
    assert table.columns == ("edit", "edit", "count control", "mass control")
    assert "means over 1 to 2 draws of each control" in table.caption


def test_exposed_questions_are_beside_all() -> None:
    """Answers of questions 0 and 1 were complete before step 1; the edit loses questions 1 and 3."""
    steps = [(0,), (0, 0), (0, 1), (2,)]
    given = answers({RAG: [1.0] * 4, ONE: [1.0, 0.0, 1.0, 0.0], control(ONE): [1.0] * 4})
    given = given.assign(decided_at=[steps[i] for i in given["index"]])
    own = edit_effects(given).query("metric == 'accuracy' and control == ''").iloc[0]
    assert (own["n"], own["difference"]) == (4, -0.5)
    assert (own["exposed"], own["difference_exposed"]) == (2, -0.5)
    later = edit_effects(given.assign(earliest_step=2.0)).query("metric == 'accuracy' and control == ''").iloc[0]
    assert (later["exposed"], later["difference_exposed"]) == (1, -1.0)
    unknown = edit_effects(given.assign(decided_at=None)).iloc[0]
    assert unknown["exposed"] == 0
    assert unknown["difference_exposed"] != unknown["difference_exposed"]


def test_without_unedited_answers_or_edits_there_are_no_effects() -> None:
    assert edit_effects(frame({ONE: 1.0})).query("metric == 'accuracy'").empty
    rows = edit_effects(frame({RAG: 1.0}))
    assert rows.empty
    assert "dose" in rows.columns


def test_without_any_divergence_there_is_none() -> None:
    """Answers of one token end before an edit that looks at the step before can act."""
    rows = edit_effects(frame(RATES).assign(kl=None))
    own = rows[rows["metric"] == "kl"]
    assert own["difference"].isna().all()
    assert set(own["n"]) == {0}
    assert set(rows[rows["metric"] == "accuracy"]["n"]) == {20}
    assert effects_table(rows, "kl").rows[0][1:] == ("–", "–")


def test_the_table_has_edits_by_models_beside_their_controls() -> None:
    given = frame(RATES)
    rows = edit_effects(pd.concat([given, given.assign(model="scale:dream", accuracy=1.0)]))
    table = effects_table(rows, labels={"scale:dream": "dream"})
    assert table.groups == (("", 1), ("m", 2), ("dream", 2))
    assert table.columns == ("edit", "edit", "mass control", "edit", "mass control")
    assert table.rows[0] == ("unedited", "100.0", "", "100.0", "")
    assert [row[0] for row in table.rows[1:]] == ["drop_anchors k=1", "drop_anchors k=5"]
    own = rows[(rows["metric"] == "accuracy") & (rows["model"] == "m") & (rows["settings"] == "k=1")].iloc[0]
    assert table.rows[1][1] == f"-50.0 [{100 * own['low']:.1f}, {100 * own['high']:.1f}]"
    assert table.rows[2][2] == ""  # asked without its control
    assert "20 questions" in table.caption
    assert effects_table(rows, "kl").rows[0] == (
        "drop_anchors k=1",
        *["0.500 [0.500, 0.500]", "0.100 [0.100, 0.100]"] * 2,
    )


def test_attention_moved_is_summed_by_step_and_layer() -> None:
    rows = moved(frame(RATES))
    own = rows[(rows["settings"] == "k=1") & (rows["control"] == "")]
    assert own[["step", "layer", "rows", "mass", "n", "mean"]].to_numpy().tolist() == [
        [1, 0, 8, 5.0, 2, 0.625],
        [1, 3, 8, 0.0, 2, 0.0],
    ]
    assert (rows["control"] == "mass").sum() == 2
    assert moved(frame({RAG: 1.0})).empty


def test_measurements_are_of_the_traced_questions() -> None:
    rows = measured(frame(RATES))
    one = rows[(rows["edit"] == "drop_anchors") & (rows["settings"] == "k=5") & (rows["quantity"] == "speed")].iloc[0]
    assert (one["mean"], one["n"]) == (0.25, 2)
    assert rows["edit"].iloc[0] == "unedited"
