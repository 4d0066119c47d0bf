"""The edits that come with floatlens (methods §10), one file each: does an answer change when attention is moved?"""

from __future__ import annotations

from floatlens.capture.edits.ablate import AblateHeads
from floatlens.capture.edits.base import Intervention
from floatlens.capture.edits.drop import DropAnchors, DropRandom
from floatlens.capture.edits.freeze import FreezeLayers
from floatlens.capture.edits.ledger import Change
from floatlens.capture.edits.pin import PinAnchors, SwapAnchors
from floatlens.capture.edits.sink import SinkToken

__all__ = [
    "AblateHeads",
    "Change",
    "DropAnchors",
    "DropRandom",
    "FreezeLayers",
    "Intervention",
    "PinAnchors",
    "SinkToken",
    "SwapAnchors",
]
