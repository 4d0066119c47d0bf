"""Decoding: samplers as generators of `Step` events, the same for every family. Attention is not looked at here.

`SAMPLERS` holds the samplers by name; other packages add theirs through the entry-point group "floatlens.samplers".
"""

from __future__ import annotations

from floatlens.decoding.canvas import Canvas
from floatlens.decoding.registry import SAMPLERS, Sampler
from floatlens.decoding.run import decode, decode_steps, plan, prompt_budget
from floatlens.decoding.settings import Settings
from floatlens.decoding.step import Decoded, Step

__all__ = [
    "SAMPLERS",
    "Canvas",
    "Decoded",
    "Sampler",
    "Settings",
    "Step",
    "decode",
    "decode_steps",
    "plan",
    "prompt_budget",
]
