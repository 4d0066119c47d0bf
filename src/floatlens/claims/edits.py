"""Verdicts on what anchors are for: removing them, and holding them where they were, beside random controls.

The loss of accuracy is taken question by question, twice: from the control to the edit, so that what any change of
attention of this size would cost is taken off, and from the plain answers, since a control may fall or rise by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from floatlens.analysis.intervals import estimate
from floatlens.claims.claim import Claim, Part

if TYPE_CHECKING:
    import pandas as pd

    from floatlens.edits.spec import EditSpec

__all__ = ["LOSS", "edit_claims"]

LOSS = 0.05
"""A model is hurt when it loses more than this share of its answers, and not hurt when it loses less."""
_STATEMENTS = {
    ("drop_anchors", "arm"): "removing its anchor hurts an autoregressive model",
    ("drop_anchors", "mdm"): "removing its anchors does not hurt a diffusion model",
    ("pin_anchors", "mdm"): "holding its anchors still hurts a diffusion model",
}
_JUDGED = {"drop_anchors": 1, "pin_anchors": 5}
"""Of several doses the one nearest to this k: the one anchor of the claim as published, and the five that a pin holds
unless told otherwise."""


def edit_claims(answers: pd.DataFrame, specs: Sequence[EditSpec]) -> list[Claim]:
    """Every claim that a run of interventions speaks of, each on one dose of its edit.

    Example: `edit_claims(answers, specs_of(answers))[0].verdict`
    """
    return [claim for (edit, kind) in _STATEMENTS for claim in _judged(answers, specs, edit, kind)]


def _judged(answers: pd.DataFrame, specs: Sequence[EditSpec], edit: str, kind: str) -> Iterator[Claim]:
    doses = [spec for spec in specs if spec.name == edit and _whole(dict(spec.settings))]
    if not doses:
        return
    spec = min(doses, key=lambda one: _distance(dict(one.settings), _JUDGED[edit]))
    own = answers[answers["kind"] == kind]
    hurts = "not hurt" not in _STATEMENTS[edit, kind]
    id = {"drop_anchors": f"{kind}-without-anchors", "pin_anchors": "anchors-held"}[edit]
    for (model, data), some in own.groupby(["model", "data"], sort=False):
        parts = _parts(some, spec, hurts)
        if parts:
            yield Claim(id, _STATEMENTS[edit, kind], f"{model}, {data}", parts, "edits-accuracy")


def _whole(settings: dict[str, Any]) -> bool:
    """Whether an edit is the one that a claim speaks of: in all layers and steps, and at work at all."""
    part = {"on", "steps"} & settings.keys()
    return settings.get("to", "step0") == "step0" and not part and settings.get("strength", 1.0) > 0


def _distance(settings: dict[str, Any], k: int) -> tuple[float, float]:
    """How far an edit is from the one that is judged: by k, then by strength."""
    return abs(settings.get("k", k) - k), -settings.get("strength", 1.0)


def _parts(some: pd.DataFrame, spec: EditSpec, hurts: bool) -> tuple[Part, ...]:
    """The loss beyond the control, and from the plain answers, on the questions that have all three; () without them.

    A model that answers nothing right has nothing to lose, so one that is not hurt has to answer something first.
    """
    from floatlens.runs.intervening import PLAIN

    wide = some.pivot(index="id", columns="condition", values="accuracy")
    names = [PLAIN, spec.with_control(0).label, spec.label]
    if not all(name in wide.columns for name in names):
        return ()
    plain, control, edited = wide[names].dropna().to_numpy(dtype=np.float64).T
    if not len(plain):
        return ()
    parts = (
        Part(f"accuracy lost to {spec.label}, beyond its random control", estimate(control - edited), LOSS, hurts),
        Part(f"accuracy lost to {spec.label}, from plain", estimate(plain - edited), LOSS, hurts),
    )
    return parts if hurts else (*parts, Part("accuracy without an edit", estimate(plain), LOSS))
