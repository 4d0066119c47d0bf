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
    """5 against 0 of 20 pairs has 20 over 5 · 0.1⁵ · 0.85¹⁵ = 0.0135; with it out, coverage would be 0.9686."""
    for first, second in ((0.1, 0.05), (0.05, 0.02)):
        (covered,) = exact.coverage(20, exact.tango, ((first, second),))
        assert exact.least_coverage(20, first, second, 0.025) == pytest.approx(covered)
        assert covered > exact.MOST
    next_one = exact.least_coverage(20, 0.1, 0.05, 0.025) - exact.least_coverage(20, 0.1, 0.05, 0.0282)
    assert next_one == pytest.approx(15504 * 0.1**5 * 0.85**15, abs=1e-4)
    assert exact.least_coverage(20, 0.05, 0.02, 0.05) > exact.MOST > exact.least_coverage(20, 0.05, 0.02, 0.06)


def test_the_chosen_interval_covers_least_of_all_no_less_than_the_target():
    grid = exact.GRID[::7]
    assert min(exact.coverage(20, exact.tango, grid)) >= exact.LEAST > min(exact.coverage(20, exact.normal, grid))


@pytest.mark.slow
@pytest.mark.ci
def test_the_page_is_what_is_computed():
    assert exact.page() == exact.PAGE.read_text(encoding="utf-8")
