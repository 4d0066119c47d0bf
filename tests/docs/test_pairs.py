"""Exact coverage of intervals for pairs: probabilities by hand, and the page as docs/pairs.py writes it."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


def _load():
    spec = importlib.util.spec_from_file_location("floatlens_docs_pairs", DOCS / "pairs.py")
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


exact = _load()


def test_every_outcome_is_counted_once():
    """Of 3 pairs of four kinds: 6 over 3 = 20 outcomes, with probabilities that add up to 1."""
    counts = tuple(exact.outcomes(3))
    assert len(counts[0]) == 20
    assert exact.chances(3, counts, 0.3, 0.1).sum() == pytest.approx(1)


def test_coverage_of_one_pair_by_hand():
    """The normal interval of one pair is the outcome itself: it holds 0 only where the pair is alike."""
    assert exact.coverage(1, exact.normal, ((0.25, 0.25), (0.1, 0.1))) == pytest.approx([0.5, 0.8])


def test_how_often_an_end_has_to_miss_by_hand():
    """One pair, difference 0.2: "first only" has q + 0.2, at most 0.6; "second only" has q, at most 0.4."""
    above, below = exact.end_errors(1, 0.2)
    assert (above[1, 0], below[0, 1]) == pytest.approx((0.6, 0.4))
    assert (above[0, 0], below[0, 0]) == pytest.approx((1.0, 0.8))  # 1 − q and 1 − p at q = 0
    assert exact.table(3, 0.3, 0.1).sum() == pytest.approx(1)


def test_no_monotone_interval_with_ends_of_95_percent_covers_less_than_tangos_where_few_pairs_differ():
    """5 against 0 of 20 pairs has 20 over 5 · 0.1⁵ · 0.85¹⁵ = 0.0135; with it out, coverage is below 0.98."""
    for first, second in ((0.1, 0.05), (0.05, 0.02)):
        (covered,) = exact.coverage(20, exact.tango, ((first, second),))
        assert exact.least_coverage(20, first, second, 0.025) == pytest.approx(covered, abs=1e-5)
        assert covered > exact.MOST
    _, covered, outcomes = exact.attainable(20, 0.1, 0.05)
    at = outcomes.index("5 against 0")
    assert covered[at - 1] - covered[at] == pytest.approx(15504 * 0.1**5 * 0.85**15)
    assert covered[at - 1] > exact.MOST > covered[at]
    assert exact.least_coverage(20, 0.05, 0.02, 0.05) > exact.MOST > exact.least_coverage(20, 0.05, 0.02, 0.06)


def test_misses_of_both_ends_by_hand():
    """The normal interval of one pair is the outcome itself. At shares of 0.25 it lies above 0 where only the first is
    right; at 0.5 and 0.1 the difference is 0.4, and all outcomes but "first only" lie below it."""
    assert exact.end_misses(1, exact.normal, ((0.25, 0.25), (0.5, 0.1))) == [
        pytest.approx((0.25, 0.25)),
        pytest.approx((0.5, 0.5)),
    ]


def test_scores_between_0_and_1_have_to_be_covered_where_scores_of_0_and_1_do():
    """With full gains and losses alone both bounds are one. One score with a small gain need not be as large a gain in
    0/1 scores, which are 0.6 at most likely to have one: it has to be covered."""
    full = exact.least_coverage_of_scores(20, (0, 0.1), (0, 0.05), 0.05, 0.025)
    assert full == pytest.approx(exact.least_coverage(20, 0.1, 0.05, 0.025), abs=1e-6)
    assert exact.least_coverage_of_scores(1, (0.4, 0.0), (0.0, 0.0), 0.2, 0.025) == pytest.approx(1)


def test_shares_of_small_and_full_gains_are_those_of_the_simulated_f1():
    """A score of 0, 1/3, 0.4, 0.5, 2/3, 0.8 or 1 is replaced in 5 % of the questions, whatever it was."""
    values = [0, 1 / 3, 0.4, 0.5, 2 / 3, 0.8, 1]
    first, second = [0.05, *[0.01] * 5, 0.9], [0.5, *[0.04] * 5, 0.3]
    apart = {(i, j): 0.05 * p * q for i, p in enumerate(first) for j, q in enumerate(second)}
    gains, losses = exact.SCORES
    assert sum(p for (i, j), p in apart.items() if i > j) == pytest.approx(sum(gains))
    assert apart[6, 0] == pytest.approx(gains[1])
    assert sum(p for (i, j), p in apart.items() if i < j) == pytest.approx(sum(losses))
    assert apart[0, 6] == pytest.approx(losses[1])
    mean = sum(p * (values[i] - values[j]) for (i, j), p in apart.items())
    assert mean == pytest.approx(exact.SCORES_DIFFERENCE)


def test_the_chosen_interval_covers_least_of_all_no_less_than_the_target():
    grid = exact.GRID[::7]
    assert min(exact.coverage(20, exact.tango, grid)) >= exact.LEAST > min(exact.coverage(20, exact.normal, grid))


@pytest.mark.slow
@pytest.mark.ci
def test_the_page_is_what_is_computed():
    assert exact.page() == exact.PAGE.read_text(encoding="utf-8")
