"""What is drawn has the mean that its world says: numbers of traces, scores, and answers under an edit."""

from __future__ import annotations

import numpy as np
import pytest

from floatlens.records.condition import RAG
from floatlens_lab.claims.answers import frame, right
from floatlens_lab.claims.edits import DROP, World, _changed, _draw
from floatlens_lab.claims.groups import simulated
from floatlens_lab.claims.margins import Sampler, positive, share, signed
from floatlens_lab.claims.mechanism import _MIX, _SHIFT

MANY = 200_000


@pytest.fixture
def random() -> np.random.Generator:
    return np.random.default_rng(3)


@pytest.mark.parametrize(
    ("sampler", "mean", "spread", "skewness"),
    [
        (share(0.5), 0.5, np.sqrt(0.25 / 2.5), 0.0),  # beta(0.75, 0.75)
        (share(0.9), 0.9, np.sqrt(0.09 / 2.5), None),
        (positive(0.05, 0.5), 0.05, 0.05 * np.sqrt(np.exp(0.25) - 1), None),
        (signed(0.25, 0.5), 0.25, 0.5, 2.0),  # exponential
        (signed(-0.05, 0.1, -1), -0.05, 0.1, -2.0),
    ],
)
def test_samplers(
    random: np.random.Generator, sampler: Sampler, mean: float, spread: float, skewness: float | None
) -> None:
    found = sampler(random, MANY)
    assert found.mean() == pytest.approx(mean, abs=5 * spread / np.sqrt(MANY))
    assert found.std() == pytest.approx(spread, rel=0.03)
    if skewness is not None:
        assert ((found - found.mean()) ** 3).mean() / found.std() ** 3 == pytest.approx(skewness, abs=0.1)


def test_scores_have_their_probabilities_and_share_the_difficulty_of_a_question(random: np.random.Generator) -> None:
    found = right(random, MANY, [0.05, 0.5, 0.95, 0.5, 0.0, 1.0])
    assert found.mean(axis=0) == pytest.approx([0.05, 0.5, 0.95, 0.5, 0.0, 1.0], abs=0.005)
    # Two normal numbers with correlation 0.49 are both below 0 with probability 1/4 + arcsin(0.49) ÷ 2π.
    assert (found[:, 1] * found[:, 3]).mean() == pytest.approx(0.25 + np.arcsin(0.49) / (2 * np.pi), abs=0.005)


def test_a_frame_has_a_row_for_each_score() -> None:
    scores = np.array([[1.0, 0.0], [0.0, 0.0], [1.0, 1.0]])
    found = frame([("set", "mdm", RAG), ("set", "arm", RAG)], scores)
    assert list(found["accuracy"]) == [1, 0, 1, 0, 0, 1]
    assert list(found["id"]) == ["q0", "q1", "q2"] * 2
    assert list(found["model_kind"]) == ["mdm"] * 3 + ["arm"] * 3


@pytest.mark.parametrize(
    ("old", "new", "again"), [(0.8, 0.25, 0.1), (0.5, 0.8, 0.1), (1.0, 0.95, 0.1), (0.8, 0.8, 0.0)]
)
def test_answers_under_an_edit_have_their_accuracy(
    random: np.random.Generator, old: float, new: float, again: float
) -> None:
    before = (random.random(MANY) < old).astype(np.float64)
    after = _changed(random, before, old, new, again)
    assert after.mean() == pytest.approx(new, abs=0.006)
    if again == 0:
        np.testing.assert_array_equal(after, before)


def test_questions_that_are_not_exposed_keep_their_answer(random: np.random.Generator) -> None:
    world = World("half exposed", "true", 0.9, 0.9, 0.1, exposed=0.5)
    (found,) = _draw(random, 400, world, DROP, "arm")
    wide = found.pivot(index="id", columns="condition", values="accuracy")
    steps = found[found["condition"] == RAG].set_index("id")["decided_at"]
    closed = steps[[one == (0,) for one in steps]].index
    assert 150 < len(closed) < 250
    assert (wide.loc[closed, DROP] == wide.loc[closed, RAG]).all()
    assert wide.loc[wide.index.difference(closed), DROP].mean() < 0.2


def test_the_shift_between_data_sets_is_a_distance() -> None:
    assert _MIX.sum() == pytest.approx(1)
    assert _SHIFT.sum() == pytest.approx(0)
    assert np.abs(_SHIFT).sum() / 2 == pytest.approx(1)  # times a: a total variation distance of a
    assert (_MIX + 0.25 * _SHIFT > 0).all()


def test_a_simulated_group_draws_questions_of_its_own(random: np.random.Generator) -> None:
    group = simulated({"x": np.arange(5.0)}, kind="mdm", control_of="m")
    assert (group.model, group.control and group.control["of"], group.n) == ("m, control", "m", 5)
    drawn = group.drawn(40, random)
    assert (drawn.n, drawn.traces) == (40, 40)
    assert set(drawn.values("x")) <= set(range(5))
    assert float(group.estimate("x").mean) == 2.0
