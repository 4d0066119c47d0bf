"""Intervals of differences of shares from score tests, against printed values and tests with likelihoods maximised
numerically."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize, special, stats

from floatlens.analysis.score_tests import paired_ends, unpaired_ends

Z = stats.norm.ppf(0.975)


def floats(*counts):
    return [np.array(float(count)) for count in counts]


@pytest.mark.parametrize(
    ("first", "second", "n", "low", "high"),
    [(6, 16, 161, -0.1240, -0.0054), (1, 7, 21, -0.5172, -0.0260)],
)
def test_pairs_have_tangos_interval(first, second, n, low, high):
    """As printed in Fagerland, Lydersen and Laake, Statistical Analysis of Contingency Tables (2017), chapter 8."""
    assert paired_ends(*floats(first, second, n)) == pytest.approx((low, high), abs=5e-5)


@pytest.mark.parametrize(
    ("right", "n", "others_right", "others", "low", "high"),
    [(56, 70, 48, 80, 0.0528, 0.3382), (9, 10, 3, 10, 0.1700, 0.8406)],
)
def test_samples_have_miettinen_and_nurminens_interval(right, n, others_right, others, low, high):
    """As printed for method 6 by Newcombe, Statistics in Medicine 17 (1998) 873."""
    assert unpaired_ends(*floats(right, n, others_right, others)) == pytest.approx((low, high), abs=5e-5)


def likeliest(log_likelihood, least, most):
    found = optimize.minimize_scalar(lambda x: -log_likelihood(x), bounds=(least, most), options={"xatol": 1e-12})
    return float(found.x)


@pytest.mark.parametrize(("first", "second", "n"), [(9, 2, 44), (3, 0, 20), (1, 1, 20), (5, 12, 20)])
def test_ends_of_pairs_are_where_the_test_rejects(first, second, n):
    """At both ends the score statistic, with the likeliest shares at that difference, is exactly ± z."""
    ends = paired_ends(*floats(first, second, n))
    for end, side in zip(ends, (1, -1), strict=True):

        def log_likelihood(q, d=float(end)):  # q: right in the second only
            shares = (q + d, q, 1 - 2 * q - d)
            return sum(
                special.xlogy(count, p) for count, p in zip((first, second, n - first - second), shares, strict=True)
            )

        q = likeliest(log_likelihood, max(0, -end), (1 - end) / 2)
        error = np.sqrt(n * (2 * q + end - end**2))
        assert (first - second - n * end) / error == pytest.approx(side * Z, abs=1e-4)


@pytest.mark.parametrize(("right", "n", "others_right", "others"), [(19, 20, 18, 20), (5, 12, 3, 40), (1, 9, 8, 9)])
def test_ends_of_samples_are_where_the_test_rejects(right, n, others_right, others):
    ends = unpaired_ends(*floats(right, n, others_right, others))
    for end, side in zip(ends, (1, -1), strict=True):

        def log_likelihood(q, d=float(end)):
            return stats.binom.logpmf(right, n, q + d) + stats.binom.logpmf(others_right, others, q)

        q = likeliest(log_likelihood, max(0, -end), min(1, 1 - end))
        p = q + end
        variance = (p * (1 - p) / n + q * (1 - q) / others) * (n + others) / (n + others - 1)
        assert (right / n - others_right / others - end) / np.sqrt(variance) == pytest.approx(side * Z, abs=1e-4)


def test_questions_that_do_not_differ_still_have_a_width():
    """By hand: with no pair that differs the statistic is √(n·d ÷ (1 − d)), so d = z² ÷ (n + z²); with all pairs in one
    direction it is √(n·(1 − d) ÷ (1 + d)), so d = (n − z²) ÷ (n + z²)."""
    reach = Z**2 / (20 + Z**2)
    assert paired_ends(*floats(0, 0, 20)) == pytest.approx((-reach, reach))
    assert paired_ends(*floats(20, 0, 20)) == pytest.approx(((20 - Z**2) / (20 + Z**2), 1))
    low, high = unpaired_ends(*floats(10, 10, 10, 10))
    assert low == pytest.approx(-high)
    assert high == pytest.approx(Z**2 / (10 * 19 / 20 + Z**2))


def test_swapping_sides_mirrors_the_interval_and_arrays_are_taken_one_by_one():
    first, second, n = np.array([9.0, 0, 3]), np.array([2.0, 5, 3]), np.array([44.0, 20, 8])
    low, high = paired_ends(first, second, n)
    mirrored = paired_ends(second, first, n)
    assert np.allclose(low, -mirrored[1])
    assert np.allclose(high, -mirrored[0])
    assert (low[1], high[1]) == pytest.approx(paired_ends(*floats(0, 5, 20)))
    one, two = unpaired_ends(first, n, second, n), unpaired_ends(second, n, first, n)
    assert np.allclose(one[0], -two[1])


def coverage(first, second, n):
    """Of Tango's interval, exactly: the probability of all outcomes whose interval holds the true difference."""
    a, b = (x.ravel().astype(float) for x in np.meshgrid(np.arange(n + 1), np.arange(n + 1), indexing="ij"))
    a, b = a[a + b <= n], b[a + b <= n]
    low, high = paired_ends(a, b, np.full_like(a, n))
    chances = stats.multinomial.pmf(np.stack([a, b, n - a - b], axis=1), n, [first, second, 1 - first - second])
    return chances[(low <= first - second + 1e-12) & (first - second - 1e-12 <= high)].sum()


@pytest.mark.parametrize("n", [20, 50])
def test_coverage_of_pairs_is_at_least_092_exactly(n):
    """Over a grid of shares of pairs that differ in either direction, but for nearly all of them in one."""
    grid = [(p, q) for p in np.arange(0.02, 0.9, 0.08) for q in np.arange(0, p + 1e-9, 0.08) if p + q < 0.98]
    assert min(coverage(p, q, n) for p, q in grid) > 0.92
