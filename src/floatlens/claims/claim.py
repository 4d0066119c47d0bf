"""What a claim is: a rule on results or answers, its limits as data, and the verdict that follows from its parts."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import update_wrapper
from typing import Any

import pandas as pd

from floatlens.analysis import Estimate, Group, Result
from floatlens.analysis.kernels import Floats, nanmean
from floatlens.claims.verdict import FEWEST, LEVEL, VERDICTS, Limit, Part, Verdict, holm, whole

__all__ = [
    "ANSWERS",
    "FEWEST",
    "VERDICTS",
    "Claim",
    "ClaimRule",
    "Finding",
    "Limit",
    "Measured",
    "Part",
    "Verdict",
    "claim",
    "claims_frame",
    "controls_of",
    "halves",
    "model_claim",
    "of_kind",
    "with_holm",
]

ANSWERS = "answers"
"""What a rule `needs` in order to be given the answers frame."""

_COLUMNS = (
    *("claim", "subject", "verdict", "statement", "statistic", "effect", "low", "high", "limit", "n", "figure"),
    *("what would change it", "parts", "models", "p", "survives Holm", "note"),
)
_KINDS = {"mdm": "diffusion", "arm": "autoregressive"}


@dataclass(frozen=True)
class Finding:
    """What a rule found for one subject. Without parts nothing could be judged, and `note` says why; with parts it may
    add how they were measured. `subject` names the models (and the data set) for people; `model` is set where it is a
    single one. A claim about kinds says in `models` how many of each kind it rests on: `{"mdm": 2, "arm": 1}`."""

    subject: str
    parts: tuple[Part, ...]
    note: str = ""
    model: str | None = None
    models: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def unjudged(
        cls, subject: str, reason: str, model: str | None = None, models: Mapping[str, int] | None = None
    ) -> Finding:
        """A finding without parts: the claim cannot be judged on this run, whatever the models do."""
        return cls(subject, (), f"cannot be judged here: {reason}", model, models or {})


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
            Claim(self.id, self.statement, one.subject, one.parts, self.figure, one.note, one.model, self, one.models)
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
    `limit` and `n` are those of the deciding part. `figure` shows it, `changes` says what would change the verdict.
    `survives` says whether the verdict holds after Holm's correction over the claims of its family that were judged
    together; None where nothing was decided."""

    id: str
    statement: str
    subject: str
    parts: tuple[Part, ...]
    figure: str
    note: str = ""
    model: str | None = None
    rule: ClaimRule | None = None
    models: Mapping[str, int] = field(default_factory=dict)
    survives: bool | None = None

    @property
    def verdict(self) -> Verdict:
        """Supported if every part is; contradicted if one is, after Holm over the parts; else too small if a part
        falls short of its limit; else undecided."""
        return whole(self.parts)[0]

    @property
    def deciding(self) -> Part | None:
        """The part that the verdict rests on; None where nothing could be measured. Of a supported claim it is the
        first, of a contradicted one that with the smallest p, else the first that is not supported."""
        return whole(self.parts)[1]

    @property
    def p(self) -> float:
        """Two-sided p of the verdict: of the weakest part where all have to hold, after Holm where one is enough. Of an
        undecided claim it is the smaller of both; NaN where nothing was tested."""
        tested = [part for part in self.parts if part.tested]
        if not tested:
            return math.nan
        supported = max(part.p_supported for part in tested) if len(tested) == len(self.parts) else math.nan
        contradicted, short = (
            min(holm([getattr(part, name) for part in tested])) for name in ("p_contradicted", "p_short")
        )
        one_sided = {"supported": supported, "contradicted": contradicted, "too small": short}
        open_ = min(p for p in (supported, short) if not math.isnan(p))
        return min(1.0, 2 * one_sided.get(self.verdict, open_))

    @property
    def rests_on(self) -> str:
        """How many models of each kind a claim about kinds rests on, in words."""
        return " and ".join(f"{count} {_KINDS.get(kind, kind)}" for kind, count in self.models.items())

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


def with_holm(found: Sequence[Claim]) -> list[Claim]:
    """The same claims, each with whether its verdict survives Holm's correction over its family: over all claims and
    subjects of the family that were tested. The verdicts stay as they are.
    Example: `with_holm([*claims("runs/a"), *claims("runs/b")])`"""
    families: dict[str, list[int]] = {}
    for place, one in enumerate(found):
        families.setdefault(one.rule.family if one.rule else "", []).append(place)
    adjusted = dict[int, float]()
    for places in families.values():
        adjusted |= dict(zip(places, holm([found[place].p for place in places]), strict=True))
    return [
        replace(one, survives=None if one.verdict == "undecided" else adjusted[place] < 2 * LEVEL)
        for place, one in enumerate(found)
    ]


def claims_frame(found: Iterable[Claim]) -> pd.DataFrame:
    """One row for each claim and subject; the columns are there without claims, too."""
    rows = []
    for one in found:
        row = {name: getattr(one, name) for name in _COLUMNS if hasattr(one, name)}
        row |= {"claim": one.id, "what would change it": one.changes, "parts": "; ".join(map(str, one.parts))}
        row |= {"models": one.rests_on, "survives Holm": {None: "", True: "yes", False: "no"}[one.survives]}
        rows.append(row)
    return pd.DataFrame(rows, columns=_COLUMNS)
