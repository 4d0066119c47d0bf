"""Claims about where the answer comes from: the gold document at any position, and more so in diffusion models.

Measured in the rows that decided the answer, by their attention and by their exact rollout over tokens. Lifts are
ratios to uniform attention and are judged as logarithms: twice and half are equally far from 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Literal

import numpy as np

from floatlens.analysis import Group, Result
from floatlens.analysis.intervals import by_question, difference, estimate
from floatlens.analysis.kernels import Floats
from floatlens.claims.claim import ClaimRule, Finding, Limit, Part, claim, of_kind

__all__ = ["flow_follows_gold", "flow_follows_gold_rollout", "mdm_flow", "mdm_flow_rollout"]

How = Literal["direct", "rollout"]
Place = tuple[int, int]
"""The number of documents, and the position of the gold one."""
LIFT = Limit("ln gold lift over uniform, gold at position {gold} of {documents}", 0.0)
MORE = Limit("ln gold lift over uniform, diffusion minus autoregressive", 0.0)
_WAYS: dict[How, str] = {"direct": "attention", "rollout": "rollout"}
_claim = partial(claim, family="mechanism", figure="gold_lift")


def _follows(how: How, statement: str) -> ClaimRule:
    way = _WAYS[how]

    @_claim(f"flow-follows-gold ({way})", f"Flow from the gold document ({way})", statement, (LIFT,))
    def judge(flow: Result) -> Iterator[Finding]:
        for model in flow.without_controls().models:
            groups = _placed([group for group in flow.groups if group.model == model])
            parts = [
                LIFT(group.estimate(f"{how}_log_lift"), gold=gold, documents=documents)
                for (documents, gold), (group,) in sorted(groups.items())
            ]
            if len({gold for _, gold in groups}) == 1:  # a model that prefers this position would look the same
                unknown = estimate(np.array([np.nan]))
                parts.append(Part("ln gold lift over uniform, gold at another position", unknown, LIFT.limit))
            if parts:
                yield Finding(model, tuple(parts), model=model)

    return judge


def _more(how: How, statement: str) -> ClaimRule:
    way = _WAYS[how]

    @_claim(f"mdm-flow ({way})", f"Stronger flow from the gold document ({way})", statement, (MORE,))
    def judge(flow: Result) -> Iterator[Finding]:
        mdm, arm = (_placed(of_kind(flow, kind)) for kind in ("mdm", "arm"))
        places = sorted(set(mdm) & set(arm))
        if not places:
            return
        subject, counts = "diffusion and autoregressive", {"mdm": _models(mdm), "arm": _models(arm)}
        if len({gold for _, gold in places}) == 1:
            reason = "the gold document has one position, and models may differ in which position they prefer"
            yield Finding.unjudged(subject, reason, models=counts)
            return
        sides = [_lifts([by_place[place] for place in places], f"{how}_log_lift") for by_place in (mdm, arm)]
        if not all(len(side) for side in sides):
            reason = "no question has the gold document at every position; trace the same questions at all of them"
            yield Finding.unjudged(subject, reason, models=counts)
            return
        yield Finding(subject, (MORE(difference(*sides)),), models=counts)

    return judge


def _placed(groups: Sequence[Group]) -> dict[Place, list[Group]]:
    """The groups that have a gold document among others, by its place."""
    found: dict[Place, list[Group]] = {}
    for group in groups:
        if group.keys["gold"] is not None and group.keys["documents"] > 1:
            found.setdefault((group.keys["documents"], group.keys["gold"]), []).append(group)
    return found


def _models(by_place: dict[Place, list[Group]]) -> int:
    return len({group.model for groups in by_place.values() for group in groups})


def _lifts(places: Sequence[Sequence[Group]], variable: str) -> Floats:
    """(question): at each place the mean over models, then the mean over places, of questions that have every place.

    In a run that is not finished one kind may lack traces at a hard position. With questions that have only the others,
    its mean would be that of easier positions: kinds with equal lifts differed in up to 84 % of simulated studies."""
    questions = list(dict.fromkeys(q for groups in places for group in groups for q in group.questions))
    found = np.full((len(questions), len(places)), np.nan)
    for column, groups in enumerate(places):
        own = [q for group in groups for q in group.questions]
        pooled = by_question(np.concatenate([group.values(variable) for group in groups]), own)
        for question, value in zip(dict.fromkeys(own), pooled, strict=True):
            found[questions.index(question), column] = value
    return np.asarray(found[~np.isnan(found).any(axis=1)].mean(axis=1))


flow_follows_gold = _follows(
    "direct", "the rows that decide the answer attend to the gold document more than to others, at any position"
)
flow_follows_gold_rollout = _follows(
    "rollout", "attention flow to the answer, through all layers, comes from the gold document, at any position"
)
mdm_flow = _more("direct", "diffusion models attend to the gold document more than autoregressive ones do")
mdm_flow_rollout = _more(
    "rollout",
    "attention flow to the answer comes from the gold document more in diffusion models than in autoregressive ones",
)
