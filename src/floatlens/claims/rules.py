"""The rules of the verdicts, claim by claim. Limits stand in `MARGINS`, with their reasons in docs/claims.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from floatlens.analysis import Group, Result
from floatlens.analysis.class_distance import anchor_shares, beyond_halves
from floatlens.analysis.intervals import by_question, difference, estimate
from floatlens.analysis.kernels.motion import nanmean
from floatlens.analysis.retrieval import depth_correlation
from floatlens.claims.claim import FEWEST, Claim, Part, claim

__all__ = ["MARGINS"]

Floats = NDArray[np.float64]

MARGINS = {
    "strength": 2.0,  # an anchor takes at least twice what uniform attention would give it
    "overlap": 0.9,  # anchor sets of consecutive steps that are the same set
    "depth_overlap": 0.5,  # anchor sets of consecutive layers that are mostly the same
    "speed": 0.5,  # positions per step
    "entropy": 0.02,  # normalised entropy, shallow less deep
    "lift": 1.0,  # (gold document ÷ mean of the others) ÷ the same under uniform attention
    "task": 0.05,  # total variation distance of data sets beyond that of random halves of one
}


def _of_kind(result: Result, kind: str) -> list[Group]:
    return [group for group in result.groups if group.facts["kind"] == kind]


def _same(result: Result, group: Group) -> Group:
    """The group of another result about the same model."""
    return result.group(**dict(group.keys))


def _part(name: str, group: Group, values: Floats, limit: float, *, above: bool = True) -> Part:
    """A part from one number per trace of a group."""
    return Part(name, group.estimated(values), limit, above)


def _halves(values: Floats) -> tuple[Floats, Floats]:
    """(sample): means over the shallow and the deep half of the layers, of (sample, layer)."""
    middle = values.shape[1] // 2
    return nanmean(values[:, :middle], axis=1), nanmean(values[:, middle:], axis=1)


def _strengths(group: Group, view: int) -> Floats:
    """(sample, layer): attention of the set ÷ what uniform attention would give it."""
    absorbed, null = group.values("absorbed")[:, view], group.values("uniform")[:, view]
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(absorbed / null)


def _anchored(group: Group, absorption: Group, variable: str) -> Floats:
    """(sample): mean of a variable over the layers that have an anchor, whose strongest key is strong enough.

    In other layers anchors are whatever stands out of the noise, and come and go with it.
    """
    strong = _strengths(absorption, 1) > MARGINS["strength"]
    return nanmean(np.where(strong, group.values(variable), np.nan), axis=1)


def _strong(group: Group, view: int) -> Part:
    what = ("the first position", "the strongest key")[view]
    return _part(f"attention on {what} ÷ uniform", group, nanmean(_strengths(group, view), 1), MARGINS["strength"])


@claim("arm-fixed", needs=("drift", "absorption"))
def _arm_fixed(results: Mapping[str, Result]) -> Iterator[Claim]:
    for group in _of_kind(results["drift"], "arm"):
        absorption = _same(results["absorption"], group)
        overlap, depth = (_anchored(group, absorption, f"{name}_by_layer") for name in ("jaccard", "depth_jaccard"))
        parts = (
            _strong(absorption, 0),
            _part("overlap of anchors from step to step", group, overlap, MARGINS["overlap"]),
            _part("overlap of anchors from layer to layer", group, depth, MARGINS["depth_overlap"]),
        )
        yield Claim(
            "arm-fixed",
            "the anchor of an autoregressive model stays where it is, over steps and layers",
            group.model,
            parts,
            "drift",
        )


@claim("mdm-moves", needs=("drift", "absorption"))
def _mdm_moves(results: Mapping[str, Result]) -> Iterator[Claim]:
    for group in _of_kind(results["drift"], "mdm"):
        absorption = _same(results["absorption"], group)
        overlap = _anchored(group, absorption, "jaccard_by_layer")
        parts = (
            _strong(absorption, 1),
            _part("overlap of anchors from step to step", group, overlap, MARGINS["overlap"], above=False),
        )
        yield Claim("mdm-moves", "the anchors of a diffusion model move over steps", group.model, parts, "drift")


@claim("mdm-right", needs=("drift", "absorption"))
def _mdm_right(results: Mapping[str, Result]) -> Iterator[Claim]:
    for group in _of_kind(results["drift"], "mdm"):
        absorption = _same(results["absorption"], group)
        speed = _anchored(group, absorption, "slope_by_layer")
        parts = (
            _strong(absorption, 1),
            _part("positions per step", group, speed, MARGINS["speed"]),
        )
        yield Claim("mdm-right", "the anchors of a diffusion model move to the right", group.model, parts, "drift")


@claim("shallow-spread", needs=("drift",))
def _shallow_spread(results: Mapping[str, Result]) -> Iterator[Claim]:
    for group in _of_kind(results["drift"], "mdm"):
        shallow, deep = _halves(group.values("entropy_by_layer"))
        part = _part("entropy of received attention, shallow less deep", group, shallow - deep, MARGINS["entropy"])
        yield Claim(
            "shallow-spread", "shallow layers spread attention, deep layers focus it", group.model, (part,), "drift"
        )


def _pooled(result: Result, kind: str, variable: str) -> Floats:
    """(question): floating view, mean over layers, over the traces of a question by all models of a kind."""
    groups = _of_kind(result, kind)
    if not groups:
        return np.empty(0)
    found = np.concatenate([nanmean(group.values(variable)[:, 1], axis=1) for group in groups])
    return by_question(found, [question for group in groups for question in group.questions])


@claim("mdm-absorbs-less", needs=("absorption",))
def _absorbs_less(results: Mapping[str, Result]) -> Iterator[Claim]:
    result = results["absorption"]
    for variable, how in (("absorbed", "as measured"), ("excess", "above uniform attention")):
        arm, mdm = (_pooled(result, kind, variable) for kind in ("arm", "mdm"))
        if not len(arm) or not len(mdm):
            continue
        part = Part("percentage points by which autoregressive models absorb more", difference(arm, mdm), 0.0)
        statement = f"anchors of diffusion models absorb less than those of autoregressive ones, {how}"
        yield Claim(f"mdm-absorbs-less ({variable})", statement, "diffusion and autoregressive", (part,), "absorption")


@claim("qk-split", needs=("qk",))
def _qk_split(results: Mapping[str, Result]) -> Iterator[Claim]:
    for group in _of_kind(results["qk"], "mdm"):
        norm, angle = (nanmean(group.values(f"{part}_part"), axis=2) for part in ("norm", "angle"))
        (norm_shallow, norm_deep), (angle_shallow, angle_deep) = _halves(norm), _halves(angle)
        with np.errstate(invalid="ignore", divide="ignore"):
            shallow = norm_shallow / (np.abs(norm_shallow) + np.abs(angle_shallow))
            deep = norm_deep / (np.abs(norm_deep) + np.abs(angle_deep))
        parts = (
            _part("part of the key norm in shallow layers", group, norm_shallow, 0.0),
            _part("part of the angle in shallow layers", group, angle_shallow, 0.0),
            _part("part of the angle in deep layers", group, angle_deep, 0.0),
            _part("share of the norm, shallow less deep", group, shallow - deep, 0.0),
        )
        yield Claim(
            "qk-split",
            "anchors win q·k by norm and angle in shallow layers, by angle in deep ones",
            group.model,
            parts,
            "qk",
        )


@claim("structure-then-content", needs=("token_classes",))
def _structure_then_content(results: Mapping[str, Result]) -> Iterator[Claim]:
    for group in _of_kind(results["token_classes"], "mdm"):
        structural, _ = _halves(group.values("structural_anchors"))
        lexical_shallow, lexical = _halves(group.values("lexical_anchors"))
        parts = (
            _part("anchors on structure in shallow layers ÷ share of such tokens", group, structural, 1.0),
            _part("anchors on content in deep layers ÷ share of such tokens", group, lexical, 1.0),
            _part("enrichment of content, deep less shallow", group, lexical - lexical_shallow, 0.0),
        )
        yield Claim(
            "structure-then-content",
            "shallow layers anchor on structure, deep layers on content",
            group.model,
            parts,
            "token_classes",
        )


@claim("anchors-by-task", needs=("token_classes",))
def _anchors_by_task(results: Mapping[str, Result]) -> Iterator[Claim]:
    for group in _of_kind(results["token_classes"], "mdm"):
        sets = anchor_shares(group)
        lacking = _lacking(group, {name: len(values) for name, values in sets.items()})
        parts: tuple[Part, ...] = ()
        if not lacking:
            name = f"distance between the anchors of {len(sets)} data sets, beyond halves of one"
            parts = (Part(name, beyond_halves(sets, group.seed), MARGINS["task"]),)
        statement = "the anchors of a diffusion model depend on the task"
        yield Claim("anchors-by-task", statement, group.model, parts, "token_classes", lacking)


def _lacking(group: Group, counts: Mapping[str, int]) -> str:
    """What sets cannot be compared without; "" where nothing is lacking. `counts` are questions by data set."""
    if len(counts) < 2:
        silent = group.data_sets.count("")
        these = f"these are all of {next(iter(counts))}" if counts else "these do not say"
        also = f", but for {silent} that do not say" if counts and silent else ""
        needed = f"traces of two or more data sets, at least {FEWEST} of each, that say which set they are of"
        return f"{needed}; {these}{also}"
    few = [f"{name} has {count}" for name, count in counts.items() if count < FEWEST]
    return f"at least {FEWEST} questions with anchors of each data set; {', '.join(few)}" if few else ""


@claim("retrieval-deep", needs=("retrieval_heads",))
def _retrieval_deep(results: Mapping[str, Result]) -> Iterator[Claim]:
    for group in _of_kind(results["retrieval_heads"], "mdm"):
        part = Part("rank correlation of copy score and layer", depth_correlation(group, "copy"), 0.0)
        yield Claim("retrieval-deep", "retrieval heads lie in deep layers", group.model, (part,), "retrieval_heads")


@claim("flow-follows-gold", needs=("flow",))
def _flow_follows_gold(results: Mapping[str, Result]) -> Iterator[Claim]:
    result = results["flow"]
    for model in result.models:
        groups = [
            g for g in result.groups if g.model == model and g.keys["gold"] is not None and g.keys["documents"] > 1
        ]
        parts = tuple(
            Part(
                f"gold document at {g.keys['gold']} of {g.keys['documents']} ÷ the others, over uniform attention",
                g.estimate("lift_over_uniform"),
                MARGINS["lift"],
            )
            for g in sorted(groups, key=lambda g: (g.keys["documents"], g.keys["gold"]))
        )
        if len({g.keys["gold"] for g in groups}) == 1:  # a model that likes this place would look the same
            unknown = estimate(np.array([np.nan]))
            parts += (Part("gold document at another place ÷ the others", unknown, MARGINS["lift"]),)
        if parts:
            yield Claim(
                "flow-follows-gold",
                "what flows to the answer comes from the gold document, wherever it stands",
                model,
                parts,
                "rollout",
            )
