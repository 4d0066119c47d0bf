"""From intervals to verdicts: limits with a margin, p-values that agree with the intervals, Holm's correction."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some
from scipy import stats

from floatlens.analysis import Estimate
from floatlens.claims import Claim, ClaimRule, Limit, Part, with_holm
from floatlens.claims.verdict import LEVEL, holm, whole


def part(low: float, high: float, limit: float = 1.0, *, n: int = 20, mean: float | None = None, **more: float) -> Part:
    middle = (low + high) / 2 if mean is None else mean
    found = Estimate(*(np.asarray(float(x)) for x in (middle, 0.5, low, high)), np.asarray(n))
    return Part("x", found, limit, **more)  # type: ignore[arg-type]


# -- a part -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (1.1, 2.0, "supported"),
        (0.9, 2.0, "undecided"),
        (-0.5, 2.0, "undecided"),
        (0.1, 0.9, "too small"),
        (-0.5, 0.9, "too small"),  # an effect of the wrong sign is not shown
        (-0.5, 0.0, "too small"),  # ends at the opposite limit
        (-0.5, -0.1, "contradicted"),
        (0.0, 0.0, "too small"),
    ],
)
def test_between_the_limit_and_its_opposite_an_effect_is_too_small(low: float, high: float, verdict: str) -> None:
    assert part(low, high, opposite=0.0).verdict == verdict
    assert part(-high, -low, -1.0, above=False, opposite=0.0).verdict == verdict  # the same, mirrored


def test_what_has_no_opposite_is_never_contradicted() -> None:
    assert part(-9, -8, opposite=-math.inf).verdict == "too small"
    assert str(Limit("distance", 1, opposite=-math.inf)) == "distance above 1"
    assert str(Limit("speed", 0.5, opposite=0.0)) == "speed above 0.5 (contradicted below 0)"
    assert str(Limit("overlap", 0.5, above=False, opposite=0.9)) == "overlap below 0.5 (contradicted above 0.9)"


@pytest.mark.parametrize(("above", "opposite"), [(True, 1.1), (False, 0.9)])
def test_an_opposite_on_the_claimed_side_is_a_mistake(above: bool, opposite: float) -> None:
    with pytest.raises(ValueError, match="on the claimed side"):
        Limit("x", 1.0, above=above, opposite=opposite)
    Limit("x", 1.0, above=above, opposite=1.0)


# -- p-values ---------------------------------------------------------------------------------------------------------


HALF = stats.t.ppf(0.975, 19)
"""Half the width of the 95 % interval of a mean over 20 questions, in standard errors: 2.093."""


def test_p_values_are_those_of_student_with_this_interval() -> None:
    """A mean of 3 with a standard error of 1 against 1 and 0: t = 2 and 3, with 19 degrees of freedom."""
    one = part(3 - HALF, 3 + HALF, opposite=0.0)
    assert one.p_supported == pytest.approx(0.0300, abs=1e-4)  # tables of t: 0.03 at 2.000
    assert one.p_short == pytest.approx(1 - 0.0300, abs=1e-4)
    assert one.p_contradicted == pytest.approx(stats.t.cdf(3, 19), rel=1e-6)
    many = part(3 - 1.96, 3 + 1.96, n=100_000)
    assert many.p_supported == pytest.approx(1 - NormalDist().cdf(2), rel=1e-3)


def test_each_side_of_a_skewed_interval_has_its_own_width() -> None:
    one = part(2.0, 9.0, mean=3.0)
    assert one.p_supported == pytest.approx(stats.t.sf(2 * HALF, 19), rel=1e-6)
    assert one.p_short == pytest.approx(stats.t.sf(-2 / 6 * HALF, 19), rel=1e-6)


@pytest.mark.parametrize(("value", "p"), [(1.5, 0.0), (1.0, 0.5), (0.5, 1.0)])
def test_equal_values_leave_no_doubt(value: float, p: float) -> None:
    one = part(value, value)
    assert (one.p_supported, one.p_contradicted) == (p, 1 - p)


def test_too_few_questions_are_no_test() -> None:
    one = part(2, 3, n=19)
    assert one.verdict == "undecided"
    assert np.isnan([one.p_supported, one.p_contradicted, one.p_short]).all()
    assert np.isnan(part(np.nan, np.nan).p_supported)


@given(*(some.floats(-5, 5) for _ in range(3)), some.sampled_from([0.5, 1.0]), some.booleans())
def test_p_values_agree_with_the_interval(a: float, b: float, c: float, opposite: float, above: bool) -> None:
    low, mean, high = sorted((round(a, 3), round(b, 3), round(c, 3)))
    side = 1 if above else -1
    ends = (low, high) if above else (-high, -low)
    one = part(*ends, side * 1.0, mean=side * mean, above=above, opposite=side * opposite)
    close = any(math.isclose(x, y, abs_tol=1e-9) for x, y in product((low, high), (1.0, opposite)))
    if not close:
        assert (one.verdict == "supported") == (one.p_supported < LEVEL)
        assert (one.verdict == "contradicted") == (one.p_contradicted < LEVEL)
        assert (one.verdict in ("too small", "contradicted")) == (one.p_short < LEVEL)


# -- Holm -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("p", "adjusted"),
    [
        ([], []),
        ([0.04], [0.04]),
        ([0.01, 0.04, 0.03], [0.03, 0.06, 0.06]),
        ([0.5, 0.4], [0.8, 0.8]),
        ([0.6, 0.9], [1.0, 1.0]),
        ([0.02, math.nan, 0.01], [0.02, math.nan, 0.02]),
    ],
)
def test_holm(p: list[float], adjusted: list[float]) -> None:
    assert holm(p) == pytest.approx(adjusted, nan_ok=True)


@given(some.lists(some.floats(0, 1), min_size=1, max_size=8))
def test_holm_rejects_what_its_steps_reject(p: list[float]) -> None:
    """The textbook form: from the smallest on, each against level ÷ tests left, until one is not below it."""
    rejected: set[int] = set()
    for rank, place in enumerate(sorted(range(len(p)), key=p.__getitem__)):
        if not p[place] * (len(p) - rank) < 0.05:
            break
        rejected.add(place)
    assert {place for place, one in enumerate(holm(p)) if one < 0.05} == rejected


# -- parts together ---------------------------------------------------------------------------------------------------


def test_one_part_refutes_only_after_holm() -> None:
    """z = 2.1: one-sided p = 0.018, which is below 0.025 alone. Of several parts, twice that is above 0.0125."""
    barely = part(1 - 2.1 - 1.959964, 1 - 2.1 + 1.959964, n=100_000)
    fine = part(2, 3)
    assert barely.verdict == "contradicted"
    assert whole([barely])[0] == "contradicted"
    assert whole([fine, barely]) == ("too small", barely)
    clearly = part(1 - 2.6 - 1.959964, 1 - 2.6 + 1.959964, n=100_000)  # p = 0.0047
    assert whole([fine, clearly]) == ("contradicted", clearly)  # 2 × 0.0047
    assert whole([fine, part(0, 2), clearly])[0] == "too small"  # 3 × 0.0047


def test_of_few_questions_small_p_are_larger_than_those_of_a_normal_number() -> None:
    """The same interval over 20 questions: p of t = 2.6 · 2.093 ÷ 1.96 with 19 degrees of freedom is 0.0060."""
    clearly = part(1 - 2.6 - 1.959964, 1 - 2.6 + 1.959964)
    assert clearly.p_contradicted == pytest.approx(0.0060, abs=1e-4)
    assert whole([part(2, 3), clearly])[0] == "contradicted"  # 2 × 0.0060
    assert whole([part(2, 3), part(2, 3), clearly])[0] == "too small"  # 3 × 0.0060 is below the full level alone


def test_parts_that_were_not_tested_do_not_count_in_holm() -> None:
    barely = part(1 - 2.1 - 1.959964, 1 - 2.1 + 1.959964)
    assert whole([part(np.nan, np.nan), barely])[0] == "contradicted"


@pytest.mark.parametrize(
    ("intervals", "verdict", "deciding"),
    [
        ([(2, 3), (2, 3)], "supported", 0),
        ([(2, 3), (0.2, 0.8)], "too small", 1),
        ([(0, 2), (0.2, 0.8)], "too small", 1),
        ([(0.2, 0.8), (-9, -8)], "contradicted", 1),
        ([(2, 3), (0, 2)], "undecided", 1),
    ],
)
def test_the_whole_follows_from_its_parts(intervals: list[tuple[float, float]], verdict: str, deciding: int) -> None:
    parts = [part(*one, opposite=0.0) for one in intervals]
    assert whole(parts) == (verdict, parts[deciding])


# -- a family ---------------------------------------------------------------------------------------------------------


def claim(z: float, family: str = "a", more: Sequence[Part] = ()) -> Claim:
    """A claim of one part whose mean is z standard errors above its limit."""
    one = part(1 + z - 1.959964, 1 + z + 1.959964, n=100_000)  # as good as normal
    rule = ClaimRule("id", "", "", family, (), "", (), lambda: [])
    return Claim("id", "", "m", (one, *more), "", rule=rule)


def test_holm_is_over_the_claims_of_a_family() -> None:
    """Two-sided p of z = 2.1, 2.3 and 3: 0.0357, 0.0214 and 0.0027."""
    alone, strong, strongest = claim(2.1), claim(2.3), claim(-3.0)
    assert [one.p for one in (alone, strong, strongest)] == pytest.approx([0.0357, 0.0214, 0.0027], abs=1e-4)
    assert [one.survives for one in with_holm([alone])] == [True]
    assert [one.survives for one in with_holm([strong, strongest])] == [True, True]  # 0.0214 is the last step
    assert [one.survives for one in with_holm([strong, strong, strongest])] == [True, True, True]  # 2 × 0.0214
    assert [one.survives for one in with_holm([alone, alone, strongest])] == [False, False, True]  # 2 × 0.0357
    assert [one.survives for one in with_holm([alone, claim(2.1, "b")])] == [True, True]  # families of their own
    assert [one.verdict for one in with_holm([alone, alone])] == ["supported"] * 2  # the verdicts stay


def test_undecided_claims_count_but_have_nothing_that_could_survive() -> None:
    found = with_holm([claim(2.3), claim(0.0)])  # 2 × 0.0214
    assert [(one.verdict, one.survives) for one in found] == [("supported", True), ("undecided", None)]
    assert [one.survives for one in with_holm([claim(2.1), claim(1.9), claim(1.9)])] == [False, None, None]
    assert found[1].p == pytest.approx(1.0)


def test_a_claim_of_several_parts_is_as_sure_as_the_least_sure() -> None:
    assert claim(4.0, more=[claim(2.1).parts[0]]).p == pytest.approx(0.0357, abs=1e-4)
    assert claim(4.0, more=[claim(-3.0).parts[0]]).p == pytest.approx(2 * 0.0027, abs=1e-4)  # one of two refutes
    assert math.isnan(Claim("id", "", "m", (), "").p)
