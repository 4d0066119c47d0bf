"""How distributions move: every scalar by hand, against scipy, and within its bounds."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from floatlens.analysis import motion
from floatlens.analysis.kernels import nanmean

SETS = hnp.arrays(bool, st.tuples(st.integers(1, 6), st.integers(1, 8)))
WEIGHTS = st.tuples(st.integers(2, 6), st.integers(2, 9)).flatmap(
    lambda shape: hnp.arrays(np.float64, shape, elements=st.floats(0.001, 1))
)


def rows(*members, size=5):
    return np.array([[j in row for j in range(size)] for row in members])


def test_jaccard_by_hand():
    a, b = rows({0, 1}, {0}, set(), {1, 2, 3}), rows({1, 2}, {0}, set(), set())
    assert motion.jaccard(a, b)[:2].tolist() == [1 / 3, 1]
    assert np.isnan(motion.jaccard(a, b)[2])  # nothing to compare
    assert motion.jaccard(a, b)[3] == 0


@given(SETS)
def test_jaccard_is_a_symmetric_share_and_one_only_for_equal_sets(sets):
    for a, b in itertools.pairwise(sets):
        here, there = set(np.flatnonzero(a)), set(np.flatnonzero(b))
        found = float(motion.jaccard(a, b))
        if not here | there:
            assert np.isnan(found)
            continue
        assert found == float(motion.jaccard(b, a)) == len(here & there) / len(here | there)
        assert (found == 1) == (here == there)


def test_lifetime_by_hand():
    """Key 0 stays for 3 steps, key 1 for 1 and again for 2: stays of 3, 1 and 2 steps."""
    sets = rows({0, 1}, {0}, {0, 1}, {1})
    assert float(motion.lifetime(sets)) == 2
    assert np.isnan(motion.lifetime(rows(set(), set())))
    assert float(motion.lifetime(rows({2}, {2}, {2}))) == 3
    assert float(motion.lifetime(rows({0}, {1}, {2}))) == 1


@given(SETS)
def test_lifetime_and_distinct_equal_a_walk_along_every_key(sets):
    before = sets.copy()
    runs = [len(list(run)) for key in sets.T for held, run in itertools.groupby(key.tolist()) if held]
    found = float(motion.lifetime(sets))
    assert found == pytest.approx(np.mean(runs)) if runs else np.isnan(found)
    assert float(motion.distinct(sets)) == sum(any(key) for key in sets.T)
    assert np.array_equal(sets, before)  # kernels leave what they are given alone


def test_sets_of_several_layers_do_not_mix():
    one, two = rows({0}, {0}, {0}), rows({1}, {2}, {3})
    both = np.stack([one, two], axis=1)
    assert motion.lifetime(both).tolist() == [3, 1]
    assert motion.distinct(both).tolist() == [1, 3]


def test_entropy_by_hand():
    share = np.array([[0.25, 0.25, 0.25, 0.25], [1, 0, 0, 0], [0.5, 0.5, np.nan, np.nan], [0.75, 0.25, 0, 0]])
    present = np.array([[True] * 4, [True] * 4, [True, True, False, False], [True] * 4])
    mixed = -(0.75 * np.log(0.75) + 0.25 * np.log(0.25)) / np.log(4)
    assert np.allclose(motion.entropy(share, present), [1, 0, 1, mixed])
    assert np.isnan(motion.entropy(np.full((1, 3), np.nan), np.ones((1, 3), dtype=bool))).all()


@given(WEIGHTS)
def test_entropy_lies_between_one_key_and_all_keys(weights):
    share = weights / weights.sum(axis=-1, keepdims=True)
    found = motion.entropy(share, np.ones(share.shape, dtype=bool))
    assert ((found >= -1e-12) & (found <= 1 + 1e-12)).all()
    assert np.allclose(found, [stats.entropy(row) / np.log(len(row)) for row in share])


@given(WEIGHTS)
def test_wasserstein_equals_scipys_and_stays_within_the_unit_interval(weights):
    share = weights / weights.sum(axis=-1, keepdims=True)
    places = np.linspace(0, 1, share.shape[1])
    expected = [stats.wasserstein_distance(places, places, a, b) for a, b in itertools.pairwise(share)]
    found = motion.wasserstein(share)
    assert np.allclose(found, expected, atol=1e-9)
    assert ((found >= 0) & (found <= 1 + 1e-9)).all()


def test_wasserstein_of_a_sequence_that_grows_counts_absent_keys_as_empty():
    share = np.array([[0.5, 0.5, np.nan], [0, 0.5, 0.5], [np.nan] * 3])
    found = motion.wasserstein(share)
    assert found[0] == pytest.approx(0.5)  # each half goes one key of two to the right
    assert np.isnan(found[1])


def test_wasserstein_across_the_whole_sequence_is_one():
    assert motion.wasserstein(np.eye(9)[[0, 8, 0]]).tolist() == [1, 1]


def test_track_is_the_first_of_the_largest():
    share = np.array([[0.1, 0.6, 0.3], [0.4, 0.2, 0.4], [np.nan, 0.2, 0.1], [np.nan] * 3])
    found = motion.track(share)
    assert found[:3].tolist() == [1, 0, 1]
    assert np.isnan(found[3])


@given(hnp.arrays(np.float64, st.integers(2, 9), elements=st.integers(0, 40)), st.integers(1, 5))
def test_slope_equals_scipys_theil_sen(track, stride):
    steps = np.arange(len(track), dtype=np.float64) * stride
    assert float(motion.slope(track, steps)) == pytest.approx(stats.theilslopes(track, steps).slope)


def test_slope_by_hand():
    steps = np.arange(5.0)
    assert float(motion.slope(np.array([3, 5, 7, 9, 11.0]), steps)) == 2
    assert float(motion.slope(np.array([3, 5, 50, 9, 11.0]), steps)) == 2  # one outlier does not matter
    assert float(motion.slope(np.array([3, np.nan, 7, np.nan, 11.0]), steps)) == 2
    assert np.isnan(motion.slope(np.array([3.0]), steps[:1]))
    both = np.stack([np.arange(5.0), np.zeros(5)], axis=1)
    assert motion.slope(both, steps).tolist() == [1, 0]


@given(
    hnp.arrays(np.float64, (6, 2), elements=st.integers(0, 40)), hnp.arrays(np.float64, 6, elements=st.integers(0, 9))
)
def test_correlation_is_pearsons_of_every_column(tracks, frontier):
    assume(np.ptp(frontier) > 0)
    found = motion.correlation(tracks, frontier)
    for column in range(2):
        if np.ptp(tracks[:, column]) == 0:
            assert np.isnan(found[column])
        else:
            x, y = tracks[:, column] - tracks[:, column].mean(), frontier - frontier.mean()
            expected = (x * y).sum() / np.sqrt((x**2).sum() * (y**2).sum())
            assert found[column] == pytest.approx(expected)
            assert -1 - 1e-9 <= found[column] <= 1 + 1e-9


def test_correlation_leaves_out_steps_that_committed_nothing():
    track = np.array([1, 2, 90, 3, 4.0])
    assert float(motion.correlation(track, np.array([5, 6, np.nan, 7, 8]))) == pytest.approx(1)
    assert np.isnan(motion.correlation(track, np.array([np.nan, 1, np.nan, 2, np.nan])))  # two points are not enough


def test_nanmean_is_silent_where_nothing_is_defined(recwarn):
    found = nanmean(np.array([[1, np.nan], [3, np.nan]]))
    assert found[0] == 2
    assert np.isnan(found[1])
    assert not recwarn.list
