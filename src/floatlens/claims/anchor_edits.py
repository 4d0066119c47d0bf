"""Claims about what anchors are for: removing them, and holding them in place, compared with random controls.

The loss of accuracy is taken question by question, twice: from the control to the edit, which removes what moving this
much attention costs anywhere, and from the unedited answers, since a control may itself lose or gain. Only exposed
questions count: those whose unedited answer was not complete before the first step that the edit reaches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from floatlens.analysis.conditions import draws_of, edits_of, exposed
from floatlens.analysis.intervals import Estimate, share, share_difference
from floatlens.analysis.kernels import Floats
from floatlens.claims.claim import Finding, Limit, claim
from floatlens.records.condition import RAG, Edited

__all__ = ["anchors_held", "arm_without_anchors", "mdm_without_anchors"]

LOSS = 0.05
"""A model is hurt if it loses more than this share of its answers."""
MOVED = 0.01
"""An edit that moves less of the attention than this tests nothing."""
MATCHED = 0.5
"""A control by mass that moves less than this part of what the edit moves, or the edit less than this part of what it
moves, is no match: more attention costs more wherever it is taken. In simulations a control that moved 0.3 % of the
attention beside an edit that moved 15 % made "hurt" of what moving that much costs anywhere."""
_LOST = ("accuracy lost to {edit}, beyond its mass control", "accuracy lost to {edit}")
HURT = tuple(Limit(name, LOSS, opposite=0.0) for name in _LOST)
NOT_HURT = (
    *(Limit(name, LOSS, above=False) for name in _LOST),
    Limit("unedited accuracy", LOSS),  # a model that answers nothing has nothing to lose
)


@dataclass(frozen=True)
class _Scores:
    """Accuracies of the exposed questions, one number per question: means over the draws of a control."""

    edit: Edited
    unedited: Floats
    edited: Floats
    controls: dict[str, Floats]
    moved: dict[str, float]
    """Mean attention moved per row, by kind of control; "" is the edit itself. NaN where it was not recorded."""
    asked: int
    draws: int

    def lost(self, control: str = "") -> Estimate:
        """Accuracy lost to the edit: from the answers under a control, or from the unedited ones."""
        before = self.controls[control] if control else self.unedited
        return share_difference(before, self.edited, paired=True)


def _judge(
    kind: str, edit: str, k: int, limits: tuple[Limit, ...], rows: Sequence[str] = ("all",)
) -> Callable[[pd.DataFrame], Iterator[Finding]]:
    """The rule for each model of a kind and data set, on the dose of the edit nearest to `k`, and on the first of the
    row groups `rows` that the run has."""

    def judge(answers: pd.DataFrame) -> Iterator[Finding]:
        doses = [one for one in edits_of(answers) if one.name == edit and _is_general(dict(one.settings), rows)]
        if doses:
            chosen = min(doses, key=lambda one: _distance(dict(one.settings), k, rows))
            for (model, data), some in answers[answers["model_kind"] == kind].groupby(["model", "data"], sort=False):
                there = set(some["condition"])
                if RAG in there and chosen in there:
                    yield _finding(some, chosen, limits, f"{model}, {data}", str(model), rows)

    return judge


def _is_general(settings: dict[str, Any], rows: Sequence[str]) -> bool:
    """Whether the edit is what the claims are about: in all layers and steps, to step 0, and with some strength."""
    limited = {"on", "steps"} & settings.keys() or settings.get("rows", "all") not in rows
    return settings.get("to", "step0") == "step0" and not limited and settings.get("strength", 1.0) > 0


def _distance(settings: dict[str, Any], k: int, rows: Sequence[str]) -> tuple[float, float, float]:
    """How far an edit is from the judged one: by its rows, by k, then by strength."""
    return rows.index(settings.get("rows", "all")), abs(settings.get("k", k) - k), -settings.get("strength", 1.0)


def _finding(
    some: pd.DataFrame, edit: Edited, limits: tuple[Limit, ...], subject: str, model: str, rows: Sequence[str]
) -> Finding:
    found = _scores(some, edit)
    if found is None:
        why = f"{edit.label} was asked without its control by mass; continue the run (floatlens run or intervene)"
        return Finding.unjudged(subject, why, model)
    if not len(found.edited):
        why = f"no answer to any of {found.asked} questions was still open when {edit.label} set in"
        return Finding.unjudged(subject, f"{why}; ask for longer answers", model)
    if found.moved[""] < MOVED:
        why = f"{edit.label} changed {_percent(found.moved[''])} of the attention, less than {_percent(MOVED)}"
        return Finding.unjudged(subject, why, model)
    if min(found.moved[""], found.moved["mass"]) < MATCHED * max(found.moved[""], found.moved["mass"]):
        moved = [_percent(found.moved[kind]) for kind in ("", "mass")]
        why = f"{edit.label} changed {moved[0]} of the attention and its control by mass {moved[1]}, which is no match"
        return Finding.unjudged(subject, why, model)
    measured = (found.lost("mass"), found.lost(), share(found.unedited))
    parts = tuple(limit(one, edit=edit.label) for limit, one in zip(limits, measured, strict=False))
    return Finding(subject, parts, _note(found, rows), model)


def _scores(some: pd.DataFrame, edit: Edited) -> _Scores | None:
    """On the exposed questions with unedited, control and edited answers; None without a control by mass."""
    draws: dict[str, list[Edited]] = {
        one.control or "": drawn for one, drawn in draws_of(some).items() if one.edited == edit
    }
    if "mass" not in draws:
        return None
    wide = some.pivot(index="id", columns="condition", values="accuracy").astype(float)
    means = pd.DataFrame({"unedited": wide[RAG]} | {kind: wide[drawn].mean(axis=1) for kind, drawn in draws.items()})
    means = means.dropna()
    reached = means[means.index.isin(exposed(some, edit))]
    there = some[some["id"].isin(reached.index)]
    moved = {
        kind: float(there.loc[there["condition"].isin(drawn), "moved_share"].astype(float).mean())
        for kind, drawn in draws.items()
    }
    values = {name: reached[name].to_numpy(dtype=np.float64) for name in reached.columns}
    controls = {kind: values[kind] for kind in draws if kind}
    return _Scores(edit, values["unedited"], values[""], controls, moved, len(means), len(draws["mass"]))


def _note(found: _Scores, rows: Sequence[str]) -> str:
    """How it was measured, and what the control by count says."""
    words = [f"{len(found.edited)} of {found.asked} questions exposed"]
    moved = [_percent(found.moved[kind]) for kind in ("", "mass")]
    drawn = f" ({found.draws} draws)" if found.draws > 1 else ""
    words.append(f"attention moved: {moved[0]} by the edit, {moved[1]} by the mass control{drawn}")
    if "count" in found.controls:
        beyond = f"accuracy lost beyond the count control {found.lost('count'):.3g}"
        words.append(f"{beyond}, which moves {_percent(found.moved['count'])}")
    given = dict(found.edit.settings).get("rows", "all")
    if given != rows[0]:
        words.append(f"anchors of {given} rows; {found.edit.name}:rows={rows[0]} was not asked")
    return "; ".join(words)


def _percent(value: float) -> str:
    return "an unknown share" if np.isnan(value) else f"{100 * value:.2g} %"


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
)(_judge("mdm", "pin_anchors", 5, HURT, rows=("answer", "all")))  # 5: the default of the edit
