"""Estimates over samples: means, spreads and seeded bootstrap intervals, with what is undefined left out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from floatlens.analysis.intervals import Estimate, by_question, difference, estimate, estimate_of, estimate_of_sets


@pytest.fixture(scope="module")
def values():
    return np.random.default_rng(7).normal(3, 2, size=(40, 2, 3))


def test_mean_spread_and_count(values):
    found = estimate(values)
    assert np.allclose(found.mean, values.mean(axis=0))
    assert np.allclose(found.std, values.std(axis=0, ddof=1))
    assert found.n.tolist() == [[40] * 3] * 2


def test_intervals_are_those_of_a_percentile_bootstrap(values):
    """Close to scipy's with another seed and more draws, and to the normal interval."""
    found = estimate(values)
    for place in np.ndindex(2, 3):
        sample = values[(slice(None), *place)]
        expected = stats.bootstrap(
            (sample,), np.mean, n_resamples=9999, method="percentile", rng=99
        ).confidence_interval
        assert found.low[place] == pytest.approx(expected.low, abs=0.1)
        assert found.high[place] == pytest.approx(expected.high, abs=0.1)
        half = 1.96 * sample.std() / np.sqrt(40)
        assert found.high[place] - found.low[place] == pytest.approx(2 * half, rel=0.15)


def test_the_same_seed_gives_the_same_interval_and_another_seed_another(values):
    one, again, other = estimate(values, 3), estimate(values, 3), estimate(values, 4)
    assert np.array_equal(one.low, again.low)
    assert np.array_equal(one.high, again.high)
    assert not np.array_equal(one.low, other.low)


def test_undefined_samples_do_not_count(values):
    """With NaN in some samples, everything is as if these were not there, interval included."""
    holes = values.copy()
    holes[5:, 0, 1] = np.nan  # five are left
    holes[[3, 8], 1, 2] = np.nan
    found = estimate(holes)
    for place, kept in (((0, 1), values[:5, 0, 1]), ((1, 2), np.delete(values[:, 1, 2], [3, 8]))):
        alone = estimate(kept)
        for name in ("mean", "std", "low", "high", "n"):
            assert getattr(found, name)[place] == pytest.approx(float(getattr(alone, name))), (place, name)
    whole = estimate(values)
    assert found.low[0, 0] == whole.low[0, 0]


def test_a_few_defined_among_many_undefined_still_have_an_interval():
    found = estimate(np.array([1.0, 2.0] + [np.nan] * 30))
    assert (float(found.mean), float(found.low), float(found.high), int(found.n)) == (1.5, 1, 2, 2)


def test_fewer_than_two_samples_have_no_interval():
    for sample in ([4.0], [4.0, np.nan]):
        found = estimate(np.array(sample))
        assert float(found.mean) == 4
        assert int(found.n) == 1
        assert np.isnan([found.low, found.high, found.std]).all()
    nothing = estimate(np.array([np.nan, np.nan]))
    assert np.isnan([nothing.mean, nothing.low, nothing.high, nothing.std]).all()
    assert int(nothing.n) == 0


def test_samples_that_do_not_differ_have_an_interval_of_one_point():
    found = estimate(np.full(5, 0.25))
    assert (float(found.low), float(found.high), float(found.std)) == (0.25, 0.25, 0)


@settings(max_examples=25, deadline=None)
@given(hnp.arrays(np.float64, st.integers(2, 12), elements=st.floats(-100, 100)))
def test_intervals_lie_within_the_sample(sample):
    found = estimate(sample)
    assert sample.min() - 1e-9 <= found.low <= found.high <= sample.max() + 1e-9


def test_a_difference_of_two_sets_of_samples():
    random = np.random.default_rng(0)
    a, b = random.normal(5, 1, 60), random.normal(3, 2, 30)
    found = difference(a, b)
    assert float(found.mean) == pytest.approx(a.mean() - b.mean())
    error = np.sqrt(a.var() / 60 + b.var() / 30)
    assert float(found.high - found.low) == pytest.approx(2 * 1.96 * error, rel=0.15)
    assert found.low < found.mean < found.high
    assert int(found.n) == 30
    assert float(found.std) == pytest.approx(np.sqrt((a.var(ddof=1) + b.var(ddof=1)) / 2))


def test_a_difference_leaves_out_what_is_undefined_and_needs_two_of_each():
    a, b = np.array([1.0, 2, 3, np.nan]), np.array([[1.0], [np.nan], [5]])[:, 0]
    found, alone = difference(a, b), difference(a[:3], b[[0, 2]])
    assert (float(found.low), float(found.high), int(found.n)) == (float(alone.low), float(alone.high), 2)
    assert np.isnan(difference(a, b[:2]).low)
    assert float(difference(a, b[:2]).mean) == 1


def test_a_number_of_all_samples_at_once(values):
    sample = values[:, 0, 0]
    found = estimate_of(sample, lambda x: float(np.median(x)))
    assert float(found.mean) == np.median(sample)
    expected = stats.bootstrap((sample,), np.median, n_resamples=4999, method="percentile", rng=5)
    assert float(found.low) == pytest.approx(expected.confidence_interval.low, abs=0.25)
    assert float(found.high) == pytest.approx(expected.confidence_interval.high, abs=0.25)
    assert float(found.std) == pytest.approx(float(expected.standard_error), rel=0.2)
    again = estimate_of(sample, lambda x: float(np.median(x)))
    assert (found.low, found.high) == (again.low, again.high)
    assert np.isnan(estimate_of(sample[:1], lambda x: float(np.median(x))).low)


def test_traces_of_one_question_become_one_sample_that_counts_as_others_do():
    """By hand: "a" has 1 and 3, mean 2; "b" 10 and NaN, mean 10; the mean over questions is 6, n is 2."""
    values = np.array([[1.0, np.nan], [10, 4], [3, np.nan], [np.nan, 6]])
    found = by_question(values, ["a", "b", "a", "b"])
    assert np.array_equal(found, [[2, np.nan], [10, 5]], equal_nan=True)
    drawn = estimate(found)
    assert drawn.mean.tolist() == [6, 5]
    assert drawn.n.tolist() == [2, 1]
    with pytest.raises(ValueError, match="4 traces and 3 questions"):
        by_question(values, ["a", "b", "c"])


def test_questions_are_drawn_whole(values):
    """Thrice the same traces say no more than once: the interval is that of the questions, not of the copies."""
    sample = values[:, 0, 0]
    names = [f"question {i}" for i in range(40)]
    thrice = estimate(by_question(np.concatenate([sample] * 3), names * 3))
    once = estimate(sample)
    assert (float(thrice.low), float(thrice.high), int(thrice.n)) == (float(once.low), float(once.high), 40)
    copies = estimate(np.concatenate([sample] * 3))
    assert float(copies.high - copies.low) < 0.7 * float(once.high - once.low)  # 1/√3 of it
    assert by_question(sample, names) is sample


def test_a_number_of_all_samples_counts_those_that_define_it(values):
    """Samples in which all is NaN are not drawn either: everything is as if they were not there."""
    holes = np.concatenate([values, np.full((10, 2, 3), np.nan)])
    holes[0, 0] = np.nan  # in part defined, so it counts
    found, alone = (estimate_of(x, lambda x: float(np.nanmedian(x))) for x in (holes, holes[:40]))
    assert int(found.n) == 40
    assert (found.mean, found.low, found.high, found.std) == (alone.mean, alone.low, alone.high, alone.std)


def test_a_number_of_several_sets_draws_within_each(values):
    """The difference of two means, which `difference` draws in the same way, by scipy."""
    a, b = values[:, 0, 0], values[:12, 1, 2] + 3
    found, other = estimate_of_sets([a, b], lambda x, y: float(x.mean() - y.mean())), difference(a, b)
    assert float(found.mean) == pytest.approx(float(other.mean))
    assert (float(found.low), float(found.high)) == pytest.approx((float(other.low), float(other.high)), abs=0.15)
    assert int(found.n) == 12  # of the smaller set
    holes = estimate_of_sets([a, np.append(b, np.nan)], lambda x, y: float(np.nanmean(x) - np.nanmean(y)))
    assert (float(holes.low), int(holes.n)) == (pytest.approx(float(found.low)), 12)
    assert np.isnan(estimate_of_sets([a, b[:1]], lambda x, y: float(x.mean() - y.mean())).low)
    one = estimate_of_sets([a], lambda x: float(np.median(x)), seed=4)
    assert one == estimate_of(a, lambda x: float(np.median(x)), seed=4)


def test_an_estimate_prints_its_interval_and_count():
    assert str(estimate(np.array([1.0, 1.0, 1.0]))) == "1 [1, 1] (n=3)"
    assert f"{estimate(np.array([0.123456] * 2)):.2f}" == "0.12 [0.12, 0.12] (n=2)"


def test_an_estimate_as_text():
    mean, nan = np.float64(0.5), np.float64("nan")
    assert f"{Estimate(mean, nan, nan, nan, np.int64(1))}" == "0.5 (n=1, no interval)"
    assert f"{Estimate(mean, nan, np.float64(0.25), np.float64(1), np.int64(8))}" == "0.5 [0.25, 1] (n=8)"
