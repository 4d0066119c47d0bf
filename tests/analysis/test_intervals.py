"""Estimates over samples: means, scores, differences and numbers of all samples, with what is undefined left out."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from floatlens.analysis.intervals import (
    Estimate,
    average_of,
    average_share_difference,
    by_question,
    difference,
    estimate,
    estimate_by_halves,
    estimate_of,
    share,
    share_difference,
)
from floatlens.analysis.score_tests import paired_ends

NAN = np.nan


@pytest.fixture(scope="module")
def values():
    return np.random.default_rng(7).gamma(2, 2, size=(40, 2, 3))


def ends(found):
    return float(found.low), float(found.high)


def zeros_and_ones(ones, of):
    return np.array([1.0] * ones + [0.0] * (of - ones))


def hall(t, skewness):
    """Hall's cubic: what maps a studentised mean to one without skewness. The interval is where it is between ±t."""
    return t + skewness * t**2 / 3 + skewness**2 * t**3 / 27 + skewness / 6


# -- means ------------------------------------------------------------------------------------------------------------


def test_mean_spread_and_count(values):
    found = estimate(values)
    assert np.allclose(found.mean, values.mean(axis=0))
    assert np.allclose(found.std, values.std(axis=0, ddof=1))
    assert found.n.tolist() == [[40] * 3] * 2


def test_symmetric_samples_have_a_t_interval():
    sample = np.array([-3.0, -1, 0, 1, 3]) + 10
    expected = stats.ttest_1samp(sample, 0).confidence_interval()
    assert ends(estimate(sample)) == pytest.approx((expected.low, expected.high))


def test_skewed_samples_have_halls_interval(values):
    """Both ends solve Hall's cubic for the t quantile, and the longer side is that of the tail. Of n normal samples the
    expected kurtosis is 3(n − 1) ÷ (n + 1), and the expected square of the skewness 6(n − 2) ÷ ((n + 1)(n + 3))."""
    found = estimate(values)
    usual = 3 * 39 / 41 - 1 - 6 * 38 / (41 * 43)
    for place in np.ndindex(2, 3):
        sample = values[(slice(None), *place)]
        rest = stats.kurtosis(sample, fisher=False) - 1 - stats.skew(sample) ** 2
        t = stats.t.ppf(0.975, 39 * usual / rest)
        error, skewness = sample.std(ddof=1) / math.sqrt(40), stats.skew(sample) / math.sqrt(40)
        low, high = ((sample.mean() - end[place]) / error for end in (found.low, found.high))
        assert hall(low, skewness) == pytest.approx(t)
        assert hall(high, skewness) == pytest.approx(-t)
        assert -high > t > low


def test_degrees_of_freedom_are_those_of_the_variance():
    """Of two values, as often each, the variance is known: the normal interval. Of ten samples −3, −1, 0, 1, 3,
    in pairs, the kurtosis is 32.8 ÷ 4² = 2.05, of normal ones 27/11, less 48/143 for their skewness. Of fewer
    than ten samples the degrees are n − 1."""
    two = estimate(np.array([0.0, 1.0] * 10))
    assert ends(two) == pytest.approx(
        (0.5 - 1.95996 * 0.5 / math.sqrt(19), 0.5 + 1.95996 * 0.5 / math.sqrt(19)), abs=1e-5
    )
    ten = estimate(np.array([-3.0, -3, -1, -1, 0, 0, 1, 1, 3, 3]))
    degrees = 9 * (27 / 11 - 1 - 48 / 143) / (32.8 / 16 - 1)
    reach = stats.t.ppf(0.975, degrees) * math.sqrt(40 / 9 / 10)
    assert ends(ten) == pytest.approx((-reach, reach))
    five = estimate(np.array([-3.0, -1, 0, 1, 3]))
    assert float(five.high) == pytest.approx(stats.t.ppf(0.975, 4) * math.sqrt(5 / 5))


def test_undefined_samples_do_not_count(values):
    """With NaN in some samples, everything is as if these were not there, interval included."""
    holes = values.copy()
    holes[5:, 0, 1] = NAN  # five are left
    holes[[3, 8], 1, 2] = NAN
    found = estimate(holes)
    for place, kept in (((0, 1), values[:5, 0, 1]), ((1, 2), np.delete(values[:, 1, 2], [3, 8]))):
        alone = estimate(kept)
        for name in ("mean", "std", "low", "high", "n"):
            assert getattr(found, name)[place] == pytest.approx(float(getattr(alone, name))), (place, name)
    assert found.low[0, 0] == pytest.approx(estimate(values).low[0, 0])


def test_a_few_defined_among_many_undefined_still_have_an_interval():
    """Of 1 and 2: mean 1.5, standard error 0.5, t of one degree of freedom 12.706."""
    found = estimate(np.array([1.0, 2.0] + [NAN] * 30))
    assert (float(found.mean), int(found.n)) == (1.5, 2)
    assert ends(found) == pytest.approx((1.5 - 0.5 * 12.7062, 1.5 + 0.5 * 12.7062), abs=1e-4)


@pytest.mark.parametrize("of", [estimate, share])
def test_fewer_than_two_samples_have_no_interval(of):
    for sample in ([0.5], [0.5, NAN]):
        found = of(np.array(sample))
        assert float(found.mean) == 0.5
        assert int(found.n) == 1
        assert np.isnan([found.low, found.high, found.std]).all()
    nothing = of(np.array([NAN, NAN]))
    assert np.isnan([nothing.mean, nothing.low, nothing.high, nothing.std]).all()
    assert int(nothing.n) == 0


@pytest.mark.parametrize("value", [0.25, 0.1, 1 / 3])
def test_samples_that_do_not_differ_have_an_interval_of_one_point(value):
    found = estimate(np.full(7, value))
    assert float(found.low) == float(found.high) == float(found.mean) == pytest.approx(value)
    assert float(found.std) == 0


@settings(max_examples=50, deadline=None)
@given(hnp.arrays(np.float64, st.integers(2, 12), elements=st.floats(-100, 100)))
def test_intervals_hold_the_mean_and_move_with_the_samples(sample):
    found, moved = estimate(sample), estimate(-2 * sample + 5)
    assert found.low <= found.mean <= found.high
    scale = 1e-6 * (1 + np.ptp(sample))
    assert ends(moved) == pytest.approx((5 - 2 * float(found.high), 5 - 2 * float(found.low)), abs=scale)


# -- differences of means ----------------------------------------------------------------------------------------------


def test_a_difference_of_symmetric_samples_puts_two_t_intervals_together():
    """By hand: half widths of both, squared, added, and the root of it."""
    a, b = np.array([1.0, 2, 3, 4, 5, 6]), np.array([2.0, 9, 16])
    found = difference(a, b)
    half = math.hypot(2.570582 * math.sqrt(3.5 / 6), 4.302653 * 7 / math.sqrt(3))
    assert (float(found.mean), int(found.n)) == (-5.5, 3)
    assert ends(found) == pytest.approx((-5.5 - half, -5.5 + half), rel=1e-6)
    assert float(found.std) == pytest.approx(np.sqrt((a.var(ddof=1) + b.var(ddof=1)) / 2))


def test_a_difference_of_skewed_samples_takes_the_sides_that_face_each_other():
    """Its lower end has what the first may be lower and the second higher."""
    a, b = np.array([0.0, 0, 1, 7]), np.array([1.0, 2, 2, 2, 2])
    (low_a, high_a), (low_b, high_b) = (ends(estimate(x)) for x in (a, b))
    found = difference(a, b)
    assert float(found.low) == pytest.approx(0.2 - math.hypot(2 - low_a, high_b - 1.8))
    assert float(found.high) == pytest.approx(0.2 + math.hypot(high_a - 2, 1.8 - low_b))
    assert ends(difference(b, a)) == pytest.approx((-float(found.high), -float(found.low)))


def test_a_difference_leaves_out_what_is_undefined_and_needs_two_of_each():
    a, b = np.array([1.0, 2, 3, NAN]), np.array([1.0, NAN, 5])
    found, alone = difference(a, b), difference(a[:3], b[[0, 2]])
    assert (*ends(found), int(found.n)) == (*ends(alone), 2)
    assert np.isnan(difference(a, b[:2]).low)
    assert float(difference(a, b[:2]).mean) == 1
    assert ends(difference(np.ones(3), np.zeros(4))) == (1, 1)


# -- scores -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ones", "of", "low", "high"),
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_a_share_has_wilsons_interval(ones, of, low, high):
    """As printed by Newcombe, Statistics in Medicine 17 (1998) 857."""
    found = share(zeros_and_ones(ones, of))
    assert ends(found) == pytest.approx((low, high), abs=5e-5)
    assert (float(found.mean), int(found.n)) == (pytest.approx(ones / of), of)
    mirrored = share(1 - zeros_and_ones(ones, of))
    assert ends(mirrored) == pytest.approx((1 - high, 1 - low), abs=5e-5)


def test_scores_between_0_and_1_count_as_more_zeros_and_ones():
    """0.25 and 0.75 ten times each: mean 0.5, variance 1/16, a quarter of that of 0 and 1, so as 80 of these."""
    assert ends(share(np.array([0.25, 0.75] * 10))) == pytest.approx(ends(share(zeros_and_ones(40, 80))))
    assert ends(share(np.full(9, 0.5))) == (0.5, 0.5)
    with pytest.raises(ValueError, match="between 0 and 1"):
        share(np.array([0.5, 1.5]))


@settings(max_examples=50, deadline=None)
@given(hnp.arrays(np.float64, st.integers(2, 12), elements=st.floats(0, 1)))
def test_intervals_of_scores_lie_between_0_and_1_and_hold_the_mean(scores):
    found = share(scores)
    assert 0 <= found.low <= found.mean <= found.high <= 1


@pytest.mark.parametrize(
    ("a", "b", "low", "high"),
    [((56, 70), (48, 80), 0.0528, 0.3382), ((9, 10), (3, 10), 0.1700, 0.8406)],
)
def test_an_unpaired_difference_of_shares_has_miettinen_and_nurminens_interval(a, b, low, high):
    """As printed for method 6 by Newcombe, Statistics in Medicine 17 (1998) 873."""
    found = share_difference(zeros_and_ones(*a), zeros_and_ones(*b), paired=False)
    assert ends(found) == pytest.approx((low, high), abs=5e-5)
    assert int(found.n) == min(a[1], b[1])


def pairs(both, first, second, neither):
    counts = {(1.0, 1.0): both, (1.0, 0.0): first, (0.0, 1.0): second, (0.0, 0.0): neither}
    return np.array([pair for pair, count in counts.items() for _ in range(count)]).T


@pytest.mark.parametrize(
    ("cells", "low", "high"),
    [((59, 6, 16, 80), -0.1240, -0.0054), ((1, 1, 7, 12), -0.5172, -0.0260), ((20, 0, 0, 0), -0.1611, 0.1611)],
)
def test_a_paired_difference_of_shares_has_tangos_interval(cells, low, high):
    """As printed in Fagerland, Lydersen and Laake (2017), chapter 8; where every pair agrees it is ± z² ÷ (n + z²)."""
    found = share_difference(*pairs(*cells), paired=True)
    assert ends(found) == pytest.approx((low, high), abs=5e-5)
    assert (float(found.mean), int(found.n)) == (pytest.approx((cells[1] - cells[2]) / sum(cells)), sum(cells))


def test_paired_scores_between_0_and_1_count_as_more_pairs_of_0_and_1():
    """Halves, 3 gained and 1 lost of 14: the sum of squares about the mean is 1 − 1/14; of whole pairs with the same
    gain and loss the variance would be 4/28 − 1/14². Two such pairs are added to both."""
    a, b = pairs(6, 3, 1, 4) / 2
    whole = 4 / 28 - 1 / 14**2
    counted = 14 * whole * 16 / (1 - 1 / 14 + 2 * whole)
    expected = paired_ends(*map(np.asarray, (counted * 3 / 28, counted / 28, counted)))
    assert counted == pytest.approx(25.63, abs=0.01)
    assert ends(share_difference(a, b, paired=True)) == pytest.approx([float(end) for end in expected])
    assert ends(share_difference(b, a, paired=True)) == pytest.approx([-float(end) for end in expected[::-1]])
    with pytest.raises(ValueError, match="between 0 and 1"):
        share_difference(a, b + 1, paired=True)


@pytest.mark.parametrize(("a", "b", "low", "high"), [(1.0, 1.0, -0.1611, 0.1611), (1.0, 0.0, 0.6777, 1)])
def test_pairs_that_are_all_alike_have_an_interval(a, b, low, high):
    """± z² ÷ (n + z²) where none differs; (n − z²) ÷ (n + z²) to 1 where all do."""
    assert ends(share_difference(np.full(20, a), np.full(20, b), paired=True)) == pytest.approx((low, high), abs=5e-5)


def test_an_unpaired_difference_of_scores_between_0_and_1_has_newcombes_interval():
    """Method 10 of Newcombe, Statistics in Medicine 17 (1998) 873: both intervals as the sides of a triangle."""
    a, b = np.array([1, 0.5, 0.4, 0, 1, 1, 0.5, 0.8]), np.array([1, 0, 0.5, 0, 0.5, 1])
    (low_a, high_a), (low_b, high_b), p, q = ends(share(a)), ends(share(b)), a.mean(), b.mean()
    expected = p - q - math.hypot(p - low_a, high_b - q), p - q + math.hypot(high_a - p, q - low_b)
    assert ends(share_difference(a, b, paired=False)) == pytest.approx(expected)


def test_an_average_of_sets_alike_has_the_interval_of_all_their_questions():
    one, three = pairs(6, 3, 1, 4), pairs(18, 9, 3, 12)
    found = average_share_difference([tuple(one)] * 3)
    assert ends(found) == pytest.approx(ends(share_difference(*three, paired=True)))
    assert (float(found.mean), int(found.n)) == (pytest.approx(1 / 7), 42)
    assert ends(average_share_difference([tuple(one)])) == pytest.approx(ends(share_difference(*one, paired=True)))


def test_an_average_of_unlike_sets_weighs_them_alike_and_needs_two_questions_of_each():
    """By hand, of two sets: ends are sought at z ÷ √2, and their distances from the means put together and halved."""
    some, none = pairs(6, 3, 1, 4), pairs(10, 0, 0, 10)
    found = average_share_difference([tuple(some), tuple(none)])
    apart = [
        [float(end) for end in paired_ends(*map(np.asarray, counts), stats.norm.ppf(0.975) / math.sqrt(2))]
        for counts in ((3.0, 1.0, 14.0), (0.0, 0.0, 20.0))
    ]
    mean = 1 / 14
    assert float(found.low) == pytest.approx(mean - math.hypot(1 / 7 - apart[0][0], apart[1][0]) / math.sqrt(2))
    assert float(found.high) == pytest.approx(mean + math.hypot(apart[0][1] - 1 / 7, apart[1][1]) / math.sqrt(2))
    assert np.isnan(average_share_difference([tuple(some), (np.ones(1), np.ones(1))]).low)


def test_each_column_of_scores_has_the_interval_of_its_own_kind():
    whole, parts = pairs(6, 3, 1, 4), pairs(6, 3, 1, 4) / 2
    both = share_difference(*(np.stack([x, y], axis=1) for x, y in zip(whole, parts, strict=True)), paired=True)
    for column, (a, b) in enumerate((whole, parts)):
        assert (both.low[column], both.high[column]) == pytest.approx(ends(share_difference(a, b, paired=True)))


def test_pairs_with_an_undefined_score_are_left_out():
    a, b = pairs(6, 3, 1, 4)
    holes = share_difference(np.append(a, [NAN, 1]), np.append(b, [1, NAN]), paired=True)
    alone = share_difference(a, b, paired=True)
    assert (*ends(holes), float(holes.mean), int(holes.n)) == pytest.approx((*ends(alone), float(alone.mean), 14))


def test_an_average_of_gains_weighs_sets_alike_and_puts_their_intervals_together():
    """By hand: means 0 and 1; the first reaches 0 down and 0.2 up, the second 0.4 down and 0 up; half of each."""
    one, two = (Estimate(*map(np.asarray, numbers)) for numbers in ((0.0, 0.3, 0.0, 0.2, 9), (1.0, 0.4, 0.6, 1.0, 16)))
    found = average_of([one, two])
    assert (float(found.mean), int(found.n)) == (0.5, 25)
    assert ends(found) == pytest.approx((0.3, 0.6))
    assert float(found.std) == pytest.approx(math.sqrt(0.1**2 + 0.1**2) / 2)
    alone = average_of([two])
    assert (float(alone.mean), *ends(alone)) == pytest.approx((1.0, 0.6, 1.0))
    assert np.isnan(average_of([one, share(np.ones(1))]).low)


# -- numbers of all samples --------------------------------------------------------------------------------------------


def test_a_number_of_all_samples_is_the_mean_where_it_is_one(values):
    """Pseudo-values of a mean are the samples themselves."""
    sample = values[:, 0, 0]
    found, mean = estimate_of(sample, lambda x: float(x.mean())), estimate(sample)
    assert (float(found.mean), *ends(found)) == pytest.approx((float(mean.mean), *ends(mean)))
    assert float(found.std) == pytest.approx(float(mean.std) / math.sqrt(40))
    assert np.isnan(estimate_of(sample[:1], lambda x: float(x.mean())).low)


def test_a_ratio_of_means_has_the_error_of_its_linear_part(values):
    """The delta method: the error is that of (a − ratio · b) ÷ mean of b."""
    a, b = values[:, 0, 0], values[:, 0, 1] + 5
    found = estimate_of(np.stack([a, b], axis=1), lambda x: float(x[:, 0].mean() / x[:, 1].mean()))
    ratio = a.mean() / b.mean()
    assert float(found.mean) == pytest.approx(ratio)
    linear = estimate((a - ratio * b) / b.mean())
    assert float(found.std) == pytest.approx(float(linear.std) / math.sqrt(40), rel=0.03)
    assert ends(found) == pytest.approx([ratio + end for end in ends(linear)], rel=0.03)


def test_a_number_that_hangs_on_one_sample_has_no_interval():
    found = estimate_of(np.array([0.0, 0, 0, 2]), lambda x: 1 / float(x.mean()) if x.any() else NAN)
    assert (float(found.mean), int(found.n)) == (2, 4)
    assert np.isnan([found.low, found.high]).all()


@pytest.mark.parametrize(
    "of", [estimate_of, lambda values, statistic: estimate_by_halves(values, statistic, bounds=(-9, 99))]
)
def test_a_number_of_all_samples_counts_those_that_define_it(values, of):
    """Samples in which all is NaN do not count: everything is as if they were not there."""
    holes = np.concatenate([values, np.full((10, 2, 3), NAN)])
    holes[0, 0] = NAN  # in part defined, so it counts
    found, alone = (of(x, lambda x: float(np.nanmedian(x))) for x in (holes, holes[:40]))
    assert int(found.n) == 40
    assert (found.mean, found.low, found.high, found.std) == (alone.mean, alone.low, alone.high, alone.std)
    nothing = of(holes[40:], lambda x: float("nan"))
    assert int(nothing.n) == 0
    assert np.isnan([nothing.mean, nothing.low]).all()


def test_halves_of_a_mean_have_its_interval_nearly(values):
    """A mean has no bias; the error from leaving one out is exact, that of 200 halves close to it."""
    sample = values[:, 1, 1]
    found = estimate_by_halves(sample, lambda x: float(x.mean()), bounds=(-100, 100))
    reach = stats.t.ppf(0.975, 39) * sample.std(ddof=1) / math.sqrt(40)
    assert float(found.mean) == pytest.approx(sample.mean())
    assert float(found.high - found.low) / 2 == pytest.approx(reach, rel=0.15)
    assert float(found.std) >= sample.std(ddof=1) / math.sqrt(40) - 1e-12
    again = estimate_by_halves(sample, lambda x: float(x.mean()), bounds=(-100, 100))
    assert ends(found) == ends(again)


def test_halves_show_the_bias_of_a_squared_mean():
    """The square of a mean is too large by variance ÷ n on average; the interval is centred that much lower."""
    sample = np.random.default_rng(1).normal(1, 3, 30)
    found = estimate_by_halves(sample, lambda x: float(x.mean()) ** 2, bounds=(-100, 100))
    middle = sum(ends(found)) / 2
    assert float(found.mean) - middle == pytest.approx(sample.var(ddof=1) / 30, rel=0.25)


def test_halves_keep_to_the_bounds_and_hold_the_number():
    found = estimate_by_halves(np.array([0.2, 0.3, 0.05, 0.4, 0.15]), lambda x: float((x > 0.1).mean()), bounds=(0, 1))
    assert 0 <= found.low <= found.mean <= found.high == 1
    alike = estimate_by_halves(np.ones(6), lambda x: float((x > 0.1).mean()), bounds=(0, 1))
    assert (*ends(alike), float(alike.std)) == (1, 1, 0)


# -- questions, and estimates as text ----------------------------------------------------------------------------------


def test_traces_of_one_question_become_one_sample_that_counts_as_others_do():
    """By hand: "a" has 1 and 3, mean 2; "b" 10 and NaN, mean 10; the mean over questions is 6, n is 2."""
    values = np.array([[1.0, NAN], [10, 4], [3, NAN], [NAN, 6]])
    found = by_question(values, ["a", "b", "a", "b"])
    assert np.array_equal(found, [[2, NAN], [10, 5]], equal_nan=True)
    counted = estimate(found)
    assert counted.mean.tolist() == [6, 5]
    assert counted.n.tolist() == [2, 1]
    with pytest.raises(ValueError, match="4 traces and 3 questions"):
        by_question(values, ["a", "b", "c"])


def test_questions_count_not_traces(values):
    """Thrice the same traces say no more than once: the interval is that of the questions, not of the copies."""
    sample = values[:, 0, 0]
    names = [f"question {i}" for i in range(40)]
    thrice = estimate(by_question(np.concatenate([sample] * 3), names * 3))
    once = estimate(sample)
    assert (*ends(thrice), int(thrice.n)) == (*ends(once), 40)
    copies = estimate(np.concatenate([sample] * 3))
    assert float(copies.high - copies.low) < 0.7 * float(once.high - once.low)  # 1/√3 of it
    assert by_question(sample, names) is sample


def test_an_estimate_prints_its_interval_and_count():
    assert str(estimate(np.array([1.0, 1.0, 1.0]))) == "1 [1, 1] (n=3)"
    assert f"{estimate(np.array([0.123456] * 2)):.2f}" == "0.12 [0.12, 0.12] (n=2)"


def test_an_estimate_as_text():
    mean, nan = np.float64(0.5), np.float64("nan")
    assert f"{Estimate(mean, nan, nan, nan, np.int64(1))}" == "0.5 (n=1, no interval)"
    assert f"{Estimate(mean, nan, np.float64(0.25), np.float64(1), np.int64(8))}" == "0.5 [0.25, 1] (n=8)"


def test_a_correlation_near_1_reaches_further_towards_0():
    """The plain interval has the corrected number in its middle. Both scales have weights by the square of a number
    between that and the mean squared as it is, which is biased: seven tenths of the way."""
    sample = 0.9 + np.random.default_rng(2).normal(0, 0.1, 40)
    sample += 0.9 - sample.mean()
    plain, bent = (
        estimate_by_halves(sample, lambda x: float(x.mean() ** 2), bounds=(-9, 9), correlation=flag)
        for flag in (False, True)
    )
    middle, reach = sum(ends(plain)) / 2, float(plain.high - plain.low) / 2
    assert middle != pytest.approx(float(plain.mean), abs=1e-5)
    weight = (0.7 * middle + 0.3 * float(plain.mean)) ** 2
    fisher = [math.tanh(math.atanh(middle) + side * reach / (1 - weight)) for side in (-1, 1)]
    expected = [(1 - weight) * end + weight * other for end, other in zip(ends(plain), fisher, strict=True)]
    assert ends(bent) == pytest.approx(expected)
    assert middle - float(bent.low) > reach > float(bent.high) - middle
