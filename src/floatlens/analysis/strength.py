"""Anchor strength, and means over the layers that have an anchor: numbers that claims and headlines share."""

from __future__ import annotations

from typing import Literal

import numpy as np

from floatlens.analysis.absorption import VIEWS
from floatlens.analysis.kernels import Floats, nanmean
from floatlens.analysis.result import Group, Result

__all__ = ["STRENGTH", "anchored", "same_model", "strength"]


STRENGTH = 2.0
"""A layer has an anchor if its strongest key takes at least this many times its share under uniform attention."""


def same_model(result: Result, group: Group) -> Group:
    """The group of another result about the same model."""
    return result.group(**dict(group.keys))


def _strengths(absorption: Group, view: str) -> Floats:
    """(sample, layer): attention on the set ÷ what uniform attention would give it."""
    place = VIEWS.index(view)
    absorbed, null = absorption.values("absorbed")[:, place], absorption.values("uniform")[:, place]
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(absorbed / null)


def strength(absorption: Group, view: Literal["fixed", "floating"]) -> Floats:
    """(sample): the same, mean over layers, for the first position ("fixed") or the strongest key ("floating")."""
    return nanmean(_strengths(absorption, view), axis=1)


def anchored(group: Group, absorption: Group, variable: str) -> Floats:
    """(sample): mean of a variable over the layers that have an anchor.

    In other layers anchors are noise, and come and go with it.
    """
    strong = _strengths(absorption, "floating") > STRENGTH
    return nanmean(np.where(strong, group.values(variable), np.nan), axis=1)
