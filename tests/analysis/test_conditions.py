"""Conditions as statistics need them: their order, the doses of edits, and which edits share a panel."""

from __future__ import annotations

import pandas as pd

from floatlens.analysis.conditions import dose, dose_panels, edited, edits_of
from shared.frames import CLOSED, RAG, answers, control, edit

ABLATE = [edit("ablate_heads", top=8, mode=mode) for mode in ("mean", "zero")]


def test_edits_come_in_the_order_of_the_registry_and_by_rising_dose() -> None:
    """Whatever the order of the answers."""
    given = [
        *(edit("ablate_heads", top=8, mode="zero"), edit("ablate_heads", top=4, mode="zero"), ABLATE[0]),
        *(edit("sink_token"), edit("drop_anchors", k=10), edit("drop_anchors", k=1), edit("drop_anchors", k=5)),
        edit("pin_anchors", to="bos", k=10),
    ]
    frame = answers({one: [1.0] for one in [control(given[4]), *given, RAG]})
    assert [one.label for one in edits_of(frame)] == [
        *("drop_anchors k=1", "drop_anchors k=5", "drop_anchors k=10", "pin_anchors to=bos k=10", "sink_token"),
        *("ablate_heads top=8 mode=mean", "ablate_heads top=4 mode=zero", "ablate_heads top=8 mode=zero"),
    ]


def test_the_dose_is_the_first_number() -> None:
    assert dose(edit("pin_anchors", to="bos", k=10, strength=0.5)) == 10
    assert dose(edit("freeze_layers", layers="0-1")) == "layers=0-1"
    assert dose(edit("ablate_heads", heads=((5, 3), (7, 0)))) == "heads=5.3+7.0"


def test_edits_are_compared_with_the_unedited_answers_of_their_own_data() -> None:
    both = pd.concat([answers({RAG: [1.0], ABLATE[0]: [1.0], CLOSED: [1.0]}), answers({RAG: [1.0]}, data="other")])
    assert edited(both)[["data", "kind"]].to_numpy().tolist() == [["d", "rag"], ["d", "edit"]]


def test_variants_with_several_doses_have_panels_of_their_own() -> None:
    pins = [edit("pin_anchors", to=to, k=k) for to in ("bos", "step0") for k in (1, 5, 10)]
    sinks = [edit("sink_token", logit=0.0), edit("sink_token", logit=4.0), edit("sink_token")]
    heads = [edit("freeze_heads", heads=((7, 2),))]
    panels = dose_panels([*pins, *sinks, *ABLATE, control(pins[0]), *heads])
    assert {panel.title: list(panel.ticks.values()) for panel in panels} == {
        "pin_anchors to=bos": ["k=1", "k=5", "k=10"],
        "pin_anchors to=step0": ["k=1", "k=5", "k=10"],
        "sink_token": ["logit=0", "logit=4", "on"],
        "ablate_heads": ["top=8\nmean", "top=8\nzero"],
        "freeze_heads heads=7.2": ["on"],
    }
    assert [panel.curve for panel in panels] == [True, True, False, False, False]
    assert list(panels[0].ticks) == pins[:3]
