"""Verdicts on what anchors are for: removing them, and holding them where they were, beside random controls.

The loss is that of accuracy from the control to the edit, question by question, so that what any change of attention of
this size would cost is taken off.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from floatlens.analysis.intervals import Estimate, estimate
from floatlens.verdicts.claim import Claim, Part

if TYPE_CHECKING:
    import pandas as pd

    from floatlens.qa.edited import EditSpec

__all__ = ["LOSS", "edit_claims"]

LOSS = 0.05
"""A model is hurt when it loses more than this share of its answers, and not hurt when it loses less."""
_STATEMENTS = {
    ("drop_anchors", "arm"): "removing its anchor hurts an autoregressive model",
    ("drop_anchors", "mdm"): "removing its anchors does not hurt a diffusion model",
    ("pin_anchors", "mdm"): "holding its anchors still hurts a diffusion model",
}


def edit_claims(answers: pd.DataFrame, specs: Sequence[EditSpec]) -> list[Claim]:
    """Every claim that a run of interventions speaks of; of several doses of an edit the smallest is judged.

    Example: `edit_claims(answers, specs_of(answers))[0].verdict`
    """
    return [claim for (edit, kind) in _STATEMENTS for claim in _judged(answers, specs, edit, kind)]


def _judged(answers: pd.DataFrame, specs: Sequence[EditSpec], edit: str, kind: str) -> Iterator[Claim]:
    doses = [spec for spec in specs if spec.name == edit and dict(spec.settings).get("to", "step0") == "step0"]
    if not doses:
        return
    spec = min(doses, key=lambda one: one.dose if isinstance(one.dose, int | float) else 0)
    own = answers[answers["kind"] == kind]
    for (model, data), some in own.groupby(["model", "data"], sort=False):
        found = _loss(some, spec)
        if found is not None:
            hurts = "not hurt" not in _STATEMENTS[edit, kind]
            part = Part(f"accuracy lost to {spec.label}, beyond its random control", found, LOSS, above=hurts)
            id = {"drop_anchors": f"{kind}-without-anchors", "pin_anchors": "anchors-held"}[edit]
            yield Claim(id, _STATEMENTS[edit, kind], f"{model}, {data}", (part,), "interventions-accuracy")


def _loss(some: pd.DataFrame, spec: EditSpec) -> Estimate | None:
    wide = some.pivot(index="id", columns="condition", values="accuracy")
    names = [spec.controlled(0).label, spec.label]
    if not all(name in wide.columns for name in names):
        return None
    pair = wide[names].dropna().to_numpy(dtype=np.float64)
    return estimate(pair[:, 0] - pair[:, 1]) if len(pair) else None
