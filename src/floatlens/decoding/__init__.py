"""Decoding: samplers as generators of `Step` events, the same for every family.

Models come from `floatlens.models`; attention is watched by `floatlens.attention` and is no business of this room.
"""

from __future__ import annotations

from floatlens.decoding.canvas import Canvas
from floatlens.decoding.registry import Sampler, register, samplers
from floatlens.decoding.run import decode, decode_steps, plan, prompt_budget
from floatlens.decoding.settings import Settings
from floatlens.decoding.step import Decoded, Step

__all__ = [
    "Canvas",
    "Decoded",
    "Sampler",
    "Settings",
    "Step",
    "decode",
    "decode_steps",
    "plan",
    "prompt_budget",
    "register",
    "samplers",
]
