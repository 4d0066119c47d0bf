"""Edits of attention under one name: the classes of `capture.edits`, and the context that puts them to work.

    from floatlens.interventions import PinAnchors, edit
    with edit(model, PinAnchors("step0")):
        decode(model, ids, gen_length=16)

Asking questions under them is `floatlens intervene`; docs/interventions.md says what each does.
"""

from __future__ import annotations

from floatlens.capture.editing import Editing, edit
from floatlens.capture.edits import (
    AblateHeads,
    Change,
    DropAnchors,
    DropRandom,
    FreezeLayers,
    Intervention,
    PinAnchors,
    SinkToken,
    SwapAnchors,
)

__all__ = [
    "AblateHeads",
    "Change",
    "DropAnchors",
    "DropRandom",
    "Editing",
    "FreezeLayers",
    "Intervention",
    "PinAnchors",
    "SinkToken",
    "SwapAnchors",
    "edit",
]
