"""Absorption (methods §3): how much of all attention a set of keys takes, beside what it would get for nothing.

Two views of every model, whatever its kind: `fixed` is the first position (BOS where the model has one), `floating` the
anchors of a rule. One definition for all, so that two models can be compared.
"""

from __future__ import annotations

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from floatlens.analysis.anchors import QueryGroup, anchors
from floatlens.analysis.kernels.motion import nanmean
from floatlens.analysis.registry import analysis
from floatlens.traces import Trace

__all__ = ["VIEWS", "absorption"]

Floats = NDArray[np.float64]
VIEWS = ("fixed", "floating")


@analysis("absorption", requires=("received",))
def absorption(trace: Trace, *, rule: str = "top1", group: QueryGroup = "all") -> xr.Dataset:
    """Percent of attention by view and layer: `absorbed`, the same under `uniform` attention, and the `excess` over it.

    Means over steps; for a rule that looks at each head, over heads as well. `anchors` is how many keys the set holds.

    Example: `fl.absorption(traces).group("scale:llada").estimate("excess").mean`
    """
    found = anchors(trace, rule=rule, group=group)
    share, sets = found.share.values, found.is_anchor.values  # (step, layer[, head], key)
    null = np.broadcast_to(found.null.values[(slice(None), *[None] * (share.ndim - 2))], share.shape)
    first = np.zeros_like(sets)
    first[..., 0] = True
    asked = ~np.isnan(share).all(axis=-1)  # an empty set of anchors absorbs nothing; without queries there is no number
    axes = (0, *range(2, asked.ndim))  # steps, and heads where there are any
    measured: dict[str, list[Floats]] = {name: [] for name in ("absorbed", "uniform", "excess", "anchors")}
    for chosen in (first, sets):
        absorbed, free = (np.where(chosen, 100 * x, 0.0).sum(axis=-1) for x in (share, null))
        found_by = {"absorbed": absorbed, "uniform": free, "excess": absorbed - free, "anchors": chosen.sum(axis=-1)}
        for name, values in found_by.items():
            measured[name].append(nanmean(np.where(asked, values, np.nan), axis=axes))
    data = {name: (("view", "layer"), np.stack(values)) for name, values in measured.items()}
    return xr.Dataset(data, coords={"view": list(VIEWS), "layer": found.share["layer"].values})
