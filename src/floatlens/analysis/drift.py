"""Drift (methods §2): do anchors stay where they are while the model writes, and if not, where do they go?"""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from floatlens.analysis import kernels
from floatlens.analysis.anchors import GROUPS, QueryGroup, anchors, columns_of, head_mean, present
from floatlens.analysis.description import Variable, Words
from floatlens.analysis.kernels import Bools, Floats, nanmean
from floatlens.analysis.registry import analysis
from floatlens.analysis.rules import DEFAULT_RULE, find_anchors
from floatlens.traces import Trace

__all__ = ["drift", "frontier"]


_BOTH = {
    "slope": Variable(
        "anchor speed", "Slope (Theil–Sen) of the track over steps; above 0 is to the right.", "positions per step"
    ),
    "jaccard": Variable(
        "anchor stability",
        "Jaccard overlap of the anchor sets of consecutive steps; 1 = fixed.",
        "Jaccard, step to step",
    ),
    "lifetime": Variable("anchor lifetime", "Mean number of consecutive steps an anchor survives.", "steps"),
    "lifetime_share": Variable(
        "anchor lifetime", "The same as a share of all steps, to compare runs of unlike length."
    ),
    "distinct": Variable("distinct anchors", "Number of keys that are an anchor at some step."),
    "entropy": Variable("spread of attention", "Normalised entropy of received attention; 1 = uniform.", "1 = uniform"),
    "wasserstein": Variable("mass moved", "Distance that attention mass moves per step, as a share of the sequence."),
    "frontier": Variable(
        "follows the frontier", "Correlation of the track with the mean position committed at each step."
    ),
}
WORDS = Words(
    "Drift",
    "Do anchors stay where they are?",
    reading="Anchors are the tokens that receive far more attention than the rest. In the first panel, 1 means that a "
    "step has the same anchors as the step before; lower values mean that anchors come and go. The slope is the "
    "direction of the strongest token: above 0 it moves to the right, towards the text being written. A short lifetime "
    "with an entropy near 1 means that nothing stands out enough to be called an anchor.",
    method="Each number is computed for received attention averaged over layers, and as `…_by_layer` for each layer.",
    variables={
        **_BOTH,
        "depth_jaccard_by_layer": Variable(
            "anchor stability over depth",
            "Jaccard overlap with the anchors of the layer before; undefined where that layer was not kept.",
            "Jaccard, layer to layer",
        ),
        "steps": Variable("steps", "Number of recorded steps."),
        "track": Variable("track", "The key with the most attention at each step; kept for a single trace only."),
    },
    aliases={f"{name}_by_layer": name for name in (*_BOTH, "track")},
)


@analysis("drift", requires=("received",), words=WORDS)
def drift(trace: Trace, *, rule: str = DEFAULT_RULE, group: QueryGroup = "all") -> xr.Dataset:
    """How anchors move over steps.

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
    depth = nanmean(kernels.jaccard(sets[:, 1:], sets[:, :-1]))
    depth[np.diff(layers) != 1] = np.nan
    data["depth_jaccard_by_layer"] = (("layer",), np.concatenate([[np.nan], depth]))
    data |= {"track": (("step",), kernels.track(whole)), "track_by_layer": (("step", "layer"), kernels.track(share))}
    return xr.Dataset(data, coords={"layer": layers, "step": found.share["step"].values})


def frontier(trace: Trace) -> Floats:
    """(step): mean position of the tokens committed at each step; NaN where there are none."""
    steps = trace.data["step"].values
    where, when = trace.data["token_position"].values, trace.data["token_step"].values
    return np.array([where[when == step].mean() if (when == step).any() else np.nan for step in steps])


def _motion(trace: Trace, share: Floats, sets: Bools) -> dict[str, Floats]:
    """All scalars, from arrays (step, …, key)."""
    here = present(trace)
    wide = here if share.ndim == 2 else here[:, None]
    track = kernels.track(share)
    undefined = np.full(track.shape[1:], np.nan)
    steps = trace.data["step"].values.astype(np.float64)
    return {
        "slope": kernels.slope(track, steps),
        "jaccard": nanmean(kernels.jaccard(sets[1:], sets[:-1])) if len(sets) > 1 else undefined,
        "lifetime": kernels.lifetime(sets),
        "lifetime_share": kernels.lifetime(sets) / len(sets),
        "distinct": kernels.distinct(sets),
        "entropy": nanmean(kernels.entropy(share, np.broadcast_to(wide, share.shape))),
        "wasserstein": nanmean(kernels.wasserstein(share)) if len(sets) > 1 else undefined,
        "frontier": kernels.correlation(track, frontier(trace)),
    }
