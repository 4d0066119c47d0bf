"""How an interval becomes a verdict: limits as data, parts with their p-values, and Holm's correction.

Nothing here knows what is measured. The p-values are read off the 95 % intervals, so they agree with the verdicts:
an interval that ends at the limit has p = 0.025, one-sided. Elsewhere they follow Student's t with n − 1 degrees of
freedom, since normal tails are too thin for the small p that Holm asks for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
from scipy.special import ndtri, stdtr, stdtrit

from floatlens.analysis import Estimate

FEWEST = 20
"""Fewer questions than this decide nothing: the intervals keep their coverage from here on (docs/claims.md)."""
LEVEL = 0.025
"""One-sided level of a 95 % interval."""
LEVEL_OF_SEVERAL = LEVEL / 2
"""The same where one of several parts is enough to contradict. The far tail of an interval over 20 skewed samples is
shorter than it should be, and Holm asks for it: at the full level a claim of four parts whose effects are all exactly
at their limits was contradicted in 7 % of simulated studies, at half of it in less than 5 % (`docs/claims.py`)."""
POWER = 0.8
"""Power of the smallest effect that an undecided part could have shown."""
_Z = float(ndtri(1 - LEVEL))

Verdict = Literal["supported", "too small", "contradicted", "undecided"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)


@dataclass(frozen=True)
class Part:
    """One condition of a claim: a number whose whole interval has to lie above (or below) a limit. It is contradicted
    if the interval lies wholly beyond `opposite`, which is the limit itself where None. `otherwise` says in words what
    holds in that case."""

    name: str
    found: Estimate
    limit: float
    above: bool = True
    opposite: float | None = None
    otherwise: str = ""

    @property
    def verdict(self) -> Verdict:
        """Supported if the interval lies beyond the limit on the claimed side; contradicted if beyond `opposite` on the
        other side; too small if it lies between the two, or across `opposite` only; else undecided."""
        if not self.tested:
            return "undecided"
        low, _, high, limit, opposite = self._oriented()
        if low > limit:
            return "supported"
        if high < opposite:
            return "contradicted"
        return "too small" if high < limit else "undecided"

    @property
    def tested(self) -> bool:
        """Whether there is an interval over enough questions."""
        return self._measured and bool(self.found.n >= FEWEST)

    @property
    def p_supported(self) -> float:
        """One-sided p of an effect beyond the limit; NaN where it is not tested."""
        low, mean, _, limit, _ = self._oriented()
        return _p(low - limit, mean - limit, self.found.n) if self.tested else math.nan

    @property
    def p_contradicted(self) -> float:
        """One-sided p of an effect beyond `opposite`, on the other side."""
        _, mean, high, _, opposite = self._oriented()
        return _p(opposite - high, opposite - mean, self.found.n) if self.tested else math.nan

    @property
    def p_short(self) -> float:
        """One-sided p of an effect that does not reach the limit."""
        _, mean, high, limit, _ = self._oriented()
        return _p(limit - high, limit - mean, self.found.n) if self.tested else math.nan

    @property
    def change_needed(self) -> str:
        """What would change the verdict of this part, in numbers."""
        if not self._measured:
            return f"a run that measures it: {self.name} is undefined here"
        if self.found.n < FEWEST:
            return f"more questions: {int(self.found.n)} so far, and at least {FEWEST} are needed"
        low, _, high, limit, opposite = self._oriented()
        if self.verdict == "undecided":
            return self._questions_needed()
        gap, to = {
            "supported": (low - limit, self.limit),
            "too small": (limit - high, self.limit),
            "contradicted": (opposite - high, self._opposite),
        }[self.verdict]
        return f"a shift of {gap:.2g} or more: that is how far the interval ends from {to:g}"

    def _questions_needed(self) -> str:
        """How many questions would decide at this effect, and which effect these questions show with 80 % power."""
        low, mean, high, limit, _ = self._oriented()
        n = int(self.found.n)
        shown = limit + (1 + float(ndtri(POWER)) / _Z) * (mean - low)
        side = f"{'above' if self.above else 'below'} {shown if self.above else -shown:.3g}"
        power = f"{n} questions show an effect {side} with {POWER:.0%} power".replace("%", " %")
        half = (mean - low) if mean > limit else (high - mean)
        needed = n * (half / abs(mean - limit)) ** 2 if mean != limit else math.inf
        if needed > 100 * n:
            return f"a larger difference: the effect is too close to the limit for more questions to decide; {power}"
        most = max(math.ceil(needed), n + 1)
        return f"about {most} questions instead of {n}, if the effect stays {float(self.found.mean):.3g}; {power}"

    @property
    def _measured(self) -> bool:
        return not np.isnan([float(getattr(self.found, name)) for name in ("low", "mean", "high")]).any()

    @property
    def _opposite(self) -> float:
        return self.limit if self.opposite is None else self.opposite

    def _oriented(self) -> tuple[float, float, float, float, float]:
        """Low, mean, high, limit and opposite, turned so that the claimed side is up."""
        low, mean, high = (float(getattr(self.found, name)) for name in ("low", "mean", "high"))
        if self.above:
            return low, mean, high, self.limit, self._opposite
        return -high, -mean, -low, -self.limit, -self._opposite

    def __str__(self) -> str:
        return f"{self.name} {self.found:.3g}, {'above' if self.above else 'below'} {self.limit:g}: {self.verdict}"


def _p(end: float, mean: float, n: Any) -> float:
    """One-sided p that a number is above 0, from its mean and the lower end of its 95 % interval over n questions."""
    if not mean > end or math.isinf(mean):  # no width on this side, or none to speak of
        return 0.0 if end > 0 else 0.5 if end == 0 else 1.0
    return float(stdtr(n - 1, -stdtrit(n - 1, 1 - LEVEL) * mean / (mean - end)))


@dataclass(frozen=True)
class Limit:
    """One part of a rule, as data: what is measured, and the limit that its interval has to stay above (or below).

    An interval wholly on the other side of `opposite` contradicts the claim (None: of the limit); one between the two
    is too small. An infinite `opposite` says that nothing can contradict it. `otherwise` says what holds where it is
    contradicted, for the answer in one sentence. `name` may have fields in braces for what differs between runs.
    Example: `Limit("speed", 0.5, opposite=0.0)(estimate)`
    """

    name: str
    limit: float
    above: bool = field(default=True, kw_only=True)
    opposite: float | None = field(default=None, kw_only=True)
    otherwise: str = field(default="", kw_only=True)

    def __post_init__(self) -> None:
        if self.opposite is not None and (self.opposite > self.limit) == self.above and self.opposite != self.limit:
            raise ValueError(f"{self.name}: the opposite {self.opposite:g} is on the claimed side of {self.limit:g}")

    def __call__(self, found: Estimate, **fields: Any) -> Part:
        return Part(self.name.format(**fields), found, self.limit, self.above, self.opposite, self.otherwise)

    def __str__(self) -> str:
        blank = self.name.replace("{", "").replace("}", "")
        here, there = ("above", "below") if self.above else ("below", "above")
        told = self.opposite is not None and math.isfinite(self.opposite)
        refuted = f" (contradicted {there} {self.opposite:g})" if told else ""
        return f"{blank} {here} {self.limit:g}{refuted}"


def holm(p: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values, in the order given; NaN is not a test and stays NaN.
    Example: `holm([0.01, 0.04, 0.03])` is `[0.03, 0.06, 0.06]`"""
    given = np.asarray(p, dtype=np.float64)
    order = np.argsort(given)  # NaN last
    tests = int((~np.isnan(given)).sum())
    steps = np.maximum.accumulate(given[order[:tests]] * np.arange(tests, 0, -1))
    adjusted = np.full(len(given), math.nan)
    adjusted[order[:tests]] = np.minimum(steps, 1.0)
    return [float(x) for x in adjusted]


def whole(parts: Sequence[Part]) -> tuple[Verdict, Part | None]:
    """The verdict on a claim from its parts, and the part that decides. Supported if every part is. Contradicted if
    one is, after Holm over the parts and, if several were tested, at half the level. Else too small if a part falls
    short of its limit, else undecided."""
    found = [part.verdict for part in parts]
    if not parts:
        return "undecided", None
    if set(found) == {"supported"}:
        return "supported", parts[0]
    adjusted = holm([part.p_contradicted for part in parts])
    level = LEVEL_OF_SEVERAL if sum(part.tested for part in parts) > 1 else LEVEL
    refuting = [i for i, p in enumerate(adjusted) if found[i] == "contradicted" and p < level]
    if refuting:
        return "contradicted", parts[min(refuting, key=adjusted.__getitem__)]
    short = [part for part in parts if part.verdict == "contradicted"] + [p for p in parts if p.verdict == "too small"]
    if short:
        return "too small", short[0]
    return "undecided", parts[found.index("undecided")]
