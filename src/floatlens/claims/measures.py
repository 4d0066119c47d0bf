"""What several rules share: claims about each model of a kind, halves of the layers, limits on anchor strength."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import update_wrapper
from typing import Any

from floatlens.analysis import Estimate, Group, Result
from floatlens.analysis.kernels import Floats, nanmean
from floatlens.analysis.strength import STRENGTH
from floatlens.claims.claim import ClaimRule, Finding, Limit, claim

__all__ = ["FIRST", "STRONGEST", "Measured", "halves", "model_claim", "of_kind"]

FIRST = Limit("attention on the first position (× uniform)", STRENGTH)
STRONGEST = Limit("anchor strength of the strongest key (× uniform)", STRENGTH)
Measured = Sequence[Floats | Estimate]


def of_kind(result: Result, kind: str) -> list[Group]:
    """The groups of autoregressive ("arm") or diffusion ("mdm") models."""
    return [group for group in result.groups if group.facts["kind"] == kind]


def halves(values: Floats) -> tuple[Floats, Floats]:
    """(sample): means over the shallow and the deep half of the layers, of (sample, layer)."""
    middle = values.shape[1] // 2
    return nanmean(values[:, :middle], axis=1), nanmean(values[:, middle:], axis=1)


def model_claim(
    id: str, kind: str, *, limits: Sequence[Limit], **about: Any
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

        return claim(id, limits=limits, **about)(update_wrapper(judge, measure))

    return make
