"""Claims about what anchors are for: removing them, and holding them in place, compared with random controls.

The loss of accuracy is taken question by question, twice: from the control to the edit, which removes what any change
of attention of this size costs, and from the unedited answers, since a control may itself lose or gain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from floatlens.analysis.conditions import edits_of
from floatlens.analysis.intervals import estimate
from floatlens.claims.claim import Finding, Limit, Part, claim
from floatlens.records.condition import RAG, Edited

__all__ = ["anchors_held", "arm_without_anchors", "mdm_without_anchors"]

LOSS = 0.05
"""A model is hurt if it loses more than this share of its answers."""
HURT = (Limit("accuracy lost to {edit}, beyond its random control", LOSS), Limit("accuracy lost to {edit}", LOSS))
NOT_HURT = (
    *(Limit(one.name, one.limit, above=False) for one in HURT),
    Limit("unedited accuracy", LOSS),  # a model that answers nothing has nothing to lose
)


def _judge(kind: str, edit: str, k: int, limits: tuple[Limit, ...]) -> Callable[[pd.DataFrame], Iterator[Finding]]:
    """The rule for each model of a kind and data set, on the dose of the edit nearest to `k`."""

    def judge(answers: pd.DataFrame) -> Iterator[Finding]:
        doses = [one for one in edits_of(answers) if one.name == edit and _is_general(dict(one.settings))]
        if doses:
            chosen = min(doses, key=lambda one: _distance(dict(one.settings), k))
            for (model, data), some in answers[answers["model_kind"] == kind].groupby(["model", "data"], sort=False):
                if parts := _parts(some, chosen, limits):
                    yield Finding(f"{model}, {data}", parts, model=str(model))

    return judge


def _is_general(settings: dict[str, Any]) -> bool:
    """Whether the edit is what the claims are about: in all layers and steps, to step 0, and with some strength."""
    limited = {"on", "steps"} & settings.keys()
    return settings.get("to", "step0") == "step0" and not limited and settings.get("strength", 1.0) > 0


def _distance(settings: dict[str, Any], k: int) -> tuple[float, float]:
    """How far an edit is from the judged one: by k, then by strength."""
    return abs(settings.get("k", k) - k), -settings.get("strength", 1.0)


def _parts(some: pd.DataFrame, edit: Edited, limits: tuple[Limit, ...]) -> tuple[Part, ...]:
    """On the questions with unedited, control and edited answers; () without them."""
    there = list(dict.fromkeys(some["condition"]))
    controls = [one for one in there if isinstance(one, Edited) and one.control is not None and one.edited == edit]
    if not controls or RAG not in there or edit not in there:
        return ()
    wide = some.pivot(index="id", columns="condition", values="accuracy")
    unedited, control, edited = wide[[RAG, controls[0], edit]].dropna().to_numpy(dtype=np.float64).T
    if not len(unedited):
        return ()
    found = (control - edited, unedited - edited, unedited)
    return tuple(limit(estimate(values), edit=edit.label) for limit, values in zip(limits, found, strict=False))


_edit_claim = partial(claim, family="edits", figure="edits-accuracy")
arm_without_anchors = _edit_claim(
    "arm-without-anchors", "Anchor removed, autoregressive", "removing its anchor hurts an autoregressive model", HURT
)(_judge("arm", "drop_anchors", 1, HURT))
mdm_without_anchors = _edit_claim(
    "mdm-without-anchors",
    "Anchors removed, diffusion",
    "removing its anchors does not hurt a diffusion model",
    NOT_HURT,
)(_judge("mdm", "drop_anchors", 1, NOT_HURT))
anchors_held = _edit_claim(
    "anchors-held", "Anchors held in place", "holding its anchors still hurts a diffusion model", HURT
)(_judge("mdm", "pin_anchors", 5, HURT))  # 5: the default of the edit
