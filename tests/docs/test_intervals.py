"""Coverage of each kind of interval, by simulation: docs/intervals.py with fewer draws, and in full where slow."""

from __future__ import annotations

import importlib.util
import math
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


def _load():
    spec = importlib.util.spec_from_file_location("floatlens_docs_intervals", DOCS / "intervals.py")
    made = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = made  # dataclasses look their module up
    spec.loader.exec_module(made)
    return made


simulation = _load()
FAST = [case for case in simulation.CASES if not case.slow]
SLOW = [case for case in simulation.CASES if case.slow]


def name(case):
    return f"{case.kind}: {case.samples}"


def check(case, n, draws):
    """Coverage is where it is known to be, give or take three binomial errors."""
    found = simulation.coverage(case, n, draws, seed=1)
    least, most = case.within
    error = 3 * math.sqrt(least * (1 - least) / draws)
    assert least - error <= found <= most + error, f"{name(case)}, n = {n}: {found:.3f} of {draws}"


@pytest.mark.parametrize("case", FAST, ids=name)
@pytest.mark.parametrize("n", [20, 50])
def test_coverage_of_means_shares_and_differences(case, n):
    check(case, n, 4000)


@pytest.mark.parametrize("case", [case for case in SLOW if "16 × 16" not in case.samples], ids=name)
def test_coverage_of_numbers_of_all_questions(case):
    check(case, 20, 60)


def test_intervals_that_are_too_narrow_are_noticed():
    """The normal interval of a share at p = 0.05 covers 0.64 of the time; the check has to fail for it."""

    def normal(random, n, draws):
        return simulation.estimate(simulation._binary(0.05)(random, (n, draws)))

    with pytest.raises(AssertionError, match=r"share: p = 0.05, n = 20: 0\.6"):
        check(simulation.Case("share", "p = 0.05", 0.05, normal), 20, 4000)


def test_target_is_that_of_the_issue_unless_a_note_says_why():
    assert (simulation.LEAST, simulation.MOST) == (0.92, 0.98)
    assert all(case.note for case in simulation.CASES if case.within != (0.92, 0.98))


def test_notes_have_the_least_attainable_coverage():
    """The page of docs/pairs.py has it with more digits, for the same shares at n = 20."""
    rows = [line.split(" | ") for line in (DOCS / "claims" / "pairs.md").read_text(encoding="utf-8").splitlines()]
    least = {row[1] + row[2]: float(row[4]) for row in rows if row[0] == "| 20" and len(row) == 10}
    (of_scores,) = [float(row[1]) for row in rows if row[0] == "| 20" and len(row) == 5]
    expected = {0.15: least["10%5%"], 0.07: least["5%2%"], 0.05: of_scores}
    assert {share: round(value, 3) for share, value in expected.items()} == simulation.ATTAINABLE


@pytest.mark.slow
def test_the_page_is_what_the_simulation_writes():
    """In full, with the draws and the seed of the page."""
    assert simulation.page() == simulation.PAGE.read_text(encoding="utf-8")
