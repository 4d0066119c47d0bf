"""Numbers that several rules share: halves of the layers, anchor strength, means over layers that have an anchor."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from floatlens.analysis import Group, Result
from floatlens.analysis.absorption import VIEWS
from floatlens.analysis.kernels.motion import nanmean
from floatlens.claims.claim import Limit

__all__ = ["FIRST", "STRENGTH", "STRONGEST", "anchored", "halves", "of_kind", "same_model", "strength"]

Floats = NDArray[np.float64]

STRENGTH = 2.0
"""An anchor takes at least twice what uniform attention would give it."""
FIRST = Limit("attention on the first position (× uniform)", STRENGTH)
STRONGEST = Limit("anchor strength of the strongest key (× uniform)", STRENGTH)


def of_kind(result: Result, kind: str) -> list[Group]:
    """The groups of autoregressive ("arm") or diffusion ("mdm") models."""
    return [group for group in result.groups if group.facts["kind"] == kind]


def same_model(result: Result, group: Group) -> Group:
    """The group of another result about the same model."""
    return result.group(**dict(group.keys))


def halves(values: Floats) -> tuple[Floats, Floats]:
    """(sample): means over the shallow and the deep half of the layers, of (sample, layer)."""
    middle = values.shape[1] // 2
    return nanmean(values[:, :middle], axis=1), nanmean(values[:, middle:], axis=1)


def _strengths(absorption: Group, view: str) -> Floats:
    """(sample, layer): attention on the set ÷ what uniform attention would give it."""
    place = VIEWS.index(view)
    absorbed, null = absorption.values("absorbed")[:, place], absorption.values("uniform")[:, place]
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(absorbed / null)


def strength(absorption: Group, view: str) -> Floats:
    """(sample): the same, mean over layers; the view is "fixed" (first position) or "floating" (strongest key)."""
    return nanmean(_strengths(absorption, view), axis=1)


def anchored(group: Group, absorption: Group, variable: str) -> Floats:
    """(sample): mean of a variable over the layers that have an anchor, that is, a strongest key that is strong enough.

    In other layers anchors are noise, and come and go with it.
    """
    strong = _strengths(absorption, "floating") > STRENGTH
    return nanmean(np.where(strong, group.values(variable), np.nan), axis=1)
