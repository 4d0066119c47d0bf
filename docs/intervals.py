"""Simulates how often each kind of interval of `floatlens.analysis.intervals` covers the true number.

    .venv/bin/python docs/intervals.py            # six minutes on a quiet core; seeded

Samples are drawn from distributions whose number is known, with 8, 20 and 50 questions; the share of intervals that
hold it should be 0.95. The table goes to docs/claims/coverage.md.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from scipy import special

from floatlens.analysis import Group
from floatlens.analysis.class_distance import class_distance
from floatlens.analysis.intervals import (
    Estimate,
    average_share_difference,
    difference,
    estimate,
    estimate_of,
    no_narrower_than_normal,
    share,
    share_difference,
)
from floatlens.analysis.kernels import Floats
from floatlens.analysis.retrieval import depth_correlation, share_above
from floatlens.analysis.stress import relative_area

PAGE = Path(__file__).parent / "claims" / "coverage.md"
SIZES = (8, 20, 50)
LEAST, MOST = 0.92, 0.98
DRAWS, FEW_DRAWS, RANK_DRAWS = 20_000, 400, 500
"""Draws of intervals that are computed for all draws at once, of those that are not, and of rank correlations."""
Random = np.random.Generator
Draw = Callable[[Random, tuple[int, int]], Floats]


@dataclass(frozen=True)
class Case:
    """One row: `found(random, n, draws)` are intervals of the number `true`. `within` is what coverage is known to be
    at n = 20 and 50, and `note` says why, where that is not the target."""

    kind: str
    samples: str
    true: float
    found: Callable[[Random, int, int], Estimate]
    slow: bool = False
    draws: int = FEW_DRAWS  # where slow
    note: str = ""
    within: tuple[float, float] = (LEAST, MOST)


def coverage(case: Case, n: int, draws: int, seed: int = 0) -> float:
    """The share of intervals that hold the true number. Example: `coverage(CASES[0], 20, 1000)`"""
    found = case.found(np.random.default_rng([seed, n]), n, draws)
    tiny = 1e-12  # numbers at the end of an interval are in it, whatever the rounding
    return float(np.mean((found.low <= case.true + tiny) & (case.true - tiny <= found.high)))


def _one_by_one(make: Callable[[Random, int], Floats], of: Callable[[Floats], Estimate]) -> Callable[..., Estimate]:
    """For intervals that are computed for one set of samples at a time."""

    def found(random: Random, n: int, draws: int) -> Estimate:
        made = [of(make(random, n)) for _ in range(draws)]
        return Estimate(
            *(np.array([getattr(one, name) for one in made]) for name in ("mean", "std", "low", "high", "n"))
        )

    return found


# -- means and their differences --------------------------------------------------------------------------------------

NUMBERS: dict[str, tuple[Draw, float]] = {
    "normal": (lambda r, size: r.normal(size=size), 0.0),
    "exponential": (lambda r, size: r.exponential(size=size), 1.0),
    "log-normal, σ = 0.75": (lambda r, size: r.lognormal(0, 0.75, size), float(np.exp(0.75**2 / 2))),
    "U-shaped, beta(0.3, 0.3)": (lambda r, size: r.beta(0.3, 0.3, size), 0.5),
    "J-shaped, beta(5, 1)": (lambda r, size: r.beta(5, 1, size), 5 / 6),
    "70 % zeros, else uniform": (lambda r, size: (r.random(size) < 0.3) * r.random(size), 0.15),
}


def _means() -> Iterator[Case]:
    for name, (draw, mean) in NUMBERS.items():
        yield Case("mean", name, mean, lambda r, n, draws, draw=draw: estimate(draw(r, (n, draws))))
    for name, (draw, mean) in NUMBERS.items():

        def pairs(r: Random, n: int, draws: int, draw: Draw = draw) -> Estimate:
            a = draw(r, (n, draws))
            return estimate(a - (a + draw(r, (n, draws))) / 4)

        yield Case("paired difference of means", name, mean / 2, pairs)
    for name, (draw, mean) in NUMBERS.items():

        def sets(r: Random, n: int, draws: int, draw: Draw = draw) -> Estimate:
            return difference(draw(r, (n, draws)), draw(r, (2 * n, draws)) / 2)

        yield Case("unpaired difference of means (n and 2n)", name, mean / 2, sets)


# -- scores and their differences -------------------------------------------------------------------------------------

PARTIAL = np.array([1 / 3, 0.4, 0.5, 2 / 3, 0.8])
"""F1 of answers that are right in part."""
ATTAINABLE = {0.15: 0.982, 0.07: 0.998, 0.05: 1.0}
"""Share of the pairs that differ (or have another F1): the least coverage at n = 20, from docs/pairs.py."""
RARE = "no interval with ends that miss 2.5 % each [covers less](pairs.md#limits-of-few-outcomes) than {:.3f} here"
WIDE = (LEAST, 1.0)


def _binary(p: float) -> Draw:
    return lambda r, size: (r.random(size) < p).astype(np.float64)


def _f1(zero: float, one: float) -> Draw:
    def draw(r: Random, size: tuple[int, int]) -> Floats:
        at = r.random(size)
        return np.where(at < zero, 0.0, np.where(at < zero + one, 1.0, r.choice(PARTIAL, size)))

    return draw


def _f1_mean(zero: float, one: float) -> float:
    return one + (1 - zero - one) * float(PARTIAL.mean())


def _pairs(r: Random, size: tuple[int, int], both: float, first: float, second: float) -> tuple[Floats, Floats]:
    at = r.random(size)
    a = at < both + first
    b = (at < both) | ((at >= both + first) & (at < both + first + second))
    return a.astype(np.float64), b.astype(np.float64)


def _f1_pairs(r: Random, size: tuple[int, int], again: float, a: tuple[float, float], b: tuple[float, float]) -> Floats:
    """The second score is the first one, or with probability `again` a new one."""
    first = _f1(*a)(r, size)
    return np.stack([first, np.where(r.random(size) < again, _f1(*b)(r, size), first)])


def _scores() -> Iterator[Case]:
    for p in (0.05, 0.2, 0.5, 0.95):
        yield Case("share", f"p = {p:g}", p, lambda r, n, draws, p=p: share(_binary(p)(r, (n, draws))))
    for zero, one in ((0.2, 0.7), (0.6, 0.1), (0.02, 0.95), (0.9, 0.05)):
        yield Case(
            "mean F1",
            f"{zero:.0%} are 0, {one:.0%} are 1",
            _f1_mean(zero, one),
            lambda r, n, draws, zero=zero, one=one: share(_f1(zero, one)(r, (n, draws))),
        )
    for p, q in ((0.5, 0.5), (0.9, 0.5), (0.95, 0.9), (0.2, 0.05)):

        def sets(r: Random, n: int, draws: int, p: float = p, q: float = q) -> Estimate:
            return share_difference(_binary(p)(r, (n, draws)), _binary(q)(r, (n, draws)), paired=False)

        yield Case("unpaired difference of shares", f"p = {p:g} and {q:g}", p - q, sets)
    for cells in ((0.4, 0.3, 0.05), (0.1, 0.5, 0.02), (0.2, 0.2, 0.2), (0.7, 0.1, 0.05), (0.85, 0.05, 0.02)):

        def pairs(r: Random, n: int, draws: int, cells: tuple[float, float, float] = cells) -> Estimate:
            return share_difference(*_pairs(r, (n, draws), *cells), paired=True)

        words = f"both {cells[0]:.0%}, first only {cells[1]:.0%}, second only {cells[2]:.0%}"
        rare = ATTAINABLE.get(round(cells[1] + cells[2], 2))
        known = {"note": RARE.format(rare), "within": WIDE} if rare else {}
        yield Case("paired difference of shares", words, cells[1] - cells[2], pairs, **known)
    for again, a, b in ((0.3, (0.2, 0.7), (0.6, 0.2)), (0.8, (0.1, 0.8), (0.8, 0.05)), (0.05, (0.05, 0.9), (0.5, 0.3))):

        def f1(r: Random, n: int, draws: int, how: tuple[Any, ...] = (again, a, b)) -> Estimate:
            return share_difference(*_f1_pairs(r, (n, draws), *how), paired=True)

        words = f"{again:.0%} of the questions have another F1"
        gap = again * (_f1_mean(*a) - _f1_mean(*b))
        known = {"note": RARE.format(ATTAINABLE[again]), "within": WIDE} if again in ATTAINABLE else {}
        yield Case("paired difference of F1", words, gap, f1, **known)


def _averages() -> Iterator[Case]:
    for name, cells in (
        ("three sets, large gains", ((0.4, 0.3, 0.05), (0.1, 0.5, 0.02), (0.2, 0.2, 0.2))),
        ("three sets, one of them at the ceiling", ((0.4, 0.3, 0.05), (0.1, 0.5, 0.02), (0.96, 0.02, 0.0))),
        ("five sets, small gains", ((0.7, 0.1, 0.05),) * 5),
    ):

        def gains(r: Random, n: int, draws: int, cells: tuple[Any, ...] = cells) -> Estimate:
            return average_share_difference([_pairs(r, (n, draws), *one) for one in cells])

        true = float(np.mean([first - second for _, first, second in cells]))
        yield Case("average of gains", name, true, gains)


# -- numbers of all questions at once ---------------------------------------------------------------------------------

NOISE = np.array([0, 0.2, 0.4, 0.6, 0.8])


def _answered(r: Random, n: int, p: Floats) -> Floats:
    """(question, condition): right or wrong; a question that is easy in one condition is so in the others."""
    easy = 0.7 * r.normal(size=(n, 1)) + np.sqrt(1 - 0.7**2) * r.normal(size=(n, len(p)))
    return (easy < special.ndtri(p)).astype(np.float64)


def _robustness(means: Floats) -> float:
    return relative_area(means[:-1], float(means[-1]), NOISE)


def _smooth(values: Floats, statistic: Callable[[Floats], float]) -> Estimate:
    """As robustness is given in stress curves and judged in claims."""
    found = estimate_of(values, statistic)
    return no_narrower_than_normal(found, float(found.std))


def _robust() -> Iterator[Case]:
    for name, p in (
        ("accuracy 0.8 to 0.4, clean 0.85", [0.8, 0.7, 0.6, 0.5, 0.4, 0.85]),
        ("accuracy 0.97 to 0.93, clean 0.98", [0.97, 0.96, 0.95, 0.94, 0.93, 0.98]),
        ("accuracy 0.3 to 0.1, clean 0.35", [0.3, 0.25, 0.2, 0.15, 0.1, 0.35]),
    ):
        found = _one_by_one(
            lambda r, n, p=p: _answered(r, n, np.array(p)),
            lambda x: _smooth(x, lambda x: _robustness(x.mean(axis=0))),
        )
        yield Case("robustness", name, _robustness(np.array(p)), found, slow=True)
    both = np.array([0.8, 0.75, 0.7, 0.65, 0.6, 0.82, 0.8, 0.7, 0.6, 0.5, 0.4, 0.85])

    def apart(means: Floats) -> float:
        return _robustness(means[:6]) - _robustness(means[6:])

    ceiling = np.array([0.97, 0.96, 0.95, 0.94, 0.93, 0.98] * 2)
    alone, judged = "jackknife alone", "as claims judge it, no narrower than a normal interval"
    for words, p, of in (
        (f"two models, the same questions; {alone}", both, estimate_of),
        (f"two models, the same questions; {judged}", both, _smooth),
        (f"two models near the ceiling; {judged}", ceiling, _smooth),
    ):
        found = _one_by_one(
            lambda r, n, p=p: _answered(r, n, p), lambda x, of=of: of(x, lambda x: apart(x.mean(axis=0)))
        )
        yield Case("difference of robustness", words, apart(p), found, slow=True)


def _heads(shape: tuple[int, int], rise: float, zeros: float = 0.0) -> Floats:
    """(layer, head): probability that a head copies a token."""
    r = np.random.default_rng(5)
    made = 0.1 + rise * np.arange(shape[0])[:, None] + r.normal(0, 0.05, shape)
    return np.where(r.random(shape) < zeros, 0.0, np.clip(made, 0.01, 0.95))


def _copied(r: Random, n: int, p: Floats, tokens: int = 4) -> Floats:
    """(question, layer, head): share of the tokens copied; some questions are easier than others."""
    return r.binomial(tokens, np.clip(p * np.exp(r.normal(0, 0.4, (n, 1, 1))), 0, 1)) / tokens


def _true_means(p: Floats) -> Floats:
    """Expected scores: the mean over how easy questions are, by the quantiles of it."""
    easy = np.exp(0.4 * special.ndtri((np.arange(4000) + 0.5) / 4000))
    return np.clip(p[None] * easy[:, None, None], 0, 1).mean(axis=0)


def _group(values: Floats) -> Group:
    data = {"copy": (("sample", "layer", "head"), values)}
    return Group({"model": "m"}, {}, xr.Dataset(data))


def _ranks() -> Iterator[Case]:
    for name, p in (
        ("8 × 8 heads, steep rise", _heads((8, 8), 0.08)),
        ("8 × 8 heads, clear rise", _heads((8, 8), 0.04)),
        ("8 × 8 heads, slight rise", _heads((8, 8), 0.01)),
        ("8 × 8 heads, no rise", _heads((8, 8), 0.0)),
        ("4 × 4 heads, slight rise", _heads((4, 4), 0.02)),
        ("16 × 16 heads, 30 % never copy", _heads((16, 16), 0.02, 0.3)),
    ):
        true = float(depth_correlation(_group(_true_means(p)[None])).mean)
        found = _one_by_one(lambda r, n, p=p: _copied(r, n, p), lambda x: depth_correlation(_group(x)))
        yield Case("rank correlation of score and depth", name, true, found, slow=True, draws=RANK_DRAWS)
    wide = {"note": "conservative: a head whose own interval holds the threshold may be on either side", "within": WIDE}
    for name, p in (
        ("32 heads, scores of all sizes", np.random.default_rng(5).beta(0.5, 2, (8, 8))),
        ("32 heads, all near the threshold", np.random.default_rng(5).uniform(0.05, 0.15, (8, 8))),
    ):
        true = float(share_above(_group(_true_means(p)[None]), "deep").mean)
        found = _one_by_one(lambda r, n, p=p: _copied(r, n, p), lambda x: share_above(_group(x), "deep"))
        yield Case("share of heads above 0.1", name, true, found, slow=True, **wide)


def _distances() -> Iterator[Case]:
    for apart in (0.0, 0.1, 0.3):
        p = np.array([0.4, 0.25, 0.15, 0.1, 0.06, 0.04])
        q = p + apart * np.array([-1, 0.6, 0, 0.4, 0, 0])

        def make(r: Random, n: int, sides: tuple[Floats, Floats] = (p, q)) -> Floats:
            return np.stack([r.dirichlet(3 * side, size=(n, 4)).transpose(0, 2, 1) for side in sides])

        found = _one_by_one(make, lambda x: class_distance({"a": x[0], "b": x[1]}))
        known = {"note": "conservative by construction", "within": WIDE}
        yield Case("distance between data sets", f"true distance {apart:g}", apart, found, slow=True, **known)


def _rare() -> Iterator[Case]:
    yield Case(
        "mean", "log-normal, σ = 1.5", np.exp(1.125), lambda r, n, draws: estimate(r.lognormal(0, 1.5, (n, draws)))
    )
    for words, up in (("all of them gains", 1.0), ("four of five gains", 0.8)):

        def f1(r: Random, n: int, draws: int, up: float = up) -> Estimate:
            size = np.where(r.random((n, draws)) < 0.1, 1, 0.1) * (r.random((n, draws)) < 0.2)
            gained = r.random((n, draws)) < up
            return share_difference(size * gained, size * ~gained, paired=True)

        words = f"20 % of the questions change, nine of ten by 0.1 and one by 1; {words}"
        yield Case("paired difference of F1", words, 0.2 * 0.19 * (2 * up - 1), f1)


CASES = (*_means(), *_scores(), *_averages(), *_robust(), *_ranks(), *_distances())
RARE_CASES = tuple(_rare())

HEAD = f"""# Coverage of intervals

Written by `python docs/intervals.py` (seeded). Each entry is the share of 95 % intervals that hold the true number, in
{DRAWS:,} simulated sets of n questions ({RANK_DRAWS:,} for rank correlations: ± 0.01; {FEW_DRAWS} for other numbers of
all questions at once: ± 0.01). The target is {LEAST} to {MOST} at n = 20 and 50. What misses it is in bold, with the
reason; "conservative" intervals cover more than they say. Fewer than 20 questions decide no claim. Paired differences
of 0/1 scores are also [computed exactly](pairs.md).

"""
KINDS = """
## By kind

The same numbers, over the samples of each kind: mean, least and most. The target is for every sample; a mean within
it does not make up for one outside. Shares of heads and distances are above it in the mean, too.

| number | samples | n = 20: mean | least | most | n = 50: mean | least | most |
|---|---|---|---|---|---|---|---|
"""
COLUMNS = "| number | samples | n = 8 | n = 20 | n = 50 | |\n|---|---|---|---|---|---|\n"
LIMITS = """
## Where rare values decide

No interval of a mean covers 0.95 for all distributions (Bahadur and Savage 1956): where rare values carry the mean, few
sets of 20 or 50 have as many of them as they should, and what is computed from the others is too narrow.

"""


Covered = list[tuple[Case, list[float]]]


def page() -> str:
    """The tables as Markdown; rows are printed while they are made."""
    return written(*(list(map(_covered, cases)) for cases in (CASES, RARE_CASES)))


def written(usual: Covered, rare: Covered) -> str:
    """The page, of the coverage of every case at each of `SIZES`."""
    tables = (HEAD + COLUMNS, map(_row, usual), KINDS, by_kind(usual), LIMITS + COLUMNS, map(_row, rare))
    return "".join(one if isinstance(one, str) else "".join(one) for one in tables)


def by_kind(covered: Covered) -> Iterator[str]:
    """One row for each kind of number: mean, least and most over its samples, at n = 20 and 50."""
    for kind in dict.fromkeys(case.kind for case, _ in covered):
        found = np.array([shares[1:] for case, shares in covered if case.kind == kind])
        cells = [f"{value:.3f}" for size in found.T for value in (size.mean(), size.min(), size.max())]
        yield f"| {kind} | {len(found)} | {' | '.join(cells)} |\n"


def _covered(case: Case) -> tuple[Case, list[float]]:
    shares = [round(coverage(case, n, case.draws if case.slow else DRAWS), 3) for n in SIZES]
    sys.stdout.write(_row((case, shares)))
    sys.stdout.flush()
    return case, shares


def _row(covered: tuple[Case, list[float]]) -> str:
    case, shares = covered
    missed = [n >= 20 and not LEAST <= share <= MOST for n, share in zip(SIZES, shares, strict=True)]
    cells = [f"**{share:.3f}**" if out else f"{share:.3f}" for share, out in zip(shares, missed, strict=True)]
    return f"| {case.kind} | {case.samples} | {' | '.join(cells)} | {case.note if any(missed) else ''} |\n"


if __name__ == "__main__":
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page(), encoding="utf-8")
