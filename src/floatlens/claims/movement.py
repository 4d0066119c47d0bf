"""Claims about where anchors are: fixed or moving over steps, spread or focused by depth, strong or weak."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from floatlens.analysis import Group, Result
from floatlens.analysis.intervals import by_question, difference
from floatlens.analysis.kernels import Floats, nanmean
from floatlens.analysis.strength import anchored, strength
from floatlens.claims.claim import ClaimRule, Finding, Limit, claim
from floatlens.claims.measures import FIRST, STRONGEST, Measured, halves, model_claim, of_kind

__all__ = ["absorbs_less", "absorbs_less_excess", "arm_fixed", "mdm_moves", "mdm_right", "shallow_spread"]

FIXED = Limit("anchor stability (Jaccard, step to step)", 0.9)
DEPTH = Limit("anchor stability (Jaccard, layer to layer)", 0.5)
MOVING = Limit(FIXED.name, FIXED.limit, above=False)
SPEED = Limit("anchor speed (positions per step)", 0.5)
ENTROPY = Limit("entropy of received attention, shallow minus deep", 0.02)
ABSORBED = Limit("attention absorbed, autoregressive minus diffusion (percentage points)", 0.0)


@model_claim(
    "arm-fixed",
    "arm",
    title="Fixed anchor",
    statement="the anchor of an autoregressive model is fixed, over steps and layers",
    family="attention",
    needs=("drift", "absorption"),
    limits=(FIRST, FIXED, DEPTH),
)
def arm_fixed(drift: Group, absorption: Group) -> Measured:
    over_steps, over_depth = (anchored(drift, absorption, f"{name}_by_layer") for name in ("jaccard", "depth_jaccard"))
    return strength(absorption, "fixed"), over_steps, over_depth


@model_claim(
    "mdm-moves",
    "mdm",
    title="Moving anchors",
    statement="the anchors of a diffusion model move over steps",
    family="attention",
    needs=("drift", "absorption"),
    limits=(STRONGEST, MOVING),
)
def mdm_moves(drift: Group, absorption: Group) -> Measured:
    return strength(absorption, "floating"), anchored(drift, absorption, "jaccard_by_layer")


@model_claim(
    "mdm-right",
    "mdm",
    title="Drift to the right",
    statement="the anchors of a diffusion model move to the right",
    family="attention",
    needs=("drift", "absorption"),
    limits=(STRONGEST, SPEED),
)
def mdm_right(drift: Group, absorption: Group) -> Measured:
    return strength(absorption, "floating"), anchored(drift, absorption, "slope_by_layer")


@model_claim(
    "shallow-spread",
    "mdm",
    title="Focus by depth",
    statement="shallow layers spread attention, deep layers focus it",
    family="attention",
    needs=("drift",),
    limits=(ENTROPY,),
)
def shallow_spread(drift: Group) -> Measured:
    shallow, deep = halves(drift.values("entropy_by_layer"))
    return (shallow - deep,)


def _absorbs_less(variable: str, title: str, how: str) -> ClaimRule:
    @claim(
        f"mdm-absorbs-less ({variable})",
        title=title,
        statement=f"anchors of diffusion models absorb less than those of autoregressive ones, {how}",
        family="attention",
        needs=("absorption",),
        limits=(ABSORBED,),
    )
    def judge(absorption: Result) -> Iterator[Finding]:
        arm, mdm = (_pooled(absorption, kind, variable) for kind in ("arm", "mdm"))
        if len(arm) and len(mdm):
            yield Finding("diffusion and autoregressive", (ABSORBED(difference(arm, mdm)),))

    return judge


def _pooled(result: Result, kind: str, variable: str) -> Floats:
    """(question): floating view, mean over layers, over the traces of a question by all models of a kind."""
    groups = of_kind(result, kind)
    if not groups:
        return np.empty(0)
    found = np.concatenate([nanmean(group.values(variable)[:, 1], axis=1) for group in groups])
    return by_question(found, [question for group in groups for question in group.questions])


absorbs_less = _absorbs_less("absorbed", "Weaker absorption", "as measured")
absorbs_less_excess = _absorbs_less("excess", "Weaker absorption, over uniform", "above uniform attention")
