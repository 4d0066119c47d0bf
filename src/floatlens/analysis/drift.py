"""Temporal drift (methods §2): do anchors stay where they are while the model writes, and if not, where do they go?"""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from floatlens.analysis.anchors import GROUPS, QueryGroup, anchors, columns_of, head_mean, present
from floatlens.analysis.kernels import motion
from floatlens.analysis.registry import analysis
from floatlens.analysis.rules import find_anchors
from floatlens.traces import Trace

__all__ = ["drift", "frontier"]

Floats = NDArray[np.float64]


@analysis("drift", requires=("received",))
def drift(trace: Trace, *, rule: str = "zscore", group: QueryGroup = "all") -> xr.Dataset:
    """How anchors move over steps, for received attention averaged over layers, and `…_by_layer` for each.

    track         the key with the most attention, step by step; of one trace only, since traces differ in steps
    slope         positions per step of the track (Theil–Sen)
    jaccard       overlap of the anchor sets of consecutive steps; 1 is fixed
    lifetime      mean number of consecutive steps an anchor survives
    lifetime_share the same as a share of the steps, for runs of unlike length
    steps         how many steps were recorded, overall only
    distinct      how many keys are anchors at some step
    entropy       of received attention, 1 is spread evenly
    wasserstein   how far mass is carried per step, as a share of the sequence
    frontier      correlation of the track with the mean position committed at each step
    depth_jaccard overlap with the anchors of the layer before, by layer only; NaN where that one was not kept

    Example: `fl.drift(trace).slope`
    """
    found = anchors(trace, rule=rule, group=group)
    share = head_mean(trace, GROUPS[group]).values  # (step, layer, key)
    sets = found.by_layer().values
    layers = found.share["layer"].values
    whole = share.mean(axis=1)
    by_layer = _motion(trace, share, sets)
    overall = _motion(trace, whole, find_anchors(found.rule, columns_of(trace, whole, group)))
    data: dict[str, Any] = {name: ((), values) for name, values in overall.items()}
    data["steps"] = ((), float(len(sets)))
    data |= {f"{name}_by_layer": (("layer",), values) for name, values in by_layer.items()}
    depth = motion.nanmean(motion.jaccard(sets[:, 1:], sets[:, :-1]))
    depth[np.diff(layers) != 1] = np.nan
    data["depth_jaccard_by_layer"] = (("layer",), np.concatenate([[np.nan], depth]))
    data |= {"track": (("step",), motion.track(whole)), "track_by_layer": (("step", "layer"), motion.track(share))}
    return xr.Dataset(data, coords={"layer": layers, "step": found.share["step"].values})


def frontier(trace: Trace) -> Floats:
    """(step): mean position of the tokens that the pass of a step committed; NaN where it committed none."""
    steps = trace.data["step"].values
    where, when = trace.data["token_position"].values, trace.data["token_step"].values
    return np.array([where[when == step].mean() if (when == step).any() else np.nan for step in steps])


def _motion(trace: Trace, share: Floats, sets: NDArray[np.bool_]) -> dict[str, Floats]:
    """Every scalar, of arrays (step, …, key)."""
    here = present(trace)
    wide = here if share.ndim == 2 else here[:, None]
    track = motion.track(share)
    steps = trace.data["step"].values.astype(np.float64)
    return {
        "slope": motion.slope(track, steps),
        "jaccard": motion.nanmean(motion.jaccard(sets[1:], sets[:-1])) if len(sets) > 1 else _undefined(track),
        "lifetime": motion.lifetime(sets),
        "lifetime_share": motion.lifetime(sets) / len(sets),
        "distinct": motion.distinct(sets),
        "entropy": motion.nanmean(motion.entropy(share, np.broadcast_to(wide, share.shape))),
        "wasserstein": motion.nanmean(motion.wasserstein(share)) if len(sets) > 1 else _undefined(track),
        "frontier": motion.correlation(track, frontier(trace)),
    }


def _undefined(track: Floats) -> Floats:
    return np.full(track.shape[1:], np.nan)
