"""Cacheability (methods §16): which keys and values could a server keep from one step to the next?"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from floatlens.analysis.anchors import present
from floatlens.analysis.description import Variable, Words
from floatlens.analysis.kernels import Bools, Floats, nanmean
from floatlens.analysis.registry import analysis
from floatlens.core.errors import FloatlensError
from floatlens.probes.shares import DISTANCES, SHARES
from floatlens.traces import Trace

__all__ = ["KINDS", "cacheability", "recall"]

KINDS = ("prompt", "committed", "fresh", "masked")
"""Positions by what they hold: the prompt, tokens committed before the step before, in it, and masks."""
_CLASSES = (*(f"{a}" if b == a + 1 else f"{a}\N{EN DASH}{b - 1}" for a, b in pairwise(DISTANCES)), f"{DISTANCES[-1]}+")
WORDS = Words(
    "Cacheability",
    "What could be cached?",
    reading="A cosine of 1 means that a key, value or state is the same as in the step before, so a cache loses "
    "nothing by keeping it. Tokens of the prompt usually change least, tokens that were just committed most. Where "
    "the column of the most attended key stays the same (near 1), so do the others [Elastic-Cache]; where few keys "
    "hold most of a row, the rest can be left out; where the first step already finds the keys that matter later "
    "(recall near 1), it can choose them [MAGE]; mass on masks far ahead is what is lost by leaving these out "
    "[Streaming-dLLM].",
    method="By layer; means over steps from the second on. Autoregressive keys never change.",
    variables={
        "key": Variable("reuse of keys", "Cosine of a position's key with that of the step before, by what it holds."),
        "value": Variable("reuse of values", "The same for its value."),
        "state": Variable("reuse of states", "The same for the state that enters the layer."),
        "turn": Variable(
            "turn of known positions",
            "Angle between the key of a position and that of the step before, or of its value where that is larger; "
            "mean over the prompt and tokens committed earlier.",
            "degrees",
        ),
        "steps": Variable("steps", "Steps of the trace."),
        "top": Variable(
            "drift of the top key",
            "Cosine, between two steps, of what masked rows give to the key most attended in the first of them.",
        ),
        "refresh": Variable("refreshes", "Share of the steps in which that cosine is below `below`."),
        **{
            f"keys_{share * 100:.0f}": Variable(f"keys for {share:.0%}", f"Fewest keys that hold {share:.0%} of a row.")
            for share in SHARES
        },
        "recall": Variable(
            "recall of the first step", "Share of the `k` keys that masked rows attend to most that the first step had."
        ),
        "chance": Variable("recall by chance", "The same for `k` random keys: k ÷ the keys of the first step."),
        "ahead": Variable("mass ahead", "Mass on masked positions after the row, by distance."),
    },
)


@analysis(
    "cacheability",
    requires=("key_reuse", "value_reuse", "state_reuse", "top_reuse", "mass_ahead", "received_masked"),
    words=WORDS,
    optional=True,
)
def cacheability(trace: Trace, *, k: int = 16, below: float = 0.9) -> xr.Dataset:
    """What changes from step to step, by layer, and by what a position holds.

    Example: `fl.cacheability(fl.trace(model, question="Who?", gen_length=4, probes=["received", "cacheability"]))`
    """
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise FloatlensError(f"k={k!r}: give a number of keys, a whole number from 1")
    if not 0 < below <= 1:
        raise FloatlensError(f"below={below!r}: give a cosine above 0, at most 1")
    kinds = _kinds(trace)
    top = _values(trace, "top_reuse")
    found, chance = _recall(trace, k)
    data = {
        **{
            name: (("held", "layer"), np.stack([_mean_over(_values(trace, f"{name}_reuse"), one) for one in kinds]))
            for name in ("key", "value", "state")
        },
        "turn": (("layer",), _turn(trace, kinds[0] | kinds[1])),
        "steps": ((), float(trace.data.sizes["step"])),
        "top": (("layer",), nanmean(top)),
        "refresh": (("layer",), nanmean(np.where(np.isnan(top), np.nan, top < below))),
        "recall": (("layer",), found),
        "chance": ((), chance),
        "ahead": (("layer", "distance"), nanmean(_values(trace, "mass_ahead"))),
        **{name: (("layer",), _by_layer(_values(trace, name))) for name in (f"keys_{100 * s:.0f}" for s in SHARES)},
    }
    coords = {"layer": trace.data["layer"].values, "held": list(KINDS), "distance": list(_CLASSES)}
    return xr.Dataset(data, coords=coords)


def _values(trace: Trace, name: str) -> Floats:
    return np.asarray(trace.data[name].values, dtype=np.float64)


def _by_layer(values: Floats) -> Floats:
    """(layer,) from (step, layer) or (step, layer, head)."""
    return nanmean(values if values.ndim == 2 else nanmean(values, axis=-1))


def _kinds(trace: Trace) -> list[Bools]:
    """(step, key) for each of `KINDS`; nothing in the first step and where the step before was not recorded."""
    ids, steps = trace.data["sequence"].values, trace.data["step"].values
    follows = np.concatenate([[False], np.diff(steps) == 1])[:, None]
    before = np.concatenate([ids[:1], ids[:-1]])
    there = (ids >= 0) & (before >= 0) & follows
    answer = trace.data["region_of"].values == trace.regions.index("answer")
    mask_id = trace.model["mask_id"]
    masked, was = (ids == mask_id, before == mask_id) if mask_id is not None else (np.zeros_like(there),) * 2
    masked, was = masked & answer, was & answer
    return [there & ~answer, there & answer & ~masked & ~was, there & ~masked & was, there & masked]


def _turn(trace: Trace, where: Bools) -> Floats:
    """(layer,): mean angle, in degrees, by which the key or value of a position turns from one step to the next."""
    cosines = np.minimum(_values(trace, "key_reuse"), _values(trace, "value_reuse"))
    return _mean_over(np.degrees(np.arccos(np.clip(cosines, -1, 1))), where)


def _mean_over(values: Floats, where: Bools) -> Floats:
    """(layer,): mean of (step, layer, key) over steps and keys of one kind."""
    return nanmean(np.where(where[:, None], values, np.nan).swapaxes(0, 1).reshape(values.shape[1], -1), axis=-1)


def _recall(trace: Trace, k: int) -> tuple[Floats, float]:
    """(layer,): how many of the `k` keys most attended by masked rows of later steps are among those of the first step
    of their block (a step with more positions than the one before begins a block); and the same by chance."""
    received = _values(trace, "received_masked")
    received = received if received.ndim == 4 else received[:, :, None]
    here = present(trace)
    starts = np.flatnonzero(np.concatenate([[True], here[1:].sum(-1) > here[:-1].sum(-1)]))
    shares, chances = [], []
    for first, last in zip(starts, [*starts[1:], len(here)], strict=True):
        keys = np.flatnonzero(here[first])
        if len(keys) <= k:
            continue
        for step in range(first + 1, last):
            shares.append(recall(received[first][..., keys], received[step][..., keys], k).mean(axis=-1))
            chances.append(k / len(keys))
    blank = np.full(received.shape[1], np.nan)
    return (nanmean(np.stack(shares)), float(np.mean(chances))) if shares else (blank, float("nan"))


def recall(first: Floats, later: Floats, k: int) -> Floats:
    """(…): share of the `k` largest of `later` (…, key) that are among the `k` largest of `first`; NaN without numbers.

    Example: `recall(np.array([3.0, 2, 1]), np.array([1.0, 3, 2]), 2)  # 0.5`
    """
    tops: list[NDArray[np.bool_]] = []
    for values in (first, later):
        at = np.argsort(-values, axis=-1, kind="stable")[..., :k]
        top = np.zeros(values.shape, dtype=bool)
        np.put_along_axis(top, at, True, axis=-1)
        tops.append(top)
    undefined = np.isnan(first).any(-1) | np.isnan(later).any(-1)
    return np.where(undefined, np.nan, (tops[0] & tops[1]).sum(-1) / k)
