"""What several rules share: groups by kind of model, halves of the layers, and the limits on anchor strength."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from floatlens.analysis import Group, Result
from floatlens.analysis.kernels.motion import nanmean
from floatlens.analysis.strength import STRENGTH
from floatlens.claims.claim import Limit

__all__ = ["FIRST", "STRONGEST", "halves", "of_kind"]

Floats = NDArray[np.float64]

FIRST = Limit("attention on the first position (× uniform)", STRENGTH)
STRONGEST = Limit("anchor strength of the strongest key (× uniform)", STRENGTH)


def of_kind(result: Result, kind: str) -> list[Group]:
    """The groups of autoregressive ("arm") or diffusion ("mdm") models."""
    return [group for group in result.groups if group.facts["kind"] == kind]


def halves(values: Floats) -> tuple[Floats, Floats]:
    """(sample): means over the shallow and the deep half of the layers, of (sample, layer)."""
    middle = values.shape[1] // 2
    return nanmean(values[:, :middle], axis=1), nanmean(values[:, middle:], axis=1)
