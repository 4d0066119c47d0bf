"""Verdicts on stress tests, on answers drawn from curves that are known: true, false, no effect, ceiling, floor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import permutations

import numpy as np
import pandas as pd
import pytest

from floatlens.analysis.intervals import estimate, no_narrower_than_normal
from floatlens.claims import Claim
from floatlens.claims.registry import answer_claims
from floatlens.claims.robustness import spread_over_places
from floatlens.records.condition import Condition
from shared import frames
from shared.frames import CLEAN, stressed

PLACES = [stressed("position", x, f"{x + 1} of 10") for x in (0, 4, 9)]
LAYOUTS = [stressed("layout", x, name) for x, name in enumerate(("scattered", "adjacent", "reversed"))]
NOISE = [stressed("noise", x) for x in (0, 0.2, 0.4, 0.6, 0.8)]


def drawn(rates: Mapping[str, Mapping[Condition, float]], n: int = 100, seed: int = 0) -> pd.DataFrame:
    """Models named mdm… or arm…: each question is right with this chance, and some questions are easier than others."""
    random = np.random.default_rng(seed)
    made = []
    for model, given in rates.items():
        ease = random.uniform(-0.05, 0.05, size=n)
        right = {one: (random.uniform(size=n) < rate + (0 < rate < 1) * ease).tolist() for one, rate in given.items()}
        made.append(frames.answers(right, model=model, kind=model[:3]))
    return pd.concat(made, ignore_index=True)


def judged(given: pd.DataFrame, id: str) -> Claim:
    (found,) = [one for one in answer_claims(given) if one.id == id]
    return found


def curve(points: Sequence[Condition], rates: Sequence[float]) -> dict[Condition, float]:
    return dict(zip(points, rates, strict=True))


# -- noise ------------------------------------------------------------------------------------------------------------

STEADY, FALLING = (0.9, 0.9, 0.9, 0.9, 0.8), (0.9, 0.7, 0.5, 0.3, 0.2)


@pytest.mark.parametrize(
    ("mdm", "arm", "verdict"),
    [(STEADY, FALLING, "supported"), (FALLING, STEADY, "contradicted"), (FALLING, FALLING, "undecided")],
)
def test_robustness_to_noise(mdm: Sequence[float], arm: Sequence[float], verdict: str) -> None:
    rates = {"mdm": mdm, "arm1": arm, "arm2": arm}
    given = drawn({model: {CLEAN: 0.9, **curve(NOISE, one)} for model, one in rates.items()})
    found = judged(given, "robust-noise")
    assert (found.verdict, found.subject) == (verdict, "mdm against arm1 + arm2, d")
    assert found.rests_on == "1 diffusion and 2 autoregressive"
    right = given.pivot_table(index="model", columns="condition", values="accuracy")
    areas = np.trapezoid(right[NOISE].to_numpy(), [one.x for one in NOISE]) / 0.8 / right[CLEAN].to_numpy()
    by_model = dict(zip(right.index, areas, strict=True))
    assert found.effect == pytest.approx(by_model["mdm"] - (by_model["arm1"] + by_model["arm2"]) / 2)
    assert answer_claims(given[given["condition"] != CLEAN]) == []  # nothing to compare with


# -- position ---------------------------------------------------------------------------------------------------------

FLAT, DIP = (0.75, 0.75, 0.75), (0.95, 0.4, 0.9)


@pytest.mark.parametrize(
    ("mdm", "arm", "verdict"),
    [
        (FLAT, DIP, "supported"),
        (DIP, FLAT, "contradicted"),
        ((0.95, 0.95, 0.95), (0.5, 0.5, 0.5), "undecided"),  # the noise of few questions is no spread
    ],
)
def test_robustness_to_position(mdm: Sequence[float], arm: Sequence[float], verdict: str) -> None:
    given = drawn({"mdm": curve(PLACES, mdm), "arm": curve(PLACES, arm)})
    found = judged(given, "robust-position")
    assert found.verdict == verdict
    right = {
        model: own.pivot(index="id", columns="condition", values="accuracy")[PLACES].to_numpy()
        for model, own in given.groupby("model")
    }
    spreads = {model: 1e4 * spread_over_places(values) for model, values in right.items()}
    assert found.effect == pytest.approx(spreads["arm"] - spreads["mdm"])
    assert found.note.startswith("standard deviation over places, in points: diffusion ")


def test_the_spread_over_places_is_what_other_questions_confirm() -> None:
    """The mean over pairs of different questions of the covariance over places: no question is held against itself."""
    right = np.random.default_rng(3).integers(2, size=(7, 4)).astype(float)
    pairs = [np.cov(right[i], right[j])[0, 1] for i, j in permutations(range(7), 2)]
    assert spread_over_places(right) == pytest.approx(np.mean(pairs))
    assert spread_over_places(np.array([[1.0, 0.0], [1.0, 0.0]])) == pytest.approx(0.5)
    assert np.isnan(spread_over_places(right[:1]))


def test_a_flat_model_has_no_spread_in_expectation() -> None:
    random = np.random.default_rng(4)
    runs = [random.uniform(size=(20, 5)) < 0.6 for _ in range(2000)]
    found = np.array([spread_over_places(right.astype(float)) for right in runs])
    assert abs(found.mean()) < 4 * found.std() / np.sqrt(len(found))
    ranges = np.array([np.ptp(right.mean(axis=0)) for right in runs])
    assert ranges.mean() > 0.2  # which the largest minus the smallest accuracy takes for an effect


@pytest.mark.parametrize(
    ("mdm", "arm"), [([0.6] * 3, [0.6] * 3), ([0.95] * 3, [0.5] * 3), ([0.5] * 3, [0.95] * 3), (DIP, DIP)]
)
def test_models_of_equal_spread_are_rarely_told_apart(mdm: Sequence[float], arm: Sequence[float]) -> None:
    """Of 40 runs 5 % are 2; more than 6 would be a chance of 0.3 %."""
    runs = (drawn({"mdm": curve(PLACES, mdm), "arm": curve(PLACES, arm)}, 25, seed) for seed in range(40))
    assert sum(judged(given, "robust-position").verdict != "undecided" for given in runs) <= 6


# -- layout -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mdm", "arm", "verdict"),
    [
        ((0.8, 0.8, 0.8), (0.4, 0.8, 0.5), "supported"),
        ((0.4, 0.8, 0.5), (0.8, 0.8, 0.8), "contradicted"),
        ((0.4, 0.8, 0.5), (0.4, 0.8, 0.5), "undecided"),
        ((0.5, 0.5, 0.5), (0.9, 0.9, 0.9), "undecided"),  # worse, and loses nothing
    ],
)
def test_robustness_to_layout(mdm: Sequence[float], arm: Sequence[float], verdict: str) -> None:
    given = drawn({"mdm": curve(LAYOUTS, mdm), "arm": curve(LAYOUTS, arm)})
    found = judged(given, "robust-layout")
    assert found.verdict == verdict
    right = given.pivot_table(index="model", columns="condition", values="accuracy")[LAYOUTS]
    lost = right[LAYOUTS[1]] - (right[LAYOUTS[0]] + right[LAYOUTS[2]]) / 2
    assert found.effect == pytest.approx(lost["arm"] - lost["mdm"])


def test_layouts_without_the_adjacent_one_have_nothing_to_be_compared_with() -> None:
    others = [LAYOUTS[0], LAYOUTS[2]]
    assert answer_claims(drawn({"mdm": curve(others, (0.5, 0.5)), "arm": curve(others, (0.5, 0.5))})) == []


# -- few answers ------------------------------------------------------------------------------------------------------


def test_three_lost_answers_decide_nothing() -> None:
    """0.1 lost by one kind and nothing by the other: 0.1 ÷ (√(0.09 · 30 ÷ 29) ÷ √30) = 1.8, below 1.96. Corrected
    for the skewness of three losses among thirty, the interval alone would not hold 0."""
    lost = np.array([1.0] * 3 + [0.0] * 27)
    found = estimate(lost)
    assert found.low > 0
    wide = no_narrower_than_normal(found, float(found.std / np.sqrt(30)))
    assert float(wide.low) == pytest.approx(0.1 - 1.95996 * np.sqrt(0.09 / 29), abs=1e-4)
    assert float(wide.high) == float(found.high)


# -- ceiling and floor ------------------------------------------------------------------------------------------------

ALL = {"robust-noise": [CLEAN, *NOISE], "robust-position": PLACES, "robust-layout": LAYOUTS}


@pytest.mark.parametrize("id", ALL)
def test_at_the_ceiling_nothing_can_be_seen(id: str) -> None:
    found = judged(drawn({kind: dict.fromkeys(ALL[id], 1.0) for kind in ("mdm", "arm")}), id)
    assert (found.verdict, found.parts) == ("undecided", ())
    assert found.note == "cannot be judged here: both kinds answer at least 99 % at every point"


@pytest.mark.parametrize("id", ALL)
@pytest.mark.parametrize(("kind", "name"), [("mdm", "diffusion"), ("arm", "autoregressive")])
def test_who_answers_nothing_is_not_robust(id: str, kind: str, name: str) -> None:
    rates = {"mdm": 0.8, "arm": 0.8} | {kind: 0.0}
    found = judged(drawn({model: dict.fromkeys(ALL[id], rate) for model, rate in rates.items()}), id)
    assert found.parts == ()
    assert found.note == f"cannot be judged here: {name} models answer 0 %, so they have nothing to lose"


@pytest.mark.parametrize(("right", "judged_at_all"), [(1, False), (2, False), (4, True)])
def test_an_answer_that_may_be_luck_is_nothing_to_lose(right: int, judged_at_all: bool) -> None:
    """Wilson's interval of 1, 2 and 4 right of 20 begins at 0.9, 2.8 and 8.1 %; the floor is 5 %."""
    mdm = frames.answers({one: [i < 16 for i in range(20)] for one in LAYOUTS}, model="mdm", kind="mdm")
    arm = frames.answers({one: [i < right for i in range(20)] for one in LAYOUTS}, model="arm", kind="arm")
    found = judged(pd.concat([mdm, arm], ignore_index=True), "robust-layout")
    assert bool(found.parts) == judged_at_all
