"""Claims about what retrieved documents are worth: the gain in points, as a share of the headroom, and the result.

The data sets of a run are pooled, each with the same weight. What twice the gain of autoregressive models would
exceed, no diffusion model can gain: then the claim is not judged.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import pandas as pd

from floatlens.analysis.intervals import (
    Estimate,
    average_of,
    average_share_difference,
    estimate,
    estimate_of,
    no_narrower_than_normal,
)
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
        helped = [compared.by_kind(values)[0] for values in sets.values()]  # (question, condition) of diffusion models
        parts = (
            MORE(average_of([_mean(mdm - TIMES * arm) for mdm, arm in gains])),
            LARGER(average_of([_mean(mdm - arm) for mdm, arm in gains])),
            GAIN(average_share_difference([(one[:, 1], one[:, 0]) for one in helped])),
        )
        yield compared.finding(parts, list(sets))


def _mean(values: Floats) -> Estimate:
    found = estimate(values)
    return no_narrower_than_normal(found, float(found.std / np.sqrt(found.n)))


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
        full = {name: _without_headroom(compared, values) for name, values in sets.items()}
        left = {name: values for name, values in sets.items() if not full[name]}
        reasons = "; ".join(f"{' and '.join(models)} on {name}" for name, models in full.items() if models)
        reason = f"no headroom, closed-book accuracy of at least {percent(CEILING)}: {reasons}" if reasons else ""
        if not left:
            yield compared.unjudged(reason, list(sets))
            continue
        mdms = len(compared.mdms)
        each = [estimate_of(values, partial(_share_difference, mdms=mdms)) for values in left.values()]
        found = average_of([no_narrower_than_normal(one, float(one.std)) for one in each])
        both = np.mean([_shares(values, mdms) for values in left.values()], axis=0)
        note = f"share of the headroom gained: diffusion {percent(both[0])}, autoregressive {percent(both[1])}"
        yield compared.finding((SHARE(found),), list(left), "; ".join(filter(None, [note, reason])))


def _without_headroom(compared: Comparison, values: Floats) -> list[str]:
    """The models that answer nearly everything without documents."""
    closed = values[:, :, 0].mean(axis=0)
    return [m for m, right in zip((*compared.mdms, *compared.arms), closed, strict=True) if right >= CEILING]


def _share_difference(values: Floats, mdms: int) -> float:
    mdm, arm = _shares(values, mdms)
    return mdm - arm


def _shares(values: Floats, mdms: int) -> tuple[float, float]:
    """Gain ÷ (1 − closed-book accuracy), mean of the first models and of the others; `values` are (question, model,
    condition)."""
    closed, rag = values.mean(axis=0).T
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.where(closed < 1, (rag - closed) / (1 - closed), np.nan)
    return float(share[:mdms].mean()), float(share[mdms:].mean())


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
            found = average_share_difference(right)
            yield compared.finding((ACCURACY(found),), list(sets))
