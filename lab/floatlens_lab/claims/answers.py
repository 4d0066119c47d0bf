"""Answer cases: answers frames with known probabilities, for claims about documents and about stress tests.

Questions have a difficulty: one that a model gets right under one condition is more often right under the others, and
for other models. Probabilities are those over all questions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
import pandas as pd
from scipy import special

from floatlens.records.condition import CLOSED, RAG, Condition, Stressed
from floatlens.records.frame import COLUMNS
from floatlens_lab.claims.cases import Case, Random, Truth
from floatlens_lab.claims.groups import Floats

__all__ = ["Key", "answer_cases", "frame", "right"]

Key = tuple[str, str, Condition]
"""Data set, model and condition of a column of scores."""
LIKE = 0.7
"""Correlation of the difficulty of a question with how it is answered once."""


@cache
def _rows(keys: tuple[Key, ...], n: int) -> pd.DataFrame:
    """The rows of a frame without scores; a model is called as its kind, with a number where there are several."""
    blank = dict.fromkeys(COLUMNS)
    rows = [
        {**blank, "data": data, "model": model, "model_kind": model[:3], "condition": condition}
        | {"kind": condition.kind, "index": i, "id": f"q{i}", "prediction": "x", "decided_at": (0, 1)}
        for data, model, condition in keys
        for i in range(n)
    ]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def frame(keys: Sequence[Key], scores: Floats) -> pd.DataFrame:
    """An answers frame of scores (question, key)."""
    flat = scores.T.ravel()
    return _rows(tuple(keys), len(scores)).assign(accuracy=flat, f1=flat, exact_match=flat)


def right(random: Random, n: int, p: Sequence[float], like: float = LIKE) -> Floats:
    """(question, column): 1 with probability `p` of the column, else 0; columns share the difficulty of a question."""
    difficulty = like * random.normal(size=(n, 1)) + np.sqrt(1 - like**2) * random.normal(size=(n, len(p)))
    with np.errstate(divide="ignore"):
        return np.asarray(difficulty < special.ndtri(np.asarray(p, dtype=np.float64)), dtype=np.float64)


@dataclass(frozen=True)
class World:
    """Probabilities by model under each condition; data sets beyond the first may have their own."""

    name: str
    truth: Truth
    p: Mapping[str, Sequence[float]]
    more: tuple[Mapping[str, Sequence[float]], ...] = ()


def _draw(random: Random, n: int, world: World, conditions: tuple[Condition, ...]) -> list[pd.DataFrame]:
    keys, scores = [], []
    for number, sets in enumerate((world.p, *world.more)):
        keys += [(f"set {number}", model, condition) for model in sets for condition in conditions]
        scores.append(right(random, n, [p for model in sets.values() for p in model]))
    return [frame(keys, np.concatenate(scores, axis=1))]


def _cases(claim: str, worlds: Sequence[World], conditions: Sequence[Condition]) -> Iterator[Case]:
    for world in worlds:
        draw = partial(_draw, world=world, conditions=tuple(conditions))
        yield Case(claim, world.name, world.truth, draw, effort=0.5 if world.truth == "neither" else 0.25)


def _two(mdm: Sequence[float], arm: Sequence[float]) -> dict[str, Sequence[float]]:
    return {"mdm": mdm, "arm": arm}


# -- what documents are worth: closed book, with documents ------------------------------------------------------------

GAIN = (
    World("three times the gain", "true", _two((0.2, 0.8), (0.2, 0.4))),
    World(
        "three times the gain, two models of each kind",
        "true",
        {"mdm 1": (0.2, 0.8), "mdm 2": (0.1, 0.5), "arm 1": (0.2, 0.4), "arm 2": (0.3, 0.4)},
    ),
    World("three data sets", "true", _two((0.2, 0.7), (0.2, 0.4)), (_two((0.1, 0.6), (0.1, 0.25)),) * 2),
    World("as LLaDA and Llama on NQ", "true", _two((0.118, 0.553), (0.157, 0.359))),  # 2.15 times
    World("exactly twice", "neither", _two((0.2, 0.6), (0.2, 0.4))),
    World("exactly twice, of little", "neither", _two((0.05, 0.15), (0.05, 0.1))),
    World(
        "exactly twice, one data set at the ceiling",
        "neither",
        _two((0.1, 0.5), (0.1, 0.3)),
        (_two((0.98, 1.0), (0.98, 0.99)),),
    ),
    World("the same gain", "neither", _two((0.2, 0.5), (0.2, 0.5))),  # more is not claimed, less is not so
    World("no gain", "neither", _two((0.4, 0.4), (0.4, 0.4))),
    World("documents harm, diffusion models less", "false", _two((0.5, 0.4), (0.5, 0.25))),
    World("half the gain", "false", _two((0.3, 0.4), (0.2, 0.5))),
    # 25 points are left, and twice the other gain would be 30: all right with documents is not enough.
    World("ceiling", "neither", _two((0.75, 1.0), (0.75, 0.9))),
    World("ceiling exactly at twice the gain", "neither", _two((0.6, 1.0), (0.6, 0.8))),
)
HEADROOM = (
    World("three times the share", "true", _two((0.2, 0.8), (0.2, 0.4))),
    World("the same share of other headrooms", "neither", _two((0.2, 0.6), (0.6, 0.8))),
    World("the same share, little headroom", "neither", _two((0.8, 0.9), (0.9, 0.95))),
    World("the same share, next to no headroom", "neither", _two((0.95, 0.97), (0.9, 0.94))),
    World("no gain", "neither", _two((0.4, 0.4), (0.7, 0.7))),
    World(
        "the same share, three data sets", "neither", _two((0.2, 0.6), (0.6, 0.8)), (_two((0.1, 0.4), (0.4, 0.6)),) * 2
    ),
    World("a third of the share", "false", _two((0.2, 0.4), (0.2, 0.8))),
    World("a smaller share, more points", "false", _two((0.1, 0.5), (0.7, 0.95))),
)
ACCURACY = (
    World("90 and 60 %", "true", _two((0.9,), (0.6,))),
    World("60 and 45 %", "true", _two((0.6,), (0.45,))),
    World("equal, 50 %", "neither", _two((0.5,), (0.5,))),
    World("equal, 95 %", "neither", _two((0.95,), (0.95,))),
    World("equal, 5 %", "neither", _two((0.05,), (0.05,))),
    World("equal, both at the ceiling", "neither", _two((0.995,), (0.995,))),
    World("equal, three data sets", "neither", _two((0.5,), (0.5,)), (_two((0.9,), (0.9,)), _two((0.2,), (0.2,)))),
    World("equal on average, two data sets", "neither", _two((0.8,), (0.6,)), (_two((0.4,), (0.6,)),)),
    World("60 and 90 %", "false", _two((0.6,), (0.9,))),
)


# -- stress tests -----------------------------------------------------------------------------------------------------

NOISE = (
    *(Stressed(test="noise", series="noise", x=x, point=f"{x:g}") for x in (0.0, 0.2, 0.4, 0.6, 0.8)),
    Stressed(test="clean", series="clean", x=0.0, point=""),
)
PLACES = tuple(
    Stressed(test="position", series="position", x=float(i), point=f"{i + 1} of 10") for i in (0, 2, 4, 7, 9)
)
LAYOUTS = tuple(
    Stressed(test="layout", series="layout", x=float(i), point=name)
    for i, name in enumerate(("adjacent", "scattered", "reversed", "split"))
)
_FALLING = (0.8, 0.65, 0.5, 0.35, 0.2, 0.85)
_HALF = tuple(p / 2 for p in _FALLING)
ROBUST_NOISE = (
    World("flat and falling", "true", _two((0.8, 0.79, 0.78, 0.77, 0.75, 0.82), _FALLING)),
    World("equal", "neither", _two(_FALLING, _FALLING)),
    World("the same loss from another level", "neither", _two(_HALF, _FALLING)),
    World("better everywhere, as robust", "neither", _two(_FALLING, _HALF)),
    World(
        "equal, near the ceiling",
        "neither",
        _two((0.97, 0.96, 0.95, 0.94, 0.93, 0.98), (0.97, 0.96, 0.95, 0.94, 0.93, 0.98)),
    ),
    World("both at the ceiling", "neither", _two((0.999,) * 6, (0.999,) * 6)),
    World(
        "equal, near the floor", "neither", _two((0.1, 0.09, 0.08, 0.07, 0.06, 0.1), (0.1, 0.09, 0.08, 0.07, 0.06, 0.1))
    ),
    World("one at the floor", "neither", _two((0.8, 0.78, 0.76, 0.74, 0.72, 0.82), (0.02,) * 6)),  # nothing to lose
    World("falling and flat", "false", _two(_FALLING, (0.8, 0.79, 0.78, 0.77, 0.75, 0.82))),
)
_EDGES = (0.9, 0.6, 0.4, 0.6, 0.9)
ROBUST_POSITION = (
    World("flat and lost in the middle", "true", _two((0.7,) * 5, _EDGES)),
    World("the same spread", "neither", _two(_EDGES, _EDGES)),
    World("the same spread, the other way round", "neither", _two(_EDGES, tuple(1 - p for p in _EDGES))),
    World("both flat, 60 and 95 %", "neither", _two((0.6,) * 5, (0.95,) * 5)),
    World("both flat, 95 and 60 %", "neither", _two((0.95,) * 5, (0.6,) * 5)),
    World("both flat, 10 and 50 %", "neither", _two((0.1,) * 5, (0.5,) * 5)),
    World("both at the ceiling", "neither", _two((0.999,) * 5, (0.999,) * 5)),
    World("one at the floor", "neither", _two((0.7,) * 5, (0.02,) * 5)),
    World("lost in the middle and flat", "false", _two(_EDGES, (0.7,) * 5)),
)
ROBUST_LAYOUT = (
    World("5 and 35 points lost", "true", _two((0.85, 0.8, 0.8, 0.8), (0.85, 0.5, 0.5, 0.5))),
    World("the same loss", "neither", _two((0.9, 0.7, 0.75, 0.65), (0.7, 0.5, 0.55, 0.45))),
    World("no loss, 95 and 50 %", "neither", _two((0.95,) * 4, (0.5,) * 4)),
    World("the same loss, near the ceiling", "neither", _two((0.98, 0.95, 0.95, 0.95), (0.98, 0.95, 0.95, 0.95))),
    World("both at the ceiling", "neither", _two((0.999,) * 4, (0.999,) * 4)),
    World("one at the floor", "neither", _two((0.8, 0.6, 0.6, 0.6), (0.02,) * 4)),
    World("35 and 5 points lost", "false", _two((0.85, 0.5, 0.5, 0.5), (0.85, 0.8, 0.8, 0.8))),
)


def answer_cases() -> list[Case]:
    """Every claim about documents and about stress tests."""
    return [
        *_cases("rag-gain", GAIN, (CLOSED, RAG)),
        *_cases("rag-gain (headroom)", HEADROOM, (CLOSED, RAG)),
        *_cases("rag-accuracy", ACCURACY, (RAG,)),
        *_cases("robust-noise", ROBUST_NOISE, NOISE),
        *_cases("robust-position", ROBUST_POSITION, PLACES),
        *_cases("robust-layout", ROBUST_LAYOUT, LAYOUTS),
    ]
