"""The split of an advantage in q·k into key norm and angle: exact, and equal to a loop over pairs of keys."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from floatlens.analysis.kernels import advantage, split


def pairs_by_loop(dot, norm, chosen, others):
    """(whole, norm, angle): over every anchor a and other key o, factors swapped in both orders."""
    whole, norms, angles = [], [], []
    for a in np.flatnonzero(chosen):
        for o in np.flatnonzero(others):
            direction_a, direction_o = dot[a] / norm[a], dot[o] / norm[o]
            norm_first = norm[a] * direction_o - norm[o] * direction_o
            norm_last = norm[a] * direction_a - norm[o] * direction_a
            angle_first = norm[o] * direction_a - norm[o] * direction_o
            angle_last = norm[a] * direction_a - norm[a] * direction_o
            whole.append(dot[a] - dot[o])
            norms.append((norm_first + norm_last) / 2)
            angles.append((angle_first + angle_last) / 2)
    return np.mean(whole), np.mean(norms), np.mean(angles)


@st.composite
def keys(draw):
    size = draw(st.integers(2, 9))
    dot = draw(hnp.arrays(np.float64, size, elements=st.floats(-50, 50)))
    norm = draw(hnp.arrays(np.float64, size, elements=st.floats(0.01, 20)))
    cut = draw(st.integers(1, size - 1))
    order = draw(st.permutations(range(size)))
    chosen = np.isin(np.arange(size), order[:cut])
    return dot, norm, chosen


@given(keys())
def test_the_parts_sum_to_the_whole_and_equal_the_loop_over_pairs(given_):
    dot, norm, chosen = given_
    found = split(dot, norm, chosen, ~chosen)
    assert float(found.norm + found.angle) == pytest.approx(float(found.whole), abs=1e-6)
    whole, norms, angles = pairs_by_loop(dot, norm, chosen, ~chosen)
    assert float(found.whole) == pytest.approx(whole, abs=1e-6)
    assert float(found.norm) == pytest.approx(norms, rel=1e-9, abs=1e-6)
    assert float(found.angle) == pytest.approx(angles, rel=1e-9, abs=1e-6)


def test_where_only_the_norm_differs_the_norm_has_it_all():
    """One query (1, 0); the anchor is (4, 0), the others (1, 0): same direction, 4 against 1."""
    found = split(np.array([4.0, 1, 1]), np.array([4.0, 1, 1]), *_first(3))
    assert (float(found.whole), float(found.norm), float(found.angle)) == (3, 3, 0)


def test_where_only_the_angle_differs_the_angle_has_it_all():
    """One query (1, 0), all keys of length 5: the anchor is (3, 4), the others (0, 5)."""
    found = split(np.array([3.0, 0, 0]), np.array([5.0, 5, 5]), *_first(3))
    assert (float(found.whole), float(found.norm), float(found.angle)) == (3, 0, 3)


def test_a_mixed_case_by_hand():
    """Anchor: norm 4, direction 1; other: norm 2, direction 0.5. Δ = 4 − 1 = 3.
    Norm first: (4 − 2)·0.5 = 1, last: (4 − 2)·1 = 2, mean 1.5; the angle has the other 1.5."""
    found = split(np.array([4.0, 1]), np.array([4.0, 2]), *_first(2))
    assert (float(found.whole), float(found.norm), float(found.angle)) == (3, 1.5, 1.5)


def test_a_longer_key_that_points_away_pays_for_its_length():
    """Same direction, −1, lengths 3 and 1: length makes q·k smaller."""
    found = split(np.array([-3.0, -1]), np.array([3.0, 1]), *_first(2))
    assert (float(found.whole), float(found.norm), float(found.angle)) == (-2, -2, 0)


def test_without_anchors_or_without_others_nothing_is_defined():
    dot, norm, nobody = np.array([1.0, 2]), np.array([1.0, 1]), np.zeros(2, dtype=bool)
    for chosen, others in ((nobody, ~nobody), (~nobody, nobody)):
        found = split(dot, norm, chosen, others)
        assert all(np.isnan(x) for x in (found.whole, found.norm, found.angle))
        assert all(np.isnan(x) for x in advantage(dot, chosen, others))


def test_advantage_is_a_difference_of_means_in_deviations_of_the_others():
    x = np.array([9.0, 7, 1, 3, 5])
    chosen = np.array([True, True, False, False, False])
    gap, effect = advantage(x, chosen, ~chosen)
    assert float(gap) == 8 - 3
    assert float(effect) == pytest.approx(5 / np.sqrt((4 + 0 + 4) / 3))
    gap, effect = advantage(np.array([9.0, 2, 2]), *_first(3))
    assert float(gap) == 7
    assert np.isnan(effect)  # others that do not differ have no unit to measure in


def test_rows_are_split_one_by_one():
    random = np.random.default_rng(0)
    dot, norm = random.normal(size=(2, 3, 6)), random.uniform(0.5, 2, (2, 3, 6))
    chosen = random.permuted(np.tile(np.arange(6) < 2, (2, 3, 1)), axis=-1)
    found = split(dot, norm, chosen, ~chosen)
    for place in np.ndindex(2, 3):
        whole, norms, angles = pairs_by_loop(dot[place], norm[place], chosen[place], ~chosen[place])
        assert np.allclose([found.whole[place], found.norm[place], found.angle[place]], [whole, norms, angles])


def _first(size):
    chosen = np.arange(size) == 0
    return chosen, ~chosen
