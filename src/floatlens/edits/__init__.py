"""The edits that come with floatlens (methods §10), one file each: does an answer change when attention is moved?"""

from __future__ import annotations

from floatlens.edits.ablate import AblateHeads
from floatlens.edits.base import Intervention
from floatlens.edits.drop import DropAnchors, DropRandom
from floatlens.edits.editing import Editing, edit
from floatlens.edits.freeze import FreezeLayers
from floatlens.edits.ledger import Change
from floatlens.edits.pin import PinAnchors, SwapAnchors
from floatlens.edits.sink import SinkToken

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
