"""Logit lens over denoising (methods §12a): in which layer, and how many steps early, is a token decided?"""

from __future__ import annotations

import warnings
from itertools import pairwise

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from floatlens.analysis.deciding import answer_tokens
from floatlens.analysis.description import Variable, Words
from floatlens.analysis.kernels import Floats, nanmean
from floatlens.analysis.registry import analysis
from floatlens.core.errors import FloatlensError
from floatlens.traces import Trace

__all__ = ["BEFORE", "lens"]

_FIRST = (0, 1, 2, 3, 5, 9, 17, 33)
BEFORE = (*(f"{a}" if b == a + 1 else f"{a}\N{EN DASH}{b - 1}" for a, b in pairwise(_FIRST)), f"{_FIRST[-1]}+")
"""Steps before the token is committed, in classes: traces differ in steps."""
WORDS = Words(
    "Logit lens",
    "When is a token decided?",
    reading="Each map shows how often the token that is finally placed is already the first choice: by layer (whose "
    "output is read through the final norm and head) and by the number of steps before the token is committed. The "
    "lines show the pass that commits it: an early rise means that shallow layers decide.",
    method="Over the answer tokens before the first EOS, each in all passes up to the one that commits it (0 steps "
    "before). An autoregressive model has only that one.",
    variables={
        "first": Variable("first choice", "Share of tokens with rank 1."),
        "rank": Variable("rank", "Median rank of the final token; 1 is the first choice."),
        "logp": Variable("log probability", "Mean log probability of the final token.", "nats"),
        "depth": Variable(
            "decision depth",
            "Share of the layers after which the token is first and stays so to the last layer, over the tokens that "
            "are first there.",
        ),
        "settled": Variable(
            "settled early",
            "Share of the passes before the one that commits a token in which it is first in the last layer without "
            "interruption up to there.",
        ),
    },
)


@analysis("lens", requires=("lens_rank", "lens_logp"), words=WORDS, optional=True)
def lens(trace: Trace, *, tokens: str = "text") -> xr.Dataset:
    """Rank and probability of the tokens finally placed, by layer and steps before. `tokens="all"` counts EOS as well.

    Example: `fl.lens(fl.trace(model, question="Who?", gen_length=4, probes=["lens"])).depth.mean`
    """
    if tokens not in ("text", "all"):
        raise FloatlensError(f'tokens="{tokens}"; give "text" (before the first EOS) or "all"')
    chosen = answer_tokens(trace) if tokens == "text" else slice(None)
    rank = trace.data["lens_rank"].values[:, chosen].astype(np.float64)  # (steps before, token, layer)
    rank[rank < 0] = np.nan
    logp = trace.data["lens_logp"].values[:, chosen].astype(np.float64)
    layers = trace.data["layer"].values
    last = int(layers[-1]) == trace.model["layers"] - 1  # of a selection without it nothing is known to be decided
    first = np.where(np.isnan(rank), np.nan, rank == 1)
    depth = _depth(first, (layers + 1) / trace.model["layers"]) if last else np.full(rank.shape[:2], np.nan)
    parts = [slice(a, b) for a, b in zip(_FIRST, (*_FIRST[1:], None), strict=True)]
    data = {
        "first": (("layer", "before"), np.stack([nanmean(first[part], axis=(0, 1)) for part in parts], axis=-1)),
        "rank": (("layer", "before"), np.stack([_median(rank[part]) for part in parts], axis=-1)),
        "logp": (("layer", "before"), np.stack([nanmean(logp[part], axis=(0, 1)) for part in parts], axis=-1)),
        "depth": (("before",), np.array([nanmean(depth[part], axis=(0, 1)) for part in parts])),
        "settled": ((), _settled(first[..., -1], trace.data["token_step"].values[chosen]) if last else np.nan),
    }
    return xr.Dataset(data, coords={"layer": layers, "before": list(BEFORE)})


def _median(rank: Floats) -> Floats:
    """(layer): the median over steps and tokens; NaN, without a warning, where there are none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return np.asarray(np.nanmedian(rank, axis=(0, 1)))


def _depth(first: Floats, depths: Floats) -> Floats:
    """(steps before, token): the depth from which a token is first to the end; NaN where it is not first there."""
    stays = np.flip(np.cumprod(np.flip(np.nan_to_num(first), -1), axis=-1), -1).sum(axis=-1).astype(np.intp)
    return np.where(stays > 0, depths[np.minimum(len(depths) - stays, len(depths) - 1)], np.nan)


def _settled(first: Floats, step: NDArray[np.integer]) -> float:
    """Mean over tokens of the passes just before its own in which a token is first, ÷ all before its own. `first` is
    (steps before, token), `step` (token) the step that commits it; tokens with an earlier pass that is not known, or
    without any, are left out."""
    found = []
    for token, waited in enumerate(step.tolist()):
        earlier = first[1 : waited + 1, token]
        if waited and len(earlier) == waited and not np.isnan(earlier).any():
            found.append(np.cumprod(earlier).sum() / waited)
    return float(np.mean(found)) if found else float("nan")
