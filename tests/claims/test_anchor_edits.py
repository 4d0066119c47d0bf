"""Verdicts on edits of anchors, beside controls and unedited answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import pytest

from floatlens.claims import Claim
from floatlens.claims.registry import answer_claims
from floatlens.records.condition import Condition, Edited
from shared import frames
from shared.frames import RAG, control, edit

DROP, PIN = edit("drop_anchors", k=1), edit("pin_anchors", to="step0", k=5)


def judged(rates: Mapping[Condition, float], kind: str = "mdm", n: int = 20) -> list[Claim]:
    frame: pd.DataFrame = frames.answers({c: [i < round(r * n) for i in range(n)] for c, r in rates.items()}, kind=kind)
    return answer_claims(frame)


@pytest.mark.parametrize(
    ("kind", "unedited", "random", "edited", "parts"),
    [
        ("arm", 1.0, 0.9, 0.2, "++"),
        ("arm", 1.0, 0.5, 0.5, "-+"),  # what any change of attention costs
        ("arm", 0.5, 1.0, 0.5, "+-"),  # the control gained, the edit cost nothing
        ("mdm", 1.0, 1.0, 1.0, "+++"),
        ("mdm", 1.0, 0.9, 0.2, "--+"),
        ("mdm", 1.0, 0.9, 0.9, "+?+"),  # two of twenty lost, 0.1: by chance more than 0.05 or not
        ("mdm", 1.0, 0.0, 0.0, "+-+"),  # both collapse
        ("mdm", 0.0, 0.0, 0.0, "++-"),  # nothing there that could be lost
    ],
)
def test_removing_anchors_is_judged_beside_control_and_unedited_answers(
    kind: str, unedited: float, random: float, edited: float, parts: str
) -> None:
    (found,) = judged({RAG: unedited, DROP: edited, control(DROP): random}, kind)
    assert (found.id, found.model, found.subject) == (f"{kind}-without-anchors", "m", "m, d")
    signs = {"supported": "+", "contradicted": "-", "too small": "-", "undecided": "?"}
    assert "".join(signs[part.verdict] for part in found.parts) == parts
    assert signs[found.verdict] == ("-" if "-" in parts else "?" if "?" in parts else "+")
    assert [float(part.found.mean) for part in found.parts[:2]] == pytest.approx([random - edited, unedited - edited])


def doses(name: str, *settings: dict[str, Any]) -> list[Edited]:
    return [edit(name, **one) for one in settings]


@pytest.mark.parametrize(
    ("edits", "chosen"),
    [
        (doses("drop_anchors", {"k": 10}, {"k": 5}, {"k": 1}), "drop_anchors k=1"),
        (doses("pin_anchors", *({"to": "step0", "k": k} for k in (1, 5, 10))), "pin_anchors to=step0 k=5"),
        (doses("pin_anchors", {"to": "bos", "k": 5}, {"k": 1, "to": "step0"}), "pin_anchors k=1 to=step0"),
        (
            doses("drop_anchors", *({"k": 1, "strength": s} for s in (0.25, 1.0)), {"k": 1, "on": "0-1"}),
            "drop_anchors k=1 strength=1",
        ),
        (doses("drop_anchors", {"k": 1, "steps": "50-60"}, {"k": 1, "strength": 0.0}, {"k": 5}), "drop_anchors k=5"),
    ],
)
def test_one_dose_is_judged(edits: Sequence[Edited], chosen: str) -> None:
    (found,) = judged({RAG: 1.0} | {c: 1.0 for one in edits for c in (one, control(one))})
    assert found.parts[0].name == f"accuracy lost to {chosen}, beyond its random control"


@pytest.mark.parametrize(("unedited", "verdict"), [(1.0, "supported"), (0.1, "contradicted")])
def test_holding_anchors_is_judged_for_diffusion_models(unedited: float, verdict: str) -> None:
    rates: dict[Condition, float] = {RAG: unedited, PIN: 0.1, control(PIN): 0.9}
    (found,) = judged(rates)
    assert (found.id, found.verdict) == ("anchors-held", verdict)
    assert judged(rates, kind="arm") == []
    assert judged({c: 0.1 for c in rates if c != RAG}) == []  # nothing unedited to compare with
