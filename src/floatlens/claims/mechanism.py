"""Claims about why anchors win, what they are, and which heads retrieve."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import partial

import numpy as np

from floatlens.analysis import Group, Result
from floatlens.analysis.class_distance import anchor_shares, class_distance
from floatlens.analysis.kernels import nanmean
from floatlens.analysis.retrieval import depth_correlation
from floatlens.claims.claim import FEWEST, Finding, Limit, Measured, claim, halves, model_claim, of_kind

__all__ = ["anchors_by_task", "arm_angular", "qk_split", "retrieval_deep", "structure_then_content"]

QK = (
    Limit("norm part of q·k in shallow layers", 0.0),
    Limit("angle part of q·k in shallow layers", 0.0),
    Limit("angle part of q·k in deep layers", 0.0),
    Limit("share of the norm, shallow minus deep", 0.0),
)
ANGULAR = Limit("share of the angle in the q·k advantage", 0.5)
CLASSES = (
    Limit("enrichment of structure among anchors in shallow layers", 1.0),
    Limit("enrichment of content among anchors in deep layers", 1.0),
    Limit("enrichment of content, deep minus shallow", 0.0),
)
TASK = Limit("distance between the anchors of {sets} data sets", 0.05, opposite=-math.inf)  # a distance has no opposite
DEPTH = Limit("rank correlation of copy score and layer", 0.0)
_claim = partial(claim, family="mechanism")
_model_claim = partial(model_claim, family="mechanism")


@_model_claim(
    "qk-split", "Norm, then angle", "anchors win q·k by norm and angle in shallow layers, by angle in deep ones", QK
)
def qk_split(qk: Group) -> Measured:
    norm, angle = (nanmean(qk.values(f"{part}_part"), axis=2) for part in ("norm", "angle"))
    with np.errstate(invalid="ignore", divide="ignore"):
        shallow, deep = (n / (np.abs(n) + np.abs(a)) for n, a in zip(halves(norm), halves(angle), strict=True))
    return halves(norm)[0], *halves(angle), shallow - deep


@_model_claim(
    "arm-angular",
    "Angle of autoregressive anchors",
    "the anchors of an autoregressive model win q·k mainly by angle",
    (ANGULAR,),
    kind="arm",
)
def arm_angular(qk: Group) -> Measured:
    """Mean over the layers that have anchors. A part that works against the anchors has a negative share."""
    norm, angle = (nanmean(qk.values(f"{part}_part"), axis=2) for part in ("norm", "angle"))
    with np.errstate(invalid="ignore", divide="ignore"):
        return (nanmean(angle / (np.abs(norm) + np.abs(angle)), axis=1),)


@_model_claim(
    "structure-then-content",
    "Structure, then content",
    "shallow layers anchor on structure, deep layers on content",
    CLASSES,
)
def structure_then_content(token_classes: Group) -> Measured:
    structural, _ = halves(token_classes.values("structural_anchors"))
    shallow, deep = halves(token_classes.values("lexical_anchors"))
    return structural, deep, deep - shallow


@_claim("anchors-by-task", "Anchors by task", "the anchors of a diffusion model depend on the task", (TASK,))
def anchors_by_task(token_classes: Result) -> Iterator[Finding]:
    for group in of_kind(token_classes, "mdm"):
        sets = anchor_shares(group)
        missing = _missing(group, {name: len(values) for name, values in sets.items()})
        parts = () if missing else (TASK(class_distance(sets), sets=len(sets)),)
        yield Finding(group.model, parts, missing, group.model)


def _missing(group: Group, counts: Mapping[str, int]) -> str:
    """What a comparison of data sets needs and lacks; "" if nothing. `counts` are questions by data set."""
    if len(counts) < 2:
        unnamed = group.data_sets.count("")
        these = f"these are all of {next(iter(counts))}" if counts else "these do not name theirs"
        also = f", except {unnamed} that do not name theirs" if counts and unnamed else ""
        needed = f"traces of two or more data sets that name their set, with at least {FEWEST} questions of each"
        return f"{needed}; {these}{also}"
    few = [f"{name} has {count}" for name, count in counts.items() if count < FEWEST]
    return f"at least {FEWEST} questions with anchors of each data set; {', '.join(few)}" if few else ""


@_model_claim("retrieval-deep", "Deep retrieval heads", "retrieval heads lie in deep layers", (DEPTH,))
def retrieval_deep(retrieval_heads: Group) -> Measured:
    return (depth_correlation(retrieval_heads, "copy"),)
