"""Claims about where anchors are: fixed or moving over steps, spread or focused by depth, strong or weak."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from floatlens.analysis import Group, Result
from floatlens.analysis.absorption import anchored, strength
from floatlens.analysis.intervals import by_question, difference
from floatlens.analysis.kernels import Floats, nanmean
from floatlens.claims.claim import (
    FIRST,
    STRONGEST,
    ClaimRule,
    Finding,
    Limit,
    Measured,
    claim,
    halves,
    model_claim,
    of_kind,
)

__all__ = ["absorbs_less", "absorbs_less_excess", "arm_fixed", "mdm_moves", "mdm_right", "shallow_spread"]

FIXED = Limit("anchor stability (Jaccard, step to step)", 0.9)
DEPTH = Limit("anchor stability (Jaccard, layer to layer)", 0.5)
MOVING = Limit(FIXED.name, FIXED.limit, above=False, otherwise="anchors stay in place")
SPEED = Limit("anchor speed (positions per step)", 0.5)
ENTROPY = Limit("entropy of received attention, shallow minus deep", 0.02, opposite=0.0)
ABSORBED = Limit("attention absorbed, autoregressive minus diffusion (percentage points)", 0.0)
_claim = partial(claim, family="attention")
_model_claim = partial(model_claim, family="attention")


@_model_claim(
    "arm-fixed",
    "Fixed anchor",
    "the anchor of an autoregressive model is fixed, over steps and layers",
    (FIRST, FIXED, DEPTH),
    kind="arm",
)
def arm_fixed(drift: Group, absorption: Group) -> Measured:
    over_steps, over_depth = (anchored(drift, absorption, f"{name}_by_layer") for name in ("jaccard", "depth_jaccard"))
    return strength(absorption, "fixed"), over_steps, over_depth


@_model_claim("mdm-moves", "Moving anchors", "the anchors of a diffusion model move over steps", (STRONGEST, MOVING))
def mdm_moves(drift: Group, absorption: Group) -> Measured:
    return strength(absorption, "floating"), anchored(drift, absorption, "jaccard_by_layer")


@_model_claim(
    "mdm-right", "Drift to the right", "the anchors of a diffusion model move to the right", (STRONGEST, SPEED)
)
def mdm_right(drift: Group, absorption: Group) -> Measured:
    return strength(absorption, "floating"), anchored(drift, absorption, "slope_by_layer")


@_model_claim("shallow-spread", "Focus by depth", "shallow layers spread attention, deep layers focus it", (ENTROPY,))
def shallow_spread(drift: Group) -> Measured:
    shallow, deep = halves(drift.values("entropy_by_layer"))
    return (shallow - deep,)


def _absorbs_less(variable: str, title: str, how: str) -> ClaimRule:
    @_claim(
        f"mdm-absorbs-less ({variable})",
        title,
        f"anchors of diffusion models absorb less than those of autoregressive ones, {how}",
        (ABSORBED,),
    )
    def judge(absorption: Result) -> Iterator[Finding]:
        arm, mdm = (_pooled(absorption, kind, variable) for kind in ("arm", "mdm"))
        if len(arm) and len(mdm):
            models = {kind: len({group.model for group in of_kind(absorption, kind)}) for kind in ("mdm", "arm")}
            yield Finding("diffusion and autoregressive", (ABSORBED(difference(arm, mdm)),), models=models)

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
