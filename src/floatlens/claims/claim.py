"""What a claim is, how its verdict follows from its parts, and how claims about traces are registered and judged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from floatlens.analysis import Estimate, Result

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["CLAIMS", "FEWEST", "Claim", "Part", "Verdict", "claim", "claims_frame", "judged"]

FEWEST = 8
"""Questions without which nothing is decided: an interval over fewer says little."""

Verdict = Literal["supported", "not supported", "undecided"]

_COLUMNS = (
    *("claim", "subject", "verdict", "statement", "statistic", "effect", "low", "high", "limit", "n", "figure"),
    *("what would change it", "parts"),
)


@dataclass(frozen=True)
class Part:
    """One condition of a claim: a number that has to lie above (or below) a limit, with its whole interval."""

    name: str
    found: Estimate
    limit: float
    above: bool = True

    @property
    def verdict(self) -> Verdict:
        """Supported if the interval lies on the claim's side, not supported if on the other, else undecided."""
        low, high = float(self.found.low), float(self.found.high)
        if np.isnan(low) or np.isnan(high) or self.found.n < FEWEST:
            return "undecided"
        if not self.above:
            low, high = -high, -low
        limit = self.limit if self.above else -self.limit
        return "supported" if low > limit else "not supported" if high < limit else "undecided"

    def __str__(self) -> str:
        return f"{self.name} {self.found:.3g}, {'above' if self.above else 'below'} {self.limit:g}: {self.verdict}"


@dataclass(frozen=True)
class Claim:
    """A claim about one model, or about two kinds of models, and what the run says of it.

    `statistic`, `effect`, `low`, `high`, `limit` and `n` are those of the part that decides: the first that does not
    support the claim, else the first. `figure` shows it, `changes` says what would change the verdict.
    """

    id: str
    statement: str
    subject: str
    parts: tuple[Part, ...]
    figure: str
    note: str = ""

    @property
    def verdict(self) -> Verdict:
        """Supported if every part is; not supported if one is not; else undecided."""
        found = {part.verdict for part in self.parts}
        if found == {"supported"}:
            return "supported"
        return "not supported" if "not supported" in found else "undecided"

    @property
    def deciding(self) -> Part | None:
        """The part that the verdict hangs on; None where nothing could be measured."""
        for wanted in ("not supported", "undecided"):
            for part in self.parts:
                if part.verdict == wanted:
                    return part
        return self.parts[0] if self.parts else None

    @property
    def statistic(self) -> str:
        """The name of the number that the verdict hangs on; "" where nothing could be measured."""
        return "" if self.deciding is None else self.deciding.name

    @property
    def effect(self) -> float:
        """That number: its mean over samples."""
        return float("nan") if self.deciding is None else float(self.deciding.found.mean)

    @property
    def low(self) -> float:
        """Where its 95 % interval begins."""
        return float("nan") if self.deciding is None else float(self.deciding.found.low)

    @property
    def high(self) -> float:
        """Where its interval ends."""
        return float("nan") if self.deciding is None else float(self.deciding.found.high)

    @property
    def limit(self) -> float:
        """What the interval is compared with."""
        return float("nan") if self.deciding is None else self.deciding.limit

    @property
    def n(self) -> int:
        """How many samples it rests on."""
        return 0 if self.deciding is None else int(self.deciding.found.n)

    @property
    def changes(self) -> str:
        """What would change the verdict."""
        if not self.parts:
            return self.note
        one = self.deciding
        assert one is not None
        if np.isnan(float(one.found.low)):
            return f"another run: {one.name} could not be measured"
        if one.found.n < FEWEST:
            return f"more questions: {one.name} has {int(one.found.n)}, and below {FEWEST} nothing is decided"
        side, other = ("above", "below") if one.above else ("below", "above")
        return {
            "supported": f"{one.name} no longer {side} {one.limit:g}",
            "not supported": f"{one.name} {side} {one.limit:g} with its whole interval",
            "undecided": f"more questions, until the interval of {one.name} lies {side} or {other} {one.limit:g}",
        }[one.verdict]


@dataclass(frozen=True)
class _Registered:
    needs: tuple[str, ...]
    judge: Callable[[Mapping[str, Result]], Iterable[Claim]]


CLAIMS: dict[str, _Registered] = {}


def claim(
    id: str, *, needs: Sequence[str]
) -> Callable[[Callable[[Mapping[str, Result]], Iterable[Claim]]], Callable[[Mapping[str, Result]], Iterable[Claim]]]:
    """Register a test: a function from results by name to claims. `needs` are the analyses it reads."""

    def register(
        judge: Callable[[Mapping[str, Result]], Iterable[Claim]],
    ) -> Callable[[Mapping[str, Result]], Iterable[Claim]]:
        CLAIMS[id] = _Registered(tuple(needs), judge)
        return judge

    return register


def judged(results: Mapping[str, Result]) -> Iterator[Claim]:
    """Every claim whose analyses are among the results."""
    for one in CLAIMS.values():
        if all(name in results for name in one.needs):
            yield from one.judge(results)


def claims_frame(found: Iterable[Claim]) -> pd.DataFrame:
    """One row per claim; no claims are no rows of the same columns."""
    import pandas as pd

    rows = []
    for one in found:
        row = {name: getattr(one, name) for name in _COLUMNS if hasattr(one, name)}
        row |= {"claim": one.id, "what would change it": one.changes, "parts": "; ".join(map(str, one.parts))}
        rows.append(row)
    return pd.DataFrame(rows, columns=_COLUMNS)
