"""Extreme tokens (methods §11): are anchors value drains and residual peaks, and which heads are dormant?"""

from __future__ import annotations

import warnings

import numpy as np
import xarray as xr

from floatlens.analysis.anchors import GROUPS, QueryGroup, anchors, present
from floatlens.analysis.description import Variable, Words
from floatlens.analysis.kernels import Bools, Floats, nanmean
from floatlens.analysis.registry import analysis
from floatlens.analysis.rules import DEFAULT_RULE
from floatlens.traces import Trace

__all__ = ["extremes"]

WORDS = Words(
    "Extreme tokens",
    "Are anchors drains?",
    reading="In autoregressive models a sink often has a tiny value (below 1 in the first panel), so attention on it "
    "has no effect, and a huge residual state (far above 1 in the second panel). Dormant heads give most of their "
    "attention to anchors and do little else.",
    method="By layer; means over the steps that have anchors.",
    variables={
        "value_ratio": Variable(
            "|v| of anchors ÷ median", "Value norm of anchors ÷ that of the median token; below 1 is a drain."
        ),
        "residual_ratio": Variable(
            "|x| of anchors ÷ median", "Residual norm of anchors ÷ that of the median token; far above 1 is a peak."
        ),
        "dormant": Variable(
            "dormant heads", "Share of heads with more than `dormant_above` of their attention on the anchors."
        ),
    },
)


@analysis("extremes", requires=("received", "value_norm", "residual_norm"), words=WORDS)
def extremes(
    trace: Trace, *, rule: str = DEFAULT_RULE, group: QueryGroup = "all", dormant_above: float = 0.5
) -> xr.Dataset:
    """Norms of anchors and dormant heads, by layer.

    Example: `fl.extremes(trace).value_ratio.mean`
    """
    found = anchors(trace, rule=rule, group=group)
    sets = found.by_layer().values  # (step, layer, key)
    here = np.broadcast_to(present(trace)[:, None], sets.shape)
    value = trace.data["value_norm"]
    value = value if "kv_head" in value.dims else value.expand_dims("kv_head", axis=2)
    ratios = [
        _ratio(np.asarray(value.values[:, :, h], dtype=np.float64), sets, here) for h in range(value.sizes["kv_head"])
    ]
    residual = np.asarray(trace.data["residual_norm"].values, dtype=np.float64)
    data = {
        "value_ratio": np.mean(ratios, axis=0),
        "residual_ratio": _ratio(residual, sets, here),
        "dormant": _dormant(trace, group, sets, dormant_above),
    }
    return xr.Dataset(
        {name: (("layer",), nanmean(values)) for name, values in data.items()},
        coords={"layer": found.share["layer"].values},
    )


def _ratio(norm: Floats, sets: Bools, here: Bools) -> Floats:
    """(step, layer): mean over anchors ÷ median over all; NaN without anchors."""
    with np.errstate(invalid="ignore", divide="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a layer without attention has no values
        mean = np.where(sets, norm, 0.0).sum(axis=-1) / sets.sum(axis=-1)
        return np.asarray(mean / np.nanmedian(np.where(here, norm, np.nan), axis=-1))


def _dormant(trace: Trace, group: QueryGroup, sets: Bools, above: float) -> Floats:
    """(step, layer): share of heads with more than `above` on the anchors; NaN without anchors."""
    received = trace.data[GROUPS[group]]
    received = received if "head" in received.dims else received.expand_dims("head", axis=2)
    mass = np.where(sets[:, :, None], received.values, 0.0).sum(axis=-1)
    return np.where(sets.any(axis=-1), (mass > above).mean(axis=-1), np.nan)
