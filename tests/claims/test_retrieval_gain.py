"""Verdicts on gains and accuracy, on answers that were made to have them or not."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
import pytest

from floatlens.claims import Claim
from floatlens.claims.registry import answer_claims
from floatlens.records.condition import Condition
from shared import frames
from shared.frames import CLOSED, RAG


def answers(rates: Mapping[str, Mapping[Condition, float]], n: int = 60, data: str = "d") -> pd.DataFrame:
    """Models named mdm… or arm…, each condition with the share of right answers; the first questions are right."""
    made = [
        frames.answers(
            {c: [i < round(r * n) for i in range(n)] for c, r in given.items()}, model=model, kind=model[:3], data=data
        )
        for model, given in rates.items()
    ]
    whole = pd.concat(made, ignore_index=True)
    return whole.iloc[np.random.default_rng(0).permutation(len(whole))].sort_values("model", kind="stable")


def asked(mdm: tuple[float, float], arm: tuple[float, float], n: int = 60, data: str = "d") -> pd.DataFrame:
    """One model of each kind, closed book and with documents."""
    return answers({"mdm": {CLOSED: mdm[0], RAG: mdm[1]}, "arm": {CLOSED: arm[0], RAG: arm[1]}}, n, data)


def judged(given: pd.DataFrame, id: str) -> Claim:
    (found,) = [one for one in answer_claims(given) if one.id == id]
    return found


def effects(found: Claim) -> list[float]:
    return [float(part.found.mean) for part in found.parts]


# -- points -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mdm", "arm", "verdict"),
    [
        ((0.0, 0.9), (0.1, 0.3), "supported"),
        ((0.0, 0.3), (0.1, 0.3), "too small"),  # half as much again, not twice as much
        ((0.0, 0.05), (0.1, 0.5), "contradicted"),
        ((0.4, 0.8), (0.4, 0.6), "undecided"),  # twice as much, to the question
        ((0.4, 0.4), (0.4, 0.4), "undecided"),  # no gain at all
        ((0.5, 0.4), (0.8, 0.2), "contradicted"),  # less harm is no help: −0.1 and −0.6
    ],
)
def test_gain_is_compared_with_twice_that_of_the_others(
    mdm: tuple[float, float], arm: tuple[float, float], verdict: str
) -> None:
    found = judged(asked(mdm, arm, n=400), "rag-gain")
    diffusion, autoregressive = mdm[1] - mdm[0], arm[1] - arm[0]
    assert found.verdict == verdict
    expected = [diffusion - 2 * autoregressive, diffusion - autoregressive, diffusion]
    assert effects(found) == pytest.approx(expected, abs=1e-9)
    assert (found.subject, found.rests_on) == ("mdm against arm, d", "1 diffusion and 1 autoregressive")


def test_what_decides_is_the_part_that_fails() -> None:
    harm = judged(asked((0.5, 0.4), (0.8, 0.2)), "rag-gain")
    assert [part.verdict for part in harm.parts] == ["supported", "supported", "contradicted"]
    assert harm.statistic == "accuracy gain of diffusion models"


def test_a_gain_that_nobody_could_double_is_not_judged() -> None:
    """From 10 to 70 % is 60 points; twice that is more than there is."""
    found = judged(asked((0.0, 1.0), (0.1, 0.7)), "rag-gain")
    assert (found.verdict, found.parts) == ("undecided", ())
    assert found.note == "cannot be judged here: twice the autoregressive gain of 60 points exceeds the 100 points left"
    assert found.changes == found.note
    assert found.survives is None
    just = judged(asked((0.2, 1.0), (0.1, 0.5)), "rag-gain")  # 80 points left, 80 wanted
    assert just.parts


def test_data_sets_count_alike_however_many_questions_they_have() -> None:
    """Gains 0.6 and 0.1 in a set of 60 questions, 0.2 and 0.1 in one of 20: 0.4 and 0.1 together."""
    both = pd.concat([asked((0.0, 0.6), (0.1, 0.2), data="a"), asked((0.5, 0.7), (0.1, 0.2), n=20, data="b")])
    found = judged(both, "rag-gain")
    assert effects(found) == pytest.approx([0.4 - 2 * 0.1, 0.4 - 0.1, 0.4])
    assert (found.subject, found.n) == ("mdm against arm, a + b", 80)
    headroom = judged(both, "rag-gain (headroom)")
    assert effects(headroom) == pytest.approx([(0.6 / 1 + 0.2 / 0.5) / 2 - 0.1 / 0.9])
    assert effects(judged(both, "rag-accuracy")) == pytest.approx([(0.4 + 0.5) / 2])


def test_data_sets_of_other_models_are_another_comparison() -> None:
    other = asked((0.0, 0.6), (0.1, 0.2), data="b").replace({"model": {"arm": "arm2"}})
    found = [one for one in answer_claims(pd.concat([asked((0.0, 0.6), (0.1, 0.2)), other])) if one.id == "rag-gain"]
    assert [one.subject for one in found] == ["mdm against arm, d", "mdm against arm2, b"]


def test_models_of_a_kind_are_averaged() -> None:
    rates = {"mdm1": (0.0, 0.9), "mdm2": (0.0, 0.5), "arm": (0.1, 0.3)}
    found = judged(
        answers({model: dict(zip((CLOSED, RAG), both, strict=True)) for model, both in rates.items()}), "rag-gain"
    )
    assert effects(found) == pytest.approx([0.7 - 0.4, 0.7 - 0.2, 0.7])
    assert found.rests_on == "2 diffusion and 1 autoregressive"


# -- headroom ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mdm", "arm", "verdict"),
    [
        ((0.5, 0.9), (0.0, 0.4), "supported"),  # the same points, 80 and 40 % of what was left
        ((0.0, 0.4), (0.5, 0.9), "contradicted"),
        ((0.0, 0.4), (0.5, 0.7), "undecided"),  # 40 % of it both
    ],
)
def test_the_gain_as_a_share_of_what_was_left(mdm: tuple[float, float], arm: tuple[float, float], verdict: str) -> None:
    found = judged(asked(mdm, arm, n=100), "rag-gain (headroom)")
    shares = [(rag - closed) / (1 - closed) for closed, rag in (mdm, arm)]
    assert found.verdict == verdict
    assert effects(found) == pytest.approx([shares[0] - shares[1]], abs=1e-9)
    assert (
        found.note
        == f"share of the headroom gained: diffusion {100 * shares[0]:.3g} %, autoregressive {100 * shares[1]:.3g} %"
    )


def test_without_headroom_no_share_of_it_can_be_gained() -> None:
    found = judged(asked((0.5, 0.9), (1.0, 1.0)), "rag-gain (headroom)")
    assert (found.verdict, found.parts) == ("undecided", ())
    assert found.note == "cannot be judged here: no headroom, closed-book accuracy of at least 99 %: arm on d"


def test_a_data_set_without_headroom_is_left_out_and_named() -> None:
    both = pd.concat([asked((0.5, 0.9), (0.5, 0.6), data="a"), asked((0.5, 0.9), (1.0, 1.0), data="b")])
    found = judged(both, "rag-gain (headroom)")
    assert (found.subject, found.effect, found.verdict) == ("mdm against arm, a", pytest.approx(0.6), "supported")
    assert found.note.endswith("; no headroom, closed-book accuracy of at least 99 %: arm on b")


# -- accuracy ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mdm", "arm", "verdict"), [(0.9, 0.5, "supported"), (0.5, 0.9, "contradicted"), (0.5, 0.5, "undecided")]
)
def test_accuracy_with_documents_is_compared_as_it_is(mdm: float, arm: float, verdict: str) -> None:
    given = answers({"mdm": {RAG: mdm}, "arm": {RAG: arm}})
    (found,) = answer_claims(given)  # nothing else can be judged without closed-book answers
    assert (found.id, found.verdict, found.effect) == ("rag-accuracy", verdict, pytest.approx(mdm - arm))


def test_two_kinds_that_answer_everything_cannot_be_told_apart() -> None:
    found = judged(asked((0.5, 1.0), (0.5, 1.0)), "rag-accuracy")
    assert (found.parts, found.note) == ((), "cannot be judged here: both kinds answer at least 99 % with documents")
    assert judged(asked((0.5, 1.0), (0.5, 0.9)), "rag-accuracy").parts


# -- what counts ------------------------------------------------------------------------------------------------------


def test_only_what_all_models_answered_counts() -> None:
    both = asked((0.0, 1.0), (0.0, 0.2), n=20)
    found = judged(both[(both["model"] == "mdm") | both["id"].isin([f"q{i}" for i in range(9)])], "rag-gain")
    assert {int(part.found.n) for part in found.parts} == {9}
    assert found.verdict == "undecided"
    assert answer_claims(both[both["model"] == "mdm"]) == []  # no model of the other kind
    assert [one.id for one in answer_claims(both[both["kind"] == "rag"])] == ["rag-accuracy"]
    assert answer_claims(both.iloc[:0]) == []
