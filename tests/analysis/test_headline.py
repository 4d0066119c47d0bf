"""Headline rows: the numbers of the claims, units, and the order of models."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from floatlens.analysis import analyse
from floatlens.analysis.headline import headline
from floatlens.claims import claims
from shared.frames import CLEAN, CLOSED, RAG, answers, control, edit, stressed
from shared.synthetic import ready, samples, with_control


def test_rows_of_traces_are_the_numbers_of_the_claims() -> None:
    traces = [
        one for name, causal in (("moving", False), ("fixed", True)) for one in samples(name, causal=causal, n=20)
    ]
    results = analyse([*with_control(traces[:20]), *with_control(traces[20:])], ["drift", "flow"])
    rows = {row.title: row for row in headline(results, models=["fixed-arm", "moving-mdm"])}
    assert list(rows["Anchor stability, all rows"].values) == ["fixed-arm", "moving-mdm"]  # as asked for, no controls
    found = {one.id: one for one in claims(results)}
    fixed, moves, right = (found[id].parts for id in ("arm-fixed", "mdm-moves (answer rows)", "mdm-right"))
    for title, model, part in (
        ("Attention on the first position, all rows", "fixed-arm", fixed[0]),
        ("Anchor stability, all rows", "fixed-arm", fixed[2]),
        ("Attention on the strongest key, answer rows", "moving-mdm", moves[0]),
        ("Anchor stability, answer rows", "moving-mdm", moves[2]),
        ("Anchor speed, answer rows", "moving-mdm", right[2]),
    ):
        one = rows[title].values[model]
        for name in ("mean", "low", "high", "n"):
            assert float(getattr(one, name)) == float(getattr(part.found, name)), (title, name)
    assert rows["Anchor speed, answer rows"].cell("moving-mdm") == "2 [2, 2]"
    assert rows["Anchor speed, answer rows"].unit == "positions per token written"
    for way, title in (("attention", "Gold lift of attention"), ("rollout", "Gold lift of the rollout")):
        one = rows[f"{title}, gold at position 2 of 3"].values["moving-mdm"]
        (part, _) = next(
            c for c in claims(results) if (c.id, c.model) == (f"flow-follows-gold ({way})", "moving-mdm")
        ).parts
        for name in ("mean", "low", "high"):
            assert float(getattr(one, name)) == pytest.approx(math.exp(float(getattr(part.found, name))))


def test_one_question_has_no_interval_and_says_so() -> None:
    rows = {row.title: row for row in headline(analyse(ready("moving", causal=False), ["drift"]))}
    assert rows["Anchor speed, answer rows"].cell("moving-mdm") == "2 (n = 1, no interval)"
    assert rows["Anchor speed, answer rows"].cell("another") == ""


def test_rows_of_answers_are_in_percentage_points() -> None:
    drop = edit("drop_anchors", k=1)
    right = [1.0] * 10
    half = [1.0, 0.0] * 5
    given = {CLOSED: half, RAG: right, drop: half, control(drop): right, edit("drop_anchors", k=5): half}
    noise = {CLEAN: right, stressed("noise", 0.0): right, stressed("noise", 0.8): half}
    whole = pd.concat([answers(given | noise, model="b"), answers(given | noise, model="a")])
    rows = {row.title: row for row in headline({}, whole)}
    assert list(rows) == ["Gain from documents, d", "Robustness to noise, d", "Effect of drop_anchors k=1, d"]
    assert list(rows["Gain from documents, d"].values) == ["b", "a"]
    assert rows["Gain from documents, d"].unit == "percentage points"
    assert rows["Gain from documents, d"].cell("a").startswith("+50.0 [+")
    assert rows["Effect of drop_anchors k=1, d"].cell("a").startswith("-50.0 [-")
    assert float(rows["Robustness to noise, d"].values["a"].mean) == pytest.approx(0.75)


def test_without_anything_there_are_no_rows() -> None:
    assert headline({}) == []
