"""Refresh schedules as they are written: `0-3/8+4-7/2` is layers 0 to 3 every 8 steps and layers 4 to 7 every 2.

Layers that a schedule does not name are computed in every step. Imports no torch.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from floatlens.attention.setting import span
from floatlens.core.errors import FloatlensError

__all__ = ["intervals_of", "read_schedule", "written"]

_PART = re.compile(r"(?P<layers>\d+(-\d+)?)/(?P<steps>\d+)", re.ASCII)
_WANTED = "LAYERS/STEPS, several with +, such as 0-3/8+4-7/2"


def read_schedule(text: str) -> str:
    """A schedule, checked and kept as written."""
    intervals_of(text)
    return text


def intervals_of(text: str) -> dict[int, int]:
    """Steps from one refresh to the next, by layer.

    Example: `intervals_of("0-1/8+2/2")  # {0: 8, 1: 8, 2: 2}`
    """
    found: dict[int, int] = {}
    for part in text.split("+"):
        match = _PART.fullmatch(part)
        layers = span(match["layers"]) if match else range(0)
        if match is None or not layers or int(match["steps"]) < 1:
            raise FloatlensError(f'wants {_WANTED}, got "{text}"')
        for layer in layers:
            if layer in found:
                raise FloatlensError(f'names layer {layer} twice, got "{text}"')
            found[layer] = int(match["steps"])
    return found


def written(intervals: Mapping[int, int]) -> str:
    """A schedule as text; neighbouring layers with one interval are written together.

    Example: `written({0: 8, 1: 8, 2: 2})  # "0-1/8+2/2"`
    """
    parts: list[tuple[int, int, int]] = []  # first layer, last layer, steps
    for layer, steps in sorted(intervals.items()):
        if parts and parts[-1][1:] == (layer - 1, steps):
            parts[-1] = (parts[-1][0], layer, steps)
        else:
            parts.append((layer, layer, steps))
    return "+".join(f"{first}/{steps}" if first == last else f"{first}-{last}/{steps}" for first, last, steps in parts)
