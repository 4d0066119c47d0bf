"""Claims about what retrieved documents are worth: the gain in points, as a share of the headroom, and the result.

The data sets of a run are pooled, each with the same weight. What twice the gain of autoregressive models would
exceed, no diffusion model can gain: then the claim is not judged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import numpy as np
import pandas as pd

from floatlens.analysis.intervals import estimate_of_sets, mean_of_means
from floatlens.analysis.kernels import Floats
from floatlens.claims.claim import Finding, Limit, claim
from floatlens.claims.compared import CEILING, Comparison, comparisons, percent
from floatlens.records.condition import CLOSED, RAG

__all__ = ["rag_accuracy", "rag_gain", "rag_headroom"]

TIMES = 2.0
"""How many times the gain of autoregressive models that of diffusion models is claimed to be, at least."""
MORE = Limit(f"accuracy gain, diffusion minus {TIMES:g} × autoregressive", 0.0, opposite=-np.inf)  # less is too small
LARGER = Limit("accuracy gain, diffusion minus autoregressive", 0.0)  # follows from the others; can contradict them
GAIN = Limit("accuracy gain of diffusion models", 0.0)  # without it, less harm would pass for help
SHARE = Limit("share of the headroom gained, diffusion minus autoregressive", 0.0)
ACCURACY = Limit("accuracy with documents, diffusion minus autoregressive", 0.0)
_claim = partial(claim, family="answers", figure="gains")


@_claim(
    "rag-gain",
    "Gain from documents",
    "retrieved documents help diffusion models at least twice as much as autoregressive ones",
    (MORE, LARGER, GAIN),
)
def rag_gain(answers: pd.DataFrame) -> Iterator[Finding]:
    for compared in comparisons(answers):
        sets = compared.paired([CLOSED, RAG])
        if not sets:
            continue
        gains = [compared.by_kind(values[:, :, 1] - values[:, :, 0]) for values in sets.values()]
        wanted = TIMES * np.mean([arm.mean() for _, arm in gains])
        left = 1 - np.mean([compared.by_kind(values[:, :, 0])[0].mean() for values in sets.values()])
        if wanted > left + 1e-9:
            gained = f"twice the autoregressive gain of {50 * wanted:.3g} points"
            yield compared.unjudged(f"{gained} exceeds the {100 * left:.3g} points left", list(sets))
            continue
        parts = (
            MORE(mean_of_means([mdm - TIMES * arm for mdm, arm in gains])),
            LARGER(mean_of_means([mdm - arm for mdm, arm in gains])),
            GAIN(mean_of_means([mdm for mdm, _ in gains])),
        )
        yield compared.finding(parts, list(sets), _headroom_note(compared, sets))


@_claim(
    "rag-gain (headroom)",
    "Gain from documents, of the headroom",
    "retrieved documents give diffusion models a larger share of what they could not answer than autoregressive ones",
    (SHARE,),
)
def rag_headroom(answers: pd.DataFrame) -> Iterator[Finding]:
    for compared in comparisons(answers):
        sets = compared.paired([CLOSED, RAG])
        if not sets:
            continue
        closed = np.mean([values[:, :, 0].mean(axis=0) for values in sets.values()], axis=0)
        full = [m for m, share in zip((*compared.mdms, *compared.arms), closed, strict=True) if share >= CEILING]
        if full:
            reason = f"no headroom, closed-book accuracy of at least {percent(CEILING)}: {', '.join(full)}"
            yield compared.unjudged(reason, list(sets))
            continue
        found = estimate_of_sets(list(sets.values()), partial(_share_difference, mdms=len(compared.mdms)))
        yield compared.finding((SHARE(found),), list(sets), _headroom_note(compared, sets))


def _share_difference(*sets: Floats, mdms: int) -> float:
    mdm, arm = _shares(sets, mdms)
    return mdm - arm


def _shares(sets: Sequence[Floats], mdms: int) -> tuple[float, float]:
    """Gain ÷ (1 − closed-book accuracy) of both kinds: of each model over all sets, then the mean of the models."""
    closed, rag = np.mean([values.mean(axis=0) for values in sets], axis=0).T
    with np.errstate(invalid="ignore", divide="ignore"):
        share = (rag - closed) / (1 - closed)
    return float(share[:mdms].mean()), float(share[mdms:].mean())


def _headroom_note(compared: Comparison, sets: Mapping[str, Floats]) -> str:
    mdm, arm = map(percent, _shares(list(sets.values()), len(compared.mdms)))
    return f"share of the headroom gained: diffusion {mdm}, autoregressive {arm}"


@_claim(
    "rag-accuracy",
    "Accuracy with documents",
    "with retrieved documents diffusion models answer more questions than autoregressive ones",
    (ACCURACY,),
)
def rag_accuracy(answers: pd.DataFrame) -> Iterator[Finding]:
    for compared in comparisons(answers):
        sets = compared.paired([RAG])
        if not sets:
            continue
        right = [compared.by_kind(values[:, :, 0]) for values in sets.values()]
        if np.mean([[side.mean() for side in both] for both in right], axis=0).min() >= CEILING:
            yield compared.unjudged(f"both kinds answer at least {percent(CEILING)} with documents", list(sets))
        else:
            yield compared.finding((ACCURACY(mean_of_means([mdm - arm for mdm, arm in right])),), list(sets))
