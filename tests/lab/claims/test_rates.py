"""Error rates: every rule has worlds of each sort, controls come out right, the table marks what exceeds the limit."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from floatlens.claims import CLAIMS, VERDICTS
from floatlens_lab.claims import rates as module
from floatlens_lab.claims.cases import Case, rates, verdict
from floatlens_lab.claims.rates import LIMIT, all_cases, all_rates, false_rates, summary

STEPS, POOL = 8, 12
CASES = list(all_cases((STEPS,), POOL))


def one(claim: str, world: str) -> Case:
    (found,) = [case for case in CASES if (case.claim, case.world) == (claim, world)]
    return found


def judged(claim: str, world: str, n: int = 30, seed: int = 0) -> str:
    return verdict(one(claim, world), np.random.default_rng(seed), n)


# -- what is simulated ------------------------------------------------------------------------------------------------


def test_every_claim_is_simulated_where_it_is_true_and_where_it_is_not() -> None:
    truths: dict[str, set[str]] = {}
    for case in CASES:
        truths.setdefault(case.claim, set()).add(case.truth)
    assert set(truths) == set(CLAIMS)
    assert {claim for claim, found in truths.items() if "true" not in found} == set()
    assert {claim for claim, found in truths.items() if "neither" not in found} == set()
    # A distance between data sets has no opposite; the others have a world in which they are false.
    assert {claim for claim, found in truths.items() if "false" not in found} == {"anchors-by-task"}


def test_names_of_worlds_are_unique() -> None:
    names = [(case.claim, case.label) for case in CASES]
    assert len(set(names)) == len(names)


# -- controls, one study each -----------------------------------------------------------------------------------------

MOVES = ("mdm-moves (answer rows)", "mdm-moves (all rows)", "mdm-right", "mdm-frontier")


@pytest.mark.parametrize("world", ["noise", "shuffled"])
@pytest.mark.parametrize("claim", [*MOVES, "arm-fixed", "layers-differ", "shallow-spread"])
def test_without_anchors_no_claim_about_them_is_supported(claim: str, world: str) -> None:
    assert judged(claim, world) in ("contradicted", "too small", "undecided")


@pytest.mark.parametrize("claim", MOVES)
def test_travelling_anchors_move_and_fixed_ones_do_not(claim: str) -> None:
    assert judged(claim, "llada") == judged(claim, "dream") == "supported"
    assert judged(claim, "sink") != "supported"
    assert judged(claim, "held") != "supported"


def test_to_the_left_is_motion_and_not_to_the_right() -> None:
    assert judged("mdm-moves (answer rows)", "left") == "supported"
    assert judged("mdm-right", "left") == judged("mdm-frontier", "left") == "contradicted"


def test_a_sink_is_fixed_and_what_floats_in_an_autoregressive_model_is_not() -> None:
    assert judged("arm-fixed", "sink") == "supported"
    assert judged("arm-fixed", "llada") == judged("arm-fixed", "noise") == "contradicted"


@pytest.mark.parametrize("world", ["noise", "shuffled"])
@pytest.mark.parametrize("variable", ["absorbed", "excess"])
def test_two_models_without_anchors_show_nothing_of_absorption(variable: str, world: str) -> None:
    claim = f"mdm-absorbs-less ({variable})"
    assert judged(claim, f"{world} against {world}", n=100) == "undecided"


@pytest.mark.parametrize("variable", ["absorbed", "excess"])
def test_absorption_is_compared_where_there_are_anchors(variable: str) -> None:
    claim = f"mdm-absorbs-less ({variable})"
    assert judged(claim, "llada against sink") == judged(claim, "noise against sink") == "supported"
    assert judged(claim, "sink against weak-sink") == "contradicted"


def test_one_anchor_is_not_dispersed_and_three_are() -> None:
    assert judged("mdm-dispersed", "held against sink") == "supported"
    assert judged("mdm-dispersed", "sink against sink") == "too small"
    assert judged("mdm-dispersed", "noise against sink") == "contradicted"


@pytest.mark.parametrize(
    ("claim", "world", "verdict"),
    [
        ("qk-split", "angle, then norm, tail to the right", "contradicted"),
        ("arm-angular", "angle four times the norm", "supported"),
        ("arm-angular", "norm four times the angle", "contradicted"),
        ("structure-then-content", "content, then structure", "contradicted"),
        ("anchors-by-task", "distance 0.25", "supported"),
        ("anchors-by-task", "the same anchors", "undecided"),
        ("anchors-by-task", "one data set", "undecided"),
        ("retrieval-deep", "shallow heads", "contradicted"),
        ("retrieval-deep", "no head copies", "undecided"),
        ("flow-follows-gold (attention)", "clear, tail to the right", "supported"),
        ("flow-follows-gold (rollout)", "one position only, tail to the right", "undecided"),
        ("mdm-flow (attention)", "clear", "supported"),
        ("mdm-flow (rollout)", "one position only", "undecided"),
        ("rag-gain", "ceiling", "undecided"),
        ("rag-gain (headroom)", "three times the share", "supported"),
        ("rag-accuracy", "60 and 90 %", "contradicted"),
        ("rag-accuracy", "equal, both at the ceiling", "undecided"),
        ("robust-noise", "flat and falling", "supported"),
        ("robust-noise", "one at the floor", "undecided"),
        ("robust-position", "lost in the middle and flat", "contradicted"),
        ("robust-layout", "5 and 35 points lost", "supported"),
        ("robust-layout", "both at the ceiling", "undecided"),
        ("arm-without-anchors", "hurt", "supported"),
        ("arm-without-anchors", "control of another mass", "undecided"),
        ("arm-without-anchors", "all answers complete before the edit", "undecided"),
        ("mdm-without-anchors", "no answer changes", "supported"),
        ("mdm-without-anchors", "both collapse", "contradicted"),
        ("anchors-held", "next to nothing moved", "undecided"),
        ("anchors-held", "a gain", "contradicted"),
    ],
)
def test_a_clear_world_is_judged_as_it_is(claim: str, world: str, verdict: str) -> None:
    assert judged(claim, world, n=100) == verdict


# -- rates and their table --------------------------------------------------------------------------------------------


def test_rates_are_shares_and_the_seed_decides_them() -> None:
    case = one("rag-accuracy", "60 and 45 %")
    first, again, other = (rates(case, 20, 40, seed) for seed in (0, 0, 1))
    assert first == again != other
    assert sum(first.values()) == pytest.approx(1)
    assert set(first) == {"supported", "too small", "contradicted", "undecided"}


def _few(steps: Sequence[int], pool: int) -> list[Case]:
    wanted = {
        ("rag-accuracy", "90 and 60 %"),
        ("rag-accuracy", "equal, 50 %"),
        ("mdm-right", "speed 0, tail to the left"),
    }
    return [case for case in CASES if (case.claim, case.world) in wanted]


@pytest.mark.parametrize(
    ("drawn", "studies", "rate"),
    [([0.03], 400, 0.03), ([0.06, 0.02], 1600, 0.02), ([0.06, 0.05, 0.045], 8000, 0.045)],
)
def test_a_rate_close_to_the_limit_is_simulated_again_with_other_studies(
    drawn: list[float], studies: int, rate: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the last studies count: those that made the rate suspicious would bias it upwards."""
    asked: list[tuple[int, int]] = []

    def rates(case: Case, n: int, studies: int, seed: int = 0) -> dict[str, float]:
        asked.append((studies, seed))
        return dict.fromkeys(VERDICTS, 0.0) | {"supported": drawn[seed]}

    monkeypatch.setattr(module, "rates", rates)
    case = Case("mdm-right", "any", "false", lambda random, n: [])
    assert module._rates(case, 20, 400) == {"studies": studies} | rates(case, 20, studies, len(drawn) - 1)
    assert asked[: len(drawn)] == [(400, 0), (1600, 1), (8000, 2)][: len(drawn)]
    assert module._rates(case, 20, 400)["supported"] == rate


def test_all_rates_has_a_row_for_each_case_and_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "all_cases", _few)
    told: list[str] = []
    found = all_rates((8,), (20, 30), 40, 5, told.append)
    assert told == ["simulating mdm-right", "simulating rag-accuracy"]
    assert list(found["claim"]) == ["mdm-right"] * 2 + ["rag-accuracy"] * 4  # as in CLAIMS
    assert list(found["studies"]) == [40] * 2 + [20] * 4  # a quarter would be 10, fewer than any rate is given for
    pd.testing.assert_frame_equal(found, all_rates((8,), (20, 30), 40, 5, told.append))


def _row(claim: str, world: str, truth: str, n: int, supported: float, contradicted: float) -> dict[str, object]:
    rest = {"steps": 8 if claim == "a" else None, "studies": 100, "too small": 0.0, "undecided": 0.0}
    return (
        {"claim": claim, "world": world, "truth": truth, "n": n}
        | rest
        | {
            "supported": supported,
            "contradicted": contradicted,
        }
    )


FOUND = pd.DataFrame(
    [
        _row("a", "so", "true", 20, 0.5, 0.01),
        _row("a", "so", "true", 100, 0.9, 0.02),
        _row("a", "less so", "true", 20, 0.3, 0.0),
        _row("a", "less so", "true", 100, 0.7, 0.0),
        _row("a", "at the limit", "neither", 20, 0.06, 0.05),
        _row("a", "not so", "false", 100, 0.04, 1.0),
        _row("b", "so", "true", 20, 1.0, 0.0),
        _row("b", "not so", "false", 20, 0.0, 0.9),
    ]
).astype({"steps": "Int64"})


def test_which_verdicts_are_false() -> None:
    assert list(false_rates(FOUND, "supported")["world"]) == ["at the limit", "not so", "not so"]
    assert set(false_rates(FOUND, "contradicted")["world"]) == {"so", "less so", "at the limit"}


def test_the_summary_has_the_worst_rate_of_each_sort_and_the_power() -> None:
    head, _, a, b, _, caption = summary(FOUND).splitlines()
    assert "n = 20" in head
    cells = "at the limit, 8 steps, n = 20"
    assert a == f"| a | **6 %** | {cells} | 5 % | {cells} | 30 %, typically 40 % | 70 %, typically 80 % |"
    assert b == "| b | 0 % | 1 cells | 0 % | 1 cells | 100 %, typically 100 % | – |"
    assert "1 of 9 cells" in caption
    assert "± 2.2 with 100 studies" in caption  # √(0.05 · 0.95 ÷ 100)


# -- in full ----------------------------------------------------------------------------------------------------------

TABLE = Path(__file__).parents[3] / "docs" / "claims" / "error-rates.csv"


def test_no_rule_of_the_table_exceeds_the_limit() -> None:
    found = pd.read_csv(TABLE)
    assert set(found["claim"]) == set(CLAIMS)
    for sort in ("supported", "contradicted"):
        wrong = false_rates(found, sort)
        assert list(wrong.loc[wrong[sort] > LIMIT, ["claim", "world", "n"]].itertuples(index=False)) == []


@pytest.mark.slow
def test_no_rule_exceeds_the_limit_with_another_number_of_studies() -> None:
    """Give or take three binomial errors of a rate of 5 %."""
    found = all_rates((8, 32), (20, 50), 400, 40, lambda text: None)
    room = 3 * np.sqrt(LIMIT * (1 - LIMIT) / found["studies"])
    for sort in ("supported", "contradicted"):
        wrong = false_rates(found.assign(room=room), sort)
        assert wrong[wrong[sort] > LIMIT + wrong["room"]].empty
