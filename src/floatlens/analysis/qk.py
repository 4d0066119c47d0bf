"""Why anchors win (methods §4): their advantage in q·k over the other keys, split into key norm and angle.

Per layer and head, after rotary, grouped-query heads by h // (heads / key heads). Nothing is averaged over heads before
a product is taken.
"""

from __future__ import annotations

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from floatlens.analysis.anchors import QueryGroup, anchors, present
from floatlens.analysis.kernels.motion import nanmean
from floatlens.analysis.kernels.split import advantage, split
from floatlens.analysis.registry import analysis
from floatlens.core.errors import FloatlensError
from floatlens.traces import Trace

__all__ = ["key_norm_by_head", "kv_head_of", "qk"]


@analysis("qk", requires=("received", "qk_dot", "qk_cos", "key_norm"))
def qk(trace: Trace, *, rule: str = "zscore", group: QueryGroup = "all") -> xr.Dataset:
    """By layer and head: anchors less the other keys, means over the steps that have anchors.

    dot, cos, key_norm       the differences in q·k, cosine and |k|
    dot_effect …             the same in standard deviations of the other keys
    norm_part, angle_part    what the difference in q·k owes to the key's norm and to its direction; they sum to `dot`

    Example: `fl.qk(trace).group().estimate("angle_part").mean  # layer × head`
    """
    if trace.data.attrs["heads"] == "mean":
        raise FloatlensError(
            'this trace was made with heads="mean", and the parts of a mean are not the mean of the parts; '
            'trace again with heads="all"'
        )
    found = anchors(trace, rule=rule, group=group)
    chosen = found.is_anchor if "head" in found.is_anchor.dims else found.is_anchor.expand_dims("head", axis=2)
    dot, cos = (np.asarray(trace.data[name].values, dtype=np.float64) for name in ("qk_dot", "qk_cos"))
    norm = key_norm_by_head(trace)
    here = np.broadcast_to(present(trace)[:, None, None], dot.shape) & ~np.isnan(dot)
    picked = np.broadcast_to(chosen.values, dot.shape) & here
    others = here & ~picked
    parts = split(np.nan_to_num(dot), np.nan_to_num(norm), picked, others)
    measured = {"dot": parts.whole, "norm_part": parts.norm, "angle_part": parts.angle}
    for name, values in (("dot", dot), ("cos", cos), ("key_norm", norm)):
        gap, effect = advantage(np.nan_to_num(values), picked, others)
        measured |= {f"{name}_effect": effect} if name == "dot" else {name: gap, f"{name}_effect": effect}
    data = {name: (("layer", "head"), nanmean(values)) for name, values in measured.items()}
    return xr.Dataset(data, coords={"layer": found.share["layer"].values, "head": trace.data["head"].values})


def key_norm_by_head(trace: Trace) -> NDArray[np.float64]:
    """(step, layer, head, key): |k| of the key head that each query head of the trace reads, by its number."""
    norm = np.asarray(trace.data["key_norm"].values, dtype=np.float64)
    return norm[:, :, kv_head_of(trace, trace.data["head"].values)]


def kv_head_of(trace: Trace, head: NDArray[np.integer] | int) -> NDArray[np.integer] | int:
    """The key head that a query head reads, both by their numbers in the model; key heads are kept all."""
    group: int = trace.model["heads"] // trace.model["kv_heads"]
    return head // group
