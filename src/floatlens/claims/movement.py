"""Claims about where anchors are: fixed or moving over steps, spread or focused by depth, strong or weak.

A claim about the anchors of a model first asks whether it has any: its strongest key holds 5 percentage points more
than under uniform attention, and more than in the same model with shuffled weights. Without such a control the claim is
undecided. Motion is measured in the layers that have anchors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial, update_wrapper

import numpy as np

from floatlens.analysis import Group, Result
from floatlens.analysis.drift import QUERIES
from floatlens.analysis.intervals import by_question, difference, estimate
from floatlens.analysis.kernels import Floats, nanmean
from floatlens.claims.claim import (
    FEWEST,
    ClaimRule,
    Finding,
    Limit,
    Measured,
    Part,
    claim,
    controls_of,
    halves,
    model_claim,
    of_kind,
)

__all__ = [
    "absorbs_less",
    "absorbs_less_excess",
    "arm_fixed",
    "layers_differ",
    "mdm_dispersed",
    "mdm_frontier",
    "mdm_moves",
    "mdm_moves_all",
    "mdm_right",
    "shallow_spread",
]

MASS, NOTHING = 0.05, 0.01
"""The least that an anchor holds above uniform attention, as a share; and what contradicts that there is one."""
PERCENTILE = 95
"""A model's strongest key has to hold more than this percentile of the questions of its control."""
RETURN = 0.1
"""Overlap of floaters that counts as none: anchors that are elsewhere in every step have no overlap to lose."""
BELOW = 0.05
"""How far the overlap of the first and the last quarter lies below that of any two steps if anchors travel."""

STABLE = Limit("anchor stability, first to last quarter (Jaccard, all rows)", 0.5)
FIRST = Limit("share of steps and layers whose strongest anchor is the first position", 0.5)
SPEED = Limit("speed of the strongest floater (positions per token written, answer rows)", 0.25, opposite=0.0)
LAYERS = Limit(
    "anchor stability over depth (Jaccard of all pairs of layers, answer rows)", 0.5, above=False, opposite=0.9
)
FRONTIER = Limit(
    "distance to the frontier saved, against steps in random order (share, answer rows)", 0.1, opposite=0.0
)
ENTROPY = Limit("entropy of received attention, shallow minus deep", 0.02, opposite=0.0)
ABSORBED = Limit("attention absorbed, autoregressive minus diffusion (percentage points)", 0.0)
ANCHORED = Limit(  # nothing to contradict: without anchors there is nothing to absorb less than
    "attention absorbed above uniform, autoregressive (percentage points)", 100 * MASS, opposite=-math.inf
)
DISPERSED = Limit("effective number of anchors, diffusion minus autoregressive (all rows)", 0.5, opposite=0.0)
_claim = partial(claim, family="attention")
_model_claim = partial(model_claim, family="attention")
Rows = Callable[[str], Floats]
"""(sample) of a variable of drift, for one query group."""


def rows_of(drift: Group, queries: str) -> Rows:
    """Variables of drift for one query group. Example: `rows_of(group, "answer")("speed")`"""
    return lambda variable: drift.values(variable)[:, QUERIES.index(queries)]


def _anchor_claim(
    id: str, title: str, statement: str, limits: Sequence[Limit], *, queries: str, kind: str = "mdm"
) -> Callable[[Callable[[Rows], Sequence[Floats]]], ClaimRule]:
    """A claim about the anchors of each model of a kind: that it has any, and a number for each of the limits."""
    variable, key = ("strongest", "the strongest key") if kind == "mdm" else ("first", "the first position")
    name = f"attention on {key} above uniform (share, {queries} rows)"
    mass = Limit(name, MASS, opposite=NOTHING, otherwise="no key is an anchor")
    beyond = Limit(f"{name}, minus the {PERCENTILE}th percentile of its control", 0.0, otherwise=_AS_SHUFFLED)

    def make(measure: Callable[[Rows], Sequence[Floats]]) -> ClaimRule:
        def judge(drift: Result) -> Iterator[Finding]:
            for group in of_kind(drift, kind):
                control = _per_question(controls_of(drift, group.model), variable, queries)
                if len(control) < FEWEST:
                    yield Finding.unjudged(group.model, _without_control(len(control)), group.model)
                    continue
                rows = rows_of(group, queries)
                held = rows(variable)
                found: list[Floats] = [held, held - np.percentile(control, PERCENTILE), *measure(rows)]
                parts = [limit(group.estimated(one)) for limit, one in zip((mass, beyond, *limits), found, strict=True)]
                yield Finding(group.model, tuple(parts), model=group.model)

        return _claim(id, title, statement, (mass, beyond, *limits), needs=("drift",))(update_wrapper(judge, measure))

    return make


_AS_SHUFFLED = "no key holds more than with shuffled weights"


def _per_question(groups: Sequence[Group], variable: str, queries: str) -> Floats:
    """(question of each control): a variable of drift, where it is defined."""
    found = [group.by_question(rows_of(group, queries)(variable)) for group in groups]
    values = np.concatenate(found) if found else np.empty(0)
    return values[np.isfinite(values)]


def _without_control(questions: int) -> str:
    """What is missing, and how to get it."""
    how = "trace the model with shuffled weights too (controls: {shuffled_weights: 1} in a study, --controls 1)"
    if not questions:
        return f"there is no control to compare with; {how}"
    return f"its control has {questions} questions, and at least {FEWEST} are needed; {how}"


@_anchor_claim(
    "arm-fixed",
    "Fixed anchor",
    "the anchor of an autoregressive model is fixed, over steps and layers",
    (STABLE, FIRST),
    queries="all",
    kind="arm",
)
def arm_fixed(rows: Rows) -> Sequence[Floats]:
    return rows("quarter_jaccard"), rows("first_strongest")


def _moves(queries: str) -> ClaimRule:
    """Anchors that flicker (the same few keys come and go) overlap as much over the whole generation as between any two
    steps. They do not show that anchors move, nor that they stay: that part can fall short, but not contradict."""
    moving = Limit(
        f"anchor stability, first to last quarter (Jaccard, {queries} rows)",
        0.5,
        above=False,
        opposite=0.9,
        otherwise="anchors stay in place",
    )
    travel = Limit(
        f"overlap of floaters, first with last quarter, minus that of any two steps (Jaccard, {queries} rows)",
        -BELOW,
        above=False,
        opposite=math.inf,
    )

    @_anchor_claim(
        f"mdm-moves ({queries} rows)",
        f"Moving anchors, {queries} rows",
        f"the anchors of a diffusion model move over steps, in the attention of {queries} rows",
        (moving, travel),
        queries=queries,
    )
    def judge(rows: Rows) -> Sequence[Floats]:
        return rows("quarter_jaccard"), rows("floater_jaccard") - np.maximum(rows("floater_null"), RETURN)

    return judge


mdm_moves, mdm_moves_all = _moves("answer"), _moves("all")


@_anchor_claim(
    "mdm-right", "Drift to the right", "the anchors of a diffusion model move to the right", (SPEED,), queries="answer"
)
def mdm_right(rows: Rows) -> Sequence[Floats]:
    return (rows("speed"),)


@_anchor_claim(
    "mdm-frontier",
    "Anchors at the frontier",
    "the anchors of a diffusion model follow the position where it writes",
    (FRONTIER,),
    queries="answer",
)
def mdm_frontier(rows: Rows) -> Sequence[Floats]:
    return (rows("frontier_gain"),)


@_anchor_claim(
    "layers-differ",
    "Anchors by layer",
    "the anchors of a diffusion model depend on the layer",
    (LAYERS,),
    queries="answer",
)
def layers_differ(rows: Rows) -> Sequence[Floats]:
    return (rows("depth_jaccard"),)


@_model_claim("shallow-spread", "Focus by depth", "shallow layers spread attention, deep layers focus it", (ENTROPY,))
def shallow_spread(drift: Group) -> Measured:
    shallow, deep = halves(rows_of(drift, "all")("entropy_by_layer"))
    return (shallow - deep,)


# -- kinds of models --------------------------------------------------------------------------------------------------


def _kinds(
    result: Result, limit: Limit, value: Callable[[Group], Floats], order: tuple[str, str], *more: Part
) -> Iterator[Finding]:
    """The difference of two kinds of models, in this order; each question counts once, as the mean of its traces by all
    models of a kind. `more` are further parts."""
    sides = [_pooled(result, kind, value) for kind in order]
    if all(len(side) for side in sides):
        models = {kind: len({group.model for group in of_kind(result, kind)}) for kind in ("mdm", "arm")}
        yield Finding("diffusion and autoregressive", (limit(difference(*sides)), *more), models=models)


def _pooled(result: Result, kind: str, value: Callable[[Group], Floats]) -> Floats:
    """(question) over all models of a kind; empty without any."""
    groups = of_kind(result, kind)
    values = np.concatenate([value(group) for group in groups]) if groups else np.empty(0)
    return by_question(values, [question for group in groups for question in group.questions]) if groups else values


@_claim(
    "mdm-dispersed",
    "Several anchors",
    "diffusion models disperse attention over more anchors than autoregressive ones",
    (DISPERSED,),
)
def mdm_dispersed(drift: Result) -> Iterator[Finding]:
    yield from _kinds(drift, DISPERSED, lambda group: rows_of(group, "all")("effective_anchors"), ("mdm", "arm"))


_NO_ANCHORS = f"the strongest key of either kind holds less than {100 * MASS:g} % above uniform, so none has anchors"


def _absorbs_less(variable: str, title: str, how: str) -> ClaimRule:
    """Under a causal mask early positions receive more, and so does the strongest of them by chance: of two models with
    shuffled weights the autoregressive one absorbs more, as measured and above uniform. In simulations the difference
    alone was supported for noise without anchors in every study. So the autoregressive models must have anchors, and
    where no kind has any there is nothing to judge."""

    @_claim(
        f"mdm-absorbs-less ({variable})",
        title,
        f"anchors of diffusion models absorb less than those of autoregressive ones, {how}",
        (ABSORBED, ANCHORED),
    )
    def judge(absorption: Result) -> Iterator[Finding]:
        def floating(name: str) -> Callable[[Group], Floats]:
            return lambda group: nanmean(group.values(name)[:, 1], axis=1)

        mdm, arm = (ANCHORED(estimate(_pooled(absorption, kind, floating("excess")))) for kind in ("mdm", "arm"))
        for found in _kinds(absorption, ABSORBED, floating(variable), ("arm", "mdm"), arm):
            none = mdm.verdict == arm.verdict == "too small"
            yield Finding.unjudged(found.subject, _NO_ANCHORS, models=found.models) if none else found

    return judge


absorbs_less = _absorbs_less("absorbed", "Weaker absorption", "as measured")
absorbs_less_excess = _absorbs_less("excess", "Weaker absorption, over uniform", "above uniform attention")
