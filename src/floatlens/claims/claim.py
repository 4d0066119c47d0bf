"""What a claim is: a rule on results or answers, its limits as data, and the verdict that follows from its parts."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import update_wrapper
from typing import Any, Literal

import numpy as np
import pandas as pd

from floatlens.analysis import Estimate, Group, Result
from floatlens.analysis.absorption import STRENGTH
from floatlens.analysis.kernels import Floats, nanmean

FEWEST = 8
"""Fewer questions than this decide nothing: an interval over them means little."""
ANSWERS = "answers"
"""What a rule `needs` in order to be given the answers frame."""

Verdict = Literal["supported", "not supported", "undecided"]

_COLUMNS = (
    *("claim", "subject", "verdict", "statement", "statistic", "effect", "low", "high", "limit", "n", "figure"),
    *("what would change it", "parts"),
)


@dataclass(frozen=True)
class Part:
    """One condition of a claim: a number whose whole interval has to lie above (or below) a limit."""

    name: str
    found: Estimate
    limit: float
    above: bool = True

    @property
    def verdict(self) -> Verdict:
        """Supported if the interval lies on the claim's side, not supported if on the other side, else undecided."""
        low, high = float(self.found.low), float(self.found.high)
        if np.isnan(low) or np.isnan(high) or self.found.n < FEWEST:
            return "undecided"
        if not self.above:
            low, high = -high, -low
        limit = self.limit if self.above else -self.limit
        return "supported" if low > limit else "not supported" if high < limit else "undecided"

    @property
    def change_needed(self) -> str:
        """What would change the verdict of this part, in numbers."""
        mean, low, high, n = (float(getattr(self.found, name)) for name in ("mean", "low", "high", "n"))
        if np.isnan(low) or np.isnan(high):
            return f"a run that measures it: {self.name} is undefined here"
        if n < FEWEST:
            return f"more questions: {n:g} so far, and at least {FEWEST} are needed"
        if self.verdict != "undecided":
            gap = min(abs(low - self.limit), abs(high - self.limit))
            return f"a shift of {gap:.2g} or more: that is how far the interval ends from {self.limit:g}"
        half = (mean - low) if mean > self.limit else (high - mean)
        needed = n * (half / abs(mean - self.limit)) ** 2 if mean != self.limit else math.inf
        if needed > 100 * n:
            return "a larger difference: the effect is too close to the limit for more questions to decide"
        return f"about {max(math.ceil(needed), int(n) + 1)} questions instead of {n:g}, if the effect stays {mean:.3g}"

    def __str__(self) -> str:
        return f"{self.name} {self.found:.3g}, {'above' if self.above else 'below'} {self.limit:g}: {self.verdict}"


@dataclass(frozen=True)
class Limit:
    """One part of a rule, as data: what is measured, and the limit that its interval has to stay above (or below).
    `name` may have fields in braces for what differs between runs. Example: `Limit("speed", 0.5)(estimate)`"""

    name: str
    limit: float
    above: bool = field(default=True, kw_only=True)

    def __call__(self, found: Estimate, **fields: Any) -> Part:
        return Part(self.name.format(**fields), found, self.limit, self.above)

    def __str__(self) -> str:
        blank = self.name.replace("{", "").replace("}", "")
        return f"{blank} {'above' if self.above else 'below'} {self.limit:g}"


@dataclass(frozen=True)
class Finding:
    """What a rule found for one subject. Without parts nothing could be measured, and `note` says what is missing.
    `subject` names the models (and the data set) for people; `model` is set where it is a single one."""

    subject: str
    parts: tuple[Part, ...]
    note: str = ""
    model: str | None = None


@dataclass(eq=False)
class ClaimRule:
    """A claim of the paper and the rule that decides it. `judge` gets what it `needs`, in that order. `needs` are names
    of analyses, or `ANSWERS` for the answers frame. `figure` is the figure that shows it."""

    id: str
    title: str
    statement: str
    family: str
    needs: tuple[str, ...]
    figure: str
    limits: tuple[Limit, ...]
    judge: Callable[..., Iterable[Finding]]

    @property
    def rule(self) -> str:
        """The rule in one sentence."""
        return f"Supported if, with the whole 95 % interval: {'; '.join(map(str, self.limits))}."

    def __call__(self, *given: Any) -> list[Claim]:
        """The claim about each subject of the results or answers given."""
        return [
            Claim(self.id, self.statement, one.subject, one.parts, self.figure, one.note, one.model, self)
            for one in self.judge(*given)
        ]


def claim(
    id: str,
    title: str,
    statement: str,
    limits: Sequence[Limit],
    *,
    family: str,
    needs: Sequence[str] = (),
    figure: str = "",
) -> Callable[[Callable[..., Iterable[Finding]]], ClaimRule]:
    """Make a `ClaimRule` of a function that yields findings; it is registered by a line in `CLAIMS`. By default it
    `needs` what its parameters are called, and is shown by the figure of the first of them."""

    def make(judge: Callable[..., Iterable[Finding]]) -> ClaimRule:
        names = tuple(needs or inspect.signature(judge).parameters)
        made = ClaimRule(id, title, statement, family, names, figure or names[0], tuple(limits), judge)
        update_wrapper(made, judge, updated=())
        return made

    return make


@dataclass(frozen=True)
class Claim:
    """A claim about one model, or about two kinds of models, and its verdict. `statistic`, `effect`, `low`, `high`,
    `limit` and `n` are those of the deciding part: the first that does not support the claim, else the first. `figure`
    shows it, `changes` says what would change the verdict."""

    id: str
    statement: str
    subject: str
    parts: tuple[Part, ...]
    figure: str
    note: str = ""
    model: str | None = None
    rule: ClaimRule | None = None

    @property
    def verdict(self) -> Verdict:
        """Supported if every part is, not supported if one is not, else undecided."""
        found = {part.verdict for part in self.parts}
        if found == {"supported"}:
            return "supported"
        return "not supported" if "not supported" in found else "undecided"

    @property
    def deciding(self) -> Part | None:
        """The part that the verdict rests on; None where nothing could be measured."""
        first = {part.verdict: part for part in reversed(self.parts)}
        return first.get("not supported", first.get("undecided", first.get("supported")))

    @property
    def statistic(self) -> str:
        return "" if self.deciding is None else self.deciding.name

    @property
    def effect(self) -> float:
        return self._number("mean")

    @property
    def low(self) -> float:
        return self._number("low")

    @property
    def high(self) -> float:
        return self._number("high")

    @property
    def limit(self) -> float:
        return math.nan if self.deciding is None else self.deciding.limit

    @property
    def n(self) -> int:
        return 0 if self.deciding is None else int(self.deciding.found.n)

    @property
    def changes(self) -> str:
        return self.note if self.deciding is None else self.deciding.change_needed

    def _number(self, name: str) -> float:
        return math.nan if self.deciding is None else float(getattr(self.deciding.found, name))


# -- what several rules share -----------------------------------------------------------------------------------------

FIRST = Limit("attention on the first position (× uniform)", STRENGTH)
STRONGEST = Limit("anchor strength of the strongest key (× uniform)", STRENGTH)
Measured = Sequence[Floats | Estimate]


def of_kind(result: Result, kind: str) -> list[Group]:
    """The groups of autoregressive ("arm") or diffusion ("mdm") models, without controls."""
    return [group for group in result.groups if group.facts["kind"] == kind and group.control is None]


def controls_of(result: Result, model: str) -> list[Group]:
    """The groups of the controls of a model, such as the same model with shuffled weights; none without controls."""
    return [group for group in result.groups if group.control is not None and group.control["of"] == model]


def halves(values: Floats) -> tuple[Floats, Floats]:
    """(sample): means over the shallow and the deep half of the layers, of (sample, layer)."""
    middle = values.shape[1] // 2
    return nanmean(values[:, :middle], axis=1), nanmean(values[:, middle:], axis=1)


def model_claim(
    id: str, title: str, statement: str, limits: Sequence[Limit], *, kind: str = "mdm", **about: Any
) -> Callable[[Callable[..., Measured]], ClaimRule]:
    """Make a claim about each model of a kind from a function that measures one: the model's group of each analysis
    in, a number for each limit out, as (sample) values or as an estimate."""

    def make(measure: Callable[..., Measured]) -> ClaimRule:
        def judge(first: Result, *others: Result) -> Iterator[Finding]:
            for group in of_kind(first, kind):
                found = measure(group, *(result.group(**group.keys) for result in others))
                sure = [one if isinstance(one, Estimate) else group.estimated(one) for one in found]
                parts = tuple(limit(one) for limit, one in zip(limits, sure, strict=True))
                yield Finding(group.model, parts, model=group.model)

        return claim(id, title, statement, limits, **about)(update_wrapper(judge, measure))

    return make


def claims_frame(found: Iterable[Claim]) -> pd.DataFrame:
    """One row for each claim and subject; the columns are there without claims, too."""
    rows = []
    for one in found:
        row = {name: getattr(one, name) for name in _COLUMNS if hasattr(one, name)}
        row |= {"claim": one.id, "what would change it": one.changes, "parts": "; ".join(map(str, one.parts))}
        rows.append(row)
    return pd.DataFrame(rows, columns=_COLUMNS)
