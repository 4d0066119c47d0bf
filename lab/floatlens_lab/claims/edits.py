"""Edit cases: answers under an edit of anchors and its controls, with known losses.

An edit leaves most answers as they are: with probability `again` a question is answered anew, else as without the edit.
Controls are drawn three times, as in records; questions whose answer was complete before the edit keep it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd

from floatlens.records.condition import RAG, Condition, Edited
from floatlens_lab.claims.answers import Key, frame, right
from floatlens_lab.claims.cases import Case, Random, Truth
from floatlens_lab.claims.groups import Floats

__all__ = ["edit_cases"]

SEEDS = (0, 1, 2)
DROP = Edited(name="drop_anchors", settings=(("k", 1),))
PIN = Edited(name="pin_anchors", settings=(("to", "step0"), ("k", 5), ("rows", "answer")))


@dataclass(frozen=True)
class World:
    """Accuracies without the edit, under its control by mass and under the edit, of exposed questions. `again` is the
    part of the answers that are given anew, at least; `exposed` the part of the questions that the edit reaches, and
    `moved` the attention that edit and control move."""

    name: str
    truth: Truth
    unedited: float
    control: float
    edited: float
    again: float = 0.1
    exposed: float = 1.0
    moved: tuple[float, float] = (0.15, 0.14)


def _changed(random: Random, before: Floats, old: float, new: float, again: float) -> Floats:
    """Answers with accuracy `new` where they had `old`: enough of them are given anew, all at one rate."""
    least = (new - old) / (1 - old) if new > old else (old - new) / old if old else 0.0
    part = max(again, least)
    rate = old + (new - old) / part if part else old
    fresh = random.random(len(before)) < part
    return np.where(fresh, random.random(len(before)) < np.clip(rate, 0, 1), before).astype(np.float64)


def _draw(random: Random, n: int, world: World, edit: Edited, kind: str) -> list[pd.DataFrame]:
    unedited = right(random, n, [world.unedited])[:, 0]
    reached = random.random(n) < world.exposed
    columns: dict[Condition, Floats] = {RAG: unedited}
    for one, new in ((None, world.edited), *((seed, world.control) for seed in SEEDS)):
        condition = edit if one is None else edit.model_copy(update={"control": "mass", "seed": one})
        made = _changed(random, unedited, world.unedited, new, world.again)
        columns[condition] = np.where(reached, made, unedited)
    keys: list[Key] = [("set", kind, condition) for condition in columns]
    found = frame(keys, np.stack([*columns.values()], axis=1))
    steps = [(0, 1) if one else (0,) for one in reached] * len(columns)
    edits = (found["kind"] == "edit").to_numpy()
    share = np.repeat([np.nan, world.moved[0], *[world.moved[1]] * len(SEEDS)], n)
    jitter = random.lognormal(-0.02, 0.2, len(found))
    first = np.where(edits, 1.0, np.nan)
    return [found.assign(decided_at=pd.Series(steps), earliest_step=first, moved_share=share * jitter)]


_UNREACHED: tuple[World, ...] = (
    World("all answers complete before the edit", "neither", 0.8, 0.8, 0.2, exposed=0.0),
    World("next to nothing moved", "neither", 0.8, 0.8, 0.6, moved=(0.004, 0.004)),
)
HURT = (
    World("hurt", "true", 0.8, 0.75, 0.25),
    World("hurt, 70 % of the questions exposed", "true", 0.8, 0.75, 0.25, exposed=0.7),
    World("beyond the control at the limit", "neither", 0.9, 0.7, 0.65),
    World("from the unedited answers at the limit", "neither", 0.7, 0.9, 0.65),
    World("both at the limit", "neither", 0.8, 0.8, 0.75),
    World("both at the limit, ceiling", "neither", 1.0, 1.0, 0.95),
    World("costs as much anywhere", "neither", 0.9, 0.5, 0.5),
    World("nothing lost", "neither", 0.8, 0.8, 0.8),
    World("no answer changes", "neither", 0.8, 0.8, 0.8, again=0.0),
    World("nothing lost, ceiling", "neither", 1.0, 1.0, 1.0),
    # What moving 15 % of the attention costs anywhere is not known: the control moved 0.3 %.
    World("control of another mass", "neither", 0.9, 0.9, 0.5, moved=(0.15, 0.003)),
    World("a gain", "false", 0.5, 0.5, 0.8),
    *_UNREACHED,
)
NOT_HURT = (
    World("tolerated", "true", 0.85, 0.8, 0.85),
    World("no answer changes", "true", 0.85, 0.85, 0.85, again=0.0),
    World("both at the limit", "neither", 0.8, 0.8, 0.75),
    World("both at the limit, ceiling", "neither", 1.0, 1.0, 0.95),
    World("beyond the control at the limit", "neither", 0.7, 0.8, 0.75),
    World("from the unedited answers at the limit", "neither", 0.9, 0.5, 0.85),
    World("unedited accuracy at the limit", "neither", 0.05, 0.05, 0.05, again=0.0),
    World("control of another mass", "neither", 0.85, 0.2, 0.8, moved=(0.03, 0.3)),
    World("hurt", "false", 0.8, 0.75, 0.25),
    World("both collapse", "false", 0.9, 0.3, 0.3),
    World("nothing to lose", "false", 0.01, 0.01, 0.01),
    *_UNREACHED,
)


def edit_cases() -> list[Case]:
    """Every claim about edits of anchors."""

    def made() -> Iterator[Case]:
        for claim, kind, edit, worlds in (
            ("arm-without-anchors", "arm", DROP, HURT),
            ("mdm-without-anchors", "mdm", DROP, NOT_HURT),
            ("anchors-held", "mdm", PIN, HURT),
        ):
            for world in worlds:
                draw = partial(_draw, world=world, edit=edit, kind=kind)
                yield Case(claim, world.name, world.truth, draw, effort=0.5 if world.truth == "neither" else 0.25)

    return list(made())
