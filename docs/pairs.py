"""Exact coverage of intervals for paired differences of shares: every outcome of n pairs, with its probability.

    .venv/bin/python docs/pairs.py            # half a minute; nothing is drawn

Why Tango's interval was chosen, what others would cover, and where no interval can reach the target because there are
too few outcomes. The page is docs/claims/pairs.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from scipy import special

from floatlens.analysis.kernels import Floats
from floatlens.analysis.score_tests import paired_ends

PAGE = Path(__file__).parent / "claims" / "pairs.md"
SIZES = (20, 50)
LEAST, MOST = 0.92, 0.98
Z = float(special.ndtri(0.975))
CELLS = ((0.3, 0.05), (0.5, 0.02), (0.2, 0.2), (0.1, 0.05), (0.05, 0.02), (0.02, 0.0))
"""Shares of the pairs that are right in the first only, and in the second only."""
GRID = tuple((p, q) for p in np.arange(0, 0.981, 0.02) for q in np.arange(0, p + 1e-9, 0.02) if 0 < p + q < 0.99)
Ends = tuple[Floats, Floats]
ERRORS = (0.025, 0.03, 0.04, 0.05)
"""How often an end may miss: half of 5 %, and more."""
STEPS = 401


def outcomes(n: int) -> Iterator[Floats]:
    """Counts of pairs right in both, in the first only and in the second only: every outcome of n pairs."""
    counts = np.stack(np.meshgrid(*[np.arange(n + 1.0)] * 3, indexing="ij")).reshape(3, -1)
    yield from counts[:, counts.sum(axis=0) <= n]


def chances(n: int, counts: tuple[Floats, Floats, Floats], first: float, second: float) -> Floats:
    """The probability of each outcome; half of the other pairs are right in both."""
    rest = (1 - first - second) / 2
    every = [*counts, n - sum(counts)]
    logs = special.gammaln(n + 1) - sum(special.gammaln(one + 1) for one in every)
    return np.exp(logs + sum(special.xlogy(k, p) for k, p in zip(every, (rest, first, second, rest), strict=True)))


def tango(n: int, both: Floats, first: Floats, second: Floats) -> Ends:
    return paired_ends(first, second, np.full_like(first, n))


def newcombe(n: int, both: Floats, first: Floats, second: Floats) -> Ends:
    """Method 10 of 1998, with its correction of a positive correlation."""
    p, q, neither = (both + first) / n, (both + second) / n, n - both - first - second
    (low_p, high_p), (low_q, high_q) = _wilson(p, n), _wilson(q, n)
    product = (both + first) * (second + neither) * (both + second) * (first + neither)
    above = both * neither - first * second
    above = np.where(above > 0, np.maximum(above - n / 2, 0), above)
    phi = np.where(product > 0, above / np.sqrt(np.maximum(product, 1)), 0)
    sides = ((p - low_p, high_q - q), (high_p - p, q - low_q))
    down, up = (np.sqrt(np.maximum(x**2 - 2 * phi * x * y + y**2, 0)) for x, y in sides)
    return p - q - down, p - q + up


def _wilson(p: Floats, n: int) -> Ends:
    z2 = Z**2 / n
    middle, half = (p + z2 / 2) / (1 + z2), np.sqrt(z2 * p * (1 - p) + z2**2 / 4) / (1 + z2)
    return middle - half, middle + half


def bonett_price(n: int, both: Floats, first: Floats, second: Floats) -> Ends:
    """The normal interval after one more pair of each kind that differs (2012)."""
    p, q = (first + 1) / (n + 2), (second + 1) / (n + 2)
    reach = Z * np.sqrt((p + q - (p - q) ** 2) / (n + 2))
    return p - q - reach, p - q + reach


def normal(n: int, both: Floats, first: Floats, second: Floats) -> Ends:
    p, q = first / n, second / n
    reach = Z * np.sqrt((p + q - (p - q) ** 2) / n)
    return p - q - reach, p - q + reach


METHODS: dict[str, Callable[..., Ends]] = {
    "Tango": tango,
    "Newcombe": newcombe,
    "Bonett–Price": bonett_price,
    "normal": normal,
}


def coverage(n: int, method: Callable[..., Ends], cells: tuple[tuple[float, float], ...]) -> list[float]:
    """The probability of the outcomes whose interval holds the true difference, for each of `cells`.
    Example: `coverage(20, tango, ((0.1, 0.05),))`"""
    counts = tuple(outcomes(n))
    low, high = method(n, *counts)
    return [float(chances(n, counts, p, q)[(low <= p - q + 1e-12) & (p - q - 1e-12 <= high)].sum()) for p, q in cells]


def end_misses(
    n: int, method: Callable[..., Ends], cells: tuple[tuple[float, float], ...]
) -> list[tuple[float, float]]:
    """How often the lower end lies above the true difference, and the upper one below it, for each of `cells`."""
    counts = tuple(outcomes(n))
    low, high = method(n, *counts)
    found = []
    for p, q in cells:
        chance, tiny = chances(n, counts, p, q), 1e-12
        found.append((float(chance[low > p - q + tiny].sum()), float(chance[high < p - q - tiny].sum())))
    return found


def end_errors(n: int, difference: float) -> Ends:
    """For every outcome (first only, second only): the largest probability, over shares with this difference, of all
    outcomes that are as extreme on the side of the first, and of those on the side of the second.

    If the lower end lies above the difference at an outcome, it does at all outcomes that favour the first more, so it
    misses at least that often. The largest of some shares: the true one is no smaller.
    Example: `end_errors(1, 0.2)[0][1, 0]`"""
    above, below = np.zeros((n + 1, n + 1)), np.zeros((n + 1, n + 1))
    for second in np.linspace(0, (1 - difference) / 2, STEPS):
        chance = table(n, second + difference, second)
        above = np.maximum(above, chance[::-1].cumsum(axis=0)[::-1].cumsum(axis=1))
        below = np.maximum(below, chance.cumsum(axis=0)[:, ::-1].cumsum(axis=1)[:, ::-1])
    return above, below


def table(n: int, first: float, second: float) -> Floats:
    """(first only, second only): the probability of each outcome."""
    one, two = np.meshgrid(np.arange(n + 1.0), np.arange(n + 1.0), indexing="ij")
    rest = np.maximum(n - one - two, 0)
    logs = special.gammaln(n + 1) - sum(special.gammaln(count + 1) for count in (one, two, rest))
    shares = ((one, first), (two, second), (rest, max(1 - first - second, 0.0)))
    return np.where(one + two <= n, np.exp(logs + sum(special.xlogy(k, p) for k, p in shares)), 0.0)


def attainable(n: int, first: float, second: float) -> tuple[Floats, Floats, list[str]]:
    """Errors of an end, rising, with the least coverage of any monotone interval whose ends miss no more often than
    that, and the outcomes that it need not cover from there on."""
    least = np.minimum(*end_errors(n, first - second))
    chance = table(n, first, second)
    order = np.argsort(least, axis=None, kind="stable")
    places = zip(*np.unravel_index(order, least.shape), strict=True)
    return least.ravel()[order], 1 - chance.ravel()[order].cumsum(), [f"{one} against {two}" for one, two in places]


def least_coverage(n: int, first: float, second: float, error: float) -> float:
    """The least coverage of any monotone interval whose ends each miss with at most this probability.
    Example: `least_coverage(20, 0.1, 0.05, 0.025)`"""
    errors, covered, _ = attainable(n, first, second)
    return float(min(covered[errors <= error], default=1.0))


SCORES = ((0.01045, 0.0225), (0.00145, 0.00075))
"""Shares of small and of full gains, and of small and full losses: 5 % of the questions have another F1
(docs/intervals.py)."""
SCORES_DIFFERENCE = 0.02595


def least_coverage_of_scores(
    n: int, gains: tuple[float, float], losses: tuple[float, float], difference: float, error: float
) -> float:
    """The least coverage of any monotone interval whose ends each miss with at most this probability, for scores from 0
    to 1 of all distributions; `gains` and `losses` are the shares of those below 1, and of 1.

    Outcomes of 0/1 scores with as many gains or more, and no more losses than there are full ones, favour the first
    at least as much. Outcomes with more than a dozen of a kind count as not covered.
    Example: `least_coverage_of_scores(20, (0.1, 0.02), (0.05, 0.01), 0.05, 0.025)`"""
    above, below = end_errors(n, difference)
    counts = np.stack(np.meshgrid(*[np.arange(min(n, 12) + 1)] * 4, indexing="ij")).reshape(4, -1)
    counts = counts[:, counts.sum(axis=0) <= n]
    shares = (*gains, *losses)
    logs = special.gammaln(n + 1) - sum(special.gammaln(one + 1.0) for one in (*counts, n - counts.sum(axis=0)))
    logs += sum(special.xlogy(k, p) for k, p in zip(counts, shares, strict=True))
    chance = np.exp(logs + special.xlogy(n - counts.sum(axis=0), 1 - sum(shares)))
    small, full, small_losses, full_losses = counts
    least = np.minimum(above[small + full, full_losses], below[full, small_losses + full_losses])
    return float(chance[least > error].sum())


HEAD = f"""# Paired differences of shares: exact coverage

Written by `python docs/pairs.py`; nothing is drawn. Each entry is the probability that a 95 % interval holds the true
difference, summed over all outcomes of n pairs of 0/1 scores. The target is {LEAST} to {MOST}; what misses it is in
bold. Half of the pairs that do not differ are right in both. Pairs have Tango's interval.

| n | first only | second only | {" | ".join(METHODS)} |
|---|---|---|{"---|" * len(METHODS)}
"""


LIMITS = f"""
## Limits of few outcomes

Where few pairs differ, a handful of outcomes has nearly all the probability. Take any interval that moves up when more
questions are right in the first only, or fewer in the second only. If its lower end lies above the true difference at
one outcome, it does so at all outcomes that favour the first at least as much. So that end misses at least as often as
these occur, for every pair of shares with this difference. Where that is more than an end may miss, the outcome has to
be covered. The table has the probability of the outcomes that have to be: **no such interval covers less**, whatever
its formula. A 95 % interval has ends that miss 2.5 % each. Tango's miss more often in places (last column of the grid),
and where they do it may cover less. The last columns say how often an end would have to miss, at worst, for coverage of
{MOST} or less, and at which outcome.

| n | first only | second only | Tango | {" | ".join(f"least, ends miss {e:.1%}" for e in ERRORS)} | {MOST} needs | at |
|---|---|---|---|{"---|" * len(ERRORS)}---|---|
"""

PARTS = f"""
An interval for scores from 0 to 1 has to hold for scores of 0 and 1 too, so the same outcomes have to be covered where
scores differ by less. For the F1 of [coverage.md](coverage.md) of which {sum(map(sum, SCORES)):.1%} differ:

| n | {" | ".join(f"least, ends miss {e:.1%}" for e in ERRORS)} |
|---|{"---|" * len(ERRORS)}
"""


def page() -> str:
    """As Markdown."""
    lines = [HEAD]
    for n in SIZES:
        found = [coverage(n, method, CELLS) for method in METHODS.values()]
        for (p, q), covered in zip(CELLS, zip(*found, strict=True), strict=True):
            lines.append(f"| {n} | {p:.0%} | {q:.0%} | {' | '.join(_cell(one) for one in covered)} |\n")
    lines.append(f"\n## Grid\n\n{len(GRID)} combinations of both shares, in steps of two points.\n\n")
    lines.append("| n | interval | least | at | below 0.92 | above 0.98 | an end misses at most |\n")
    lines.append("|---|---|---|---|---|---|---|\n")
    for n in SIZES:
        for name, method in METHODS.items():
            all_of = np.array(coverage(n, method, GRID))
            p, q = GRID[int(all_of.argmin())]
            shares = f"{np.mean(all_of < LEAST):.1%} | {np.mean(all_of > MOST):.1%}"
            worst = f"{max(map(max, end_misses(n, method, GRID))):.1%}"
            lines.append(f"| {n} | {name} | {all_of.min():.3f} | {p:.0%} and {q:.0%} | {shares} | {worst} |\n")
    lines.append(LIMITS)
    for n in SIZES:
        for p, q in CELLS:
            (covered,) = coverage(n, tango, ((p, q),))
            if covered > MOST:
                least = " | ".join(f"{least_coverage(n, p, q, error):.4f}" for error in ERRORS)
                errors, reached, words = attainable(n, p, q)
                at = int(np.argmax(reached <= MOST))
                lines.append(
                    f"| {n} | {p:.0%} | {q:.0%} | {covered:.4f} | {least} | {errors[at]:.1%} | {words[at]} |\n"
                )
    lines.append("\n" + " ".join(_of_the_grid(n) for n in SIZES) + "\n")
    lines.append(PARTS)
    for n in SIZES:
        least = (least_coverage_of_scores(n, *SCORES, SCORES_DIFFERENCE, error) for error in ERRORS)
        lines.append(f"| {n} | {' | '.join(f'{one:.4f}' for one in least)} |\n")
    return "".join(lines)


def _of_the_grid(n: int) -> str:
    above = [cell for cell, covered in zip(GRID, coverage(n, tango, GRID), strict=True) if covered > MOST]
    bound = sum(least_coverage(n, p, q, ERRORS[0]) > MOST for p, q in above)
    return (
        f"At n = {n}, Tango's interval covers more than {MOST} in {len(above)} of the combinations of the grid; every "
        f"interval whose ends miss 2.5 % has to in {bound} of these."
    )


def _cell(covered: float) -> str:
    return f"{covered:.3f}" if LEAST <= round(covered, 3) <= MOST else f"**{covered:.3f}**"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
