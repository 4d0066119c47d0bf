"""How much of each trace fits into a page: a ladder from everything to a thin selection, and the arithmetic of sizes.

Steps and layers that are left out are named on the page; nothing is dropped silently.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from floatlens.analysis.anchors import GROUPS, QueryGroup
from floatlens.report.codec import Codes

__all__ = ["LADDER", "Detail", "estimated_size", "fitting", "thinned"]

_FINE, _COARSE = 4096, 256
_BYTES = {_FINE: 1.25, _COARSE: 0.75}
"""Deflated bytes per value, rounded up from what traces of the scale models need (0.97 and 0.54)."""
_EVERY: tuple[QueryGroup, ...] = tuple(GROUPS)


@dataclass(frozen=True)
class Detail:
    """What is kept of a trace: precision, whose attention, and at most so many layers and steps (None: all)."""

    levels: int = _FINE
    groups: tuple[QueryGroup, ...] = _EVERY
    layers: int | None = None
    steps: int | None = None

    @property
    def codes(self) -> Codes:
        return Codes(self.levels)


LADDER = (
    Detail(),
    Detail(_COARSE),
    Detail(_COARSE, layers=16, steps=48),
    Detail(_COARSE, layers=8, steps=32),
    Detail(_COARSE, ("all", "masked"), layers=8, steps=24),
    Detail(_COARSE, ("all", "masked"), layers=6, steps=12),
    Detail(_COARSE, ("all",), layers=4, steps=8),
)


def estimated_size(sizes: Mapping[str, int], detail: Detail) -> int:
    """Characters that a trace of these sizes takes in the page."""
    layers = min(sizes.get("layer", 1), detail.layers or sizes.get("layer", 1)) + 1  # and their mean
    steps = min(sizes["step"], detail.steps or sizes["step"])
    values = len(detail.groups) * steps * layers * sizes["key"]
    words = 12 * sizes["key"]  # tokens, regions, ids
    return int((values * _BYTES[detail.levels] + words) * 4 / 3)


def fitting(sizes: Sequence[Mapping[str, int]], room: int, after: Detail | None = None) -> Detail:
    """The first rung on which traces of these sizes fit into `room` characters, below `after` where given.

    The last rung is taken even where they do not: the caller then shows fewer traces.
    """
    rungs = LADDER if after is None else LADDER[LADDER.index(after) + 1 :] or LADDER[-1:]
    return next((rung for rung in rungs if sum(estimated_size(one, rung) for one in sizes) <= room), rungs[-1])


def thinned(count: int, most: int | None) -> list[int]:
    """Places of at most so many out of `count`, evenly spaced, with the first and the last."""
    if most is None or count <= most:
        return list(range(count))
    return sorted({int(place) for place in np.linspace(0, count - 1, most).round()})
