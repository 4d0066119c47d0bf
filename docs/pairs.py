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


def first_within(n: int, first: float, second: float) -> tuple[float, float, str]:
    """The largest limit of the score statistic, below the usual one, that brings coverage to 0.98 or less; coverage
    there, and the likeliest outcome that would then exclude the true difference."""
    counts = tuple(outcomes(n))
    difference = first - second
    _, one, two = counts
    linear = (2 * n - one + two) * difference - one - two
    rare = (np.sqrt(linear**2 + 8 * n * two * difference * (1 - difference)) - linear) / (4 * n)
    z = np.abs(one - two - n * difference) / np.sqrt(np.maximum(n * (2 * rare + difference * (1 - difference)), 1e-9))
    chance = chances(n, counts, first, second)
    for limit in np.unique(z[z < Z].round(9))[::-1]:
        kept = chance[z < limit - 1e-8].sum()
        if kept <= MOST:
            break
    at = int(np.argmax(np.where(np.abs(z - limit) < 1e-8, chance, 0)))
    return float(limit), float(kept), f"{one[at]:.0f} against {two[at]:.0f}"


HEAD = f"""# Paired differences of shares: exact coverage

Written by `python docs/pairs.py`; nothing is drawn. Each entry is the probability that a 95 % interval holds the true
difference, summed over all outcomes of n pairs of 0/1 scores. The target is {LEAST} to {MOST}; what misses it is in
bold. Half of the pairs that do not differ are right in both. Scores of 0 and 1 have Tango's interval.

| n | first only | second only | {" | ".join(METHODS)} |
|---|---|---|{"---|" * len(METHODS)}
"""


LIMITS = f"""
## Limits of few outcomes

Where few pairs differ, a handful of outcomes has nearly all the probability, and coverage jumps from one to the next.
An interval covers at most {MOST} only if it excludes the true difference at the outcome below. Its score is within the
limit of 95 % ({Z:.2f}), so it would be an interval of the level given, everywhere.

| n | first only | second only | coverage | outcome | score | level | coverage without it |
|---|---|---|---|---|---|---|---|
"""


def page() -> str:
    """As Markdown."""
    lines = [HEAD]
    for n in SIZES:
        found = [coverage(n, method, CELLS) for method in METHODS.values()]
        for (p, q), covered in zip(CELLS, zip(*found, strict=True), strict=True):
            lines.append(f"| {n} | {p:.0%} | {q:.0%} | {' | '.join(_cell(one) for one in covered)} |\n")
    lines.append(f"\n## Grid\n\n{len(GRID)} combinations of both shares, in steps of two points.\n\n")
    lines.append("| n | interval | least | at | below 0.92 | above 0.98 |\n|---|---|---|---|---|---|\n")
    for n in SIZES:
        for name, method in METHODS.items():
            all_of = np.array(coverage(n, method, GRID))
            p, q = GRID[int(all_of.argmin())]
            shares = f"{np.mean(all_of < LEAST):.1%} | {np.mean(all_of > MOST):.1%}"
            lines.append(f"| {n} | {name} | {all_of.min():.3f} | {p:.0%} and {q:.0%} | {shares} |\n")
    lines.append(LIMITS)
    for n in SIZES:
        for p, q in CELLS:
            (covered,) = coverage(n, tango, ((p, q),))
            if covered > MOST:
                limit, kept, words = first_within(n, p, q)
                level = 2 * special.ndtr(limit) - 1
                lines.append(
                    f"| {n} | {p:.0%} | {q:.0%} | {covered:.4f} | {words} | {limit:.2f} | {level:.0%} | {kept:.4f} |\n"
                )
    return "".join(lines)


def _cell(covered: float) -> str:
    return f"{covered:.3f}" if LEAST <= round(covered, 3) <= MOST else f"**{covered:.3f}**"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
