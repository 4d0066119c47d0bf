"""Claims about where anchors are: fixed or moving over steps, spread or focused by depth, strong or weak."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from floatlens.analysis import Result
from floatlens.analysis.intervals import by_question, difference
from floatlens.analysis.kernels.motion import nanmean
from floatlens.analysis.strength import anchored, same_model, strength
from floatlens.claims.claim import Finding, Limit, claim
from floatlens.claims.measures import FIRST, STRONGEST, halves, of_kind

__all__ = ["FIXED", "SPEED", "absorbs_less", "absorbs_less_excess", "arm_fixed", "mdm_moves", "mdm_right"]

FIXED = Limit("anchor stability (Jaccard, step to step)", 0.9)
DEPTH = Limit("anchor stability (Jaccard, layer to layer)", 0.5)
MOVING = Limit(FIXED.name, FIXED.limit, above=False)
SPEED = Limit("anchor speed (positions per step)", 0.5)
ENTROPY = Limit("entropy of received attention, shallow minus deep", 0.02)
ABSORBED = Limit("attention absorbed, autoregressive minus diffusion (percentage points)", 0.0)


@claim(
    "arm-fixed",
    title="Fixed anchor",
    statement="the anchor of an autoregressive model is fixed, over steps and layers",
    family="attention",
    needs=("drift", "absorption"),
    figure="drift",
    limits=(FIRST, FIXED, DEPTH),
)
def arm_fixed(drift: Result, absorption: Result) -> Iterator[Finding]:
    for group in of_kind(drift, "arm"):
        own = same_model(absorption, group)
        over_steps, over_depth = (anchored(group, own, f"{name}_by_layer") for name in ("jaccard", "depth_jaccard"))
        parts = (
            FIRST(own.estimated(strength(own, "fixed"))),
            FIXED(group.estimated(over_steps)),
            DEPTH(group.estimated(over_depth)),
        )
        yield Finding(group.model, parts, model=group.model)


@claim(
    "mdm-moves",
    title="Moving anchors",
    statement="the anchors of a diffusion model move over steps",
    family="attention",
    needs=("drift", "absorption"),
    figure="drift",
    limits=(STRONGEST, MOVING),
)
def mdm_moves(drift: Result, absorption: Result) -> Iterator[Finding]:
    for group in of_kind(drift, "mdm"):
        own = same_model(absorption, group)
        stability = group.estimated(anchored(group, own, "jaccard_by_layer"))
        parts = (STRONGEST(own.estimated(strength(own, "floating"))), MOVING(stability))
        yield Finding(group.model, parts, model=group.model)


@claim(
    "mdm-right",
    title="Drift to the right",
    statement="the anchors of a diffusion model move to the right",
    family="attention",
    needs=("drift", "absorption"),
    figure="drift",
    limits=(STRONGEST, SPEED),
)
def mdm_right(drift: Result, absorption: Result) -> Iterator[Finding]:
    for group in of_kind(drift, "mdm"):
        own = same_model(absorption, group)
        speed = group.estimated(anchored(group, own, "slope_by_layer"))
        yield Finding(
            group.model, (STRONGEST(own.estimated(strength(own, "floating"))), SPEED(speed)), model=group.model
        )


@claim(
    "shallow-spread",
    title="Focus by depth",
    statement="shallow layers spread attention, deep layers focus it",
    family="attention",
    needs=("drift",),
    figure="drift",
    limits=(ENTROPY,),
)
def shallow_spread(drift: Result) -> Iterator[Finding]:
    for group in of_kind(drift, "mdm"):
        shallow, deep = halves(group.values("entropy_by_layer"))
        yield Finding(group.model, (ENTROPY(group.estimated(shallow - deep)),), model=group.model)


def _pooled(result: Result, kind: str, variable: str) -> NDArray[np.float64]:
    """(question): floating view, mean over layers, over the traces of a question by all models of a kind."""
    groups = of_kind(result, kind)
    if not groups:
        return np.empty(0)
    found = np.concatenate([nanmean(group.values(variable)[:, 1], axis=1) for group in groups])
    return by_question(found, [question for group in groups for question in group.questions])


def _absorbs_less(absorption: Result, variable: str) -> Iterator[Finding]:
    arm, mdm = (_pooled(absorption, kind, variable) for kind in ("arm", "mdm"))
    if len(arm) and len(mdm):
        yield Finding("diffusion and autoregressive", (ABSORBED(difference(arm, mdm)),))


@claim(
    "mdm-absorbs-less (absorbed)",
    title="Weaker absorption",
    statement="anchors of diffusion models absorb less than those of autoregressive ones, as measured",
    family="attention",
    needs=("absorption",),
    figure="absorption",
    limits=(ABSORBED,),
)
def absorbs_less(absorption: Result) -> Iterator[Finding]:
    yield from _absorbs_less(absorption, "absorbed")


@claim(
    "mdm-absorbs-less (excess)",
    title="Weaker absorption, over uniform",
    statement="anchors of diffusion models absorb less than those of autoregressive ones, above uniform attention",
    family="attention",
    needs=("absorption",),
    figure="absorption",
    limits=(ABSORBED,),
)
def absorbs_less_excess(absorption: Result) -> Iterator[Finding]:
    yield from _absorbs_less(absorption, "excess")
