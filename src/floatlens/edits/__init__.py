"""Edits: does an answer change when attention is moved? One file per edit (methods §10).

    import floatlens as fl
    with fl.edit(model, fl.edits.DropAnchors(k=5)):
        fl.decode(model, ids, gen_length=16)

`EDITS` holds them by the names used on the command line; other packages add theirs through the entry-point group
"floatlens.edits". Classes are imported when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

from floatlens.core.registry import Registry

if TYPE_CHECKING:
    from floatlens.attention.changes import Change as Change
    from floatlens.attention.edit import Edit as Edit
    from floatlens.attention.edit import Site as Site
    from floatlens.attention.select import Select as Select
    from floatlens.attention.setting import Setting as Setting
    from floatlens.edits.ablate import AblateHeads as AblateHeads
    from floatlens.edits.context import EditContext as EditContext
    from floatlens.edits.context import edit as edit
    from floatlens.edits.drop import DropAnchors as DropAnchors
    from floatlens.edits.drop import DropRandom as DropRandom
    from floatlens.edits.freeze import FreezeLayers as FreezeLayers
    from floatlens.edits.pin import PinAnchors as PinAnchors
    from floatlens.edits.pin import SwapAnchors as SwapAnchors
    from floatlens.edits.row_edit import RowEdit as RowEdit
    from floatlens.edits.sink import SinkToken as SinkToken
    from floatlens.edits.spec import EditSpec as EditSpec
    from floatlens.edits.spec import parse_edit as parse_edit

EDITS: Registry[type[Edit]] = Registry(
    "edit",
    "floatlens.edits",
    {
        "drop_anchors": "floatlens.edits.drop:DropAnchors",
        "pin_anchors": "floatlens.edits.pin:PinAnchors",
        "swap_anchors": "floatlens.edits.pin:SwapAnchors",
        "sink_token": "floatlens.edits.sink:SinkToken",
        "ablate_heads": "floatlens.edits.ablate:AblateHeads",
        "freeze_layers": "floatlens.edits.freeze:FreezeLayers",
    },
)

if not TYPE_CHECKING:
    __getattr__, __dir__, _ = lazy_loader.attach(
        __name__,
        submod_attrs={
            "ablate": ["AblateHeads"],
            "context": ["Change", "Edit", "EditContext", "Select", "edit"],
            "drop": ["DropAnchors", "DropRandom"],
            "freeze": ["FreezeLayers"],
            "pin": ["PinAnchors", "SwapAnchors"],
            "row_edit": ["RowEdit", "Site"],
            "sink": ["SinkToken"],
            "spec": ["EditSpec", "Setting", "parse_edit"],
        },
    )
__all__ = [
    "EDITS",
    "AblateHeads",
    "Change",
    "DropAnchors",
    "DropRandom",
    "Edit",
    "EditContext",
    "EditSpec",
    "FreezeLayers",
    "PinAnchors",
    "RowEdit",
    "Select",
    "Setting",
    "SinkToken",
    "Site",
    "SwapAnchors",
    "edit",
    "parse_edit",
]
