"""A map of one trace (methods §2): received attention of a layer, step × key, with its anchors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from floatlens.analysis.anchors import Anchors, anchors, columns_of, present
from floatlens.analysis.kernels import Bools, Floats
from floatlens.analysis.rules import find_anchors
from floatlens.core.errors import FloatlensError
from floatlens.traces import Trace

__all__ = ["AnchorMap", "anchor_map"]


@dataclass(frozen=True, eq=False)
class AnchorMap:
    """`values` and `anchors` are (step, key); values are NaN where no token is. `source` are the anchors shown."""

    values: Floats
    anchors: Bools
    steps: tuple[int, ...]
    layer: int | None
    source: Anchors

    @property
    def ranked(self) -> tuple[int, ...]:
        """The keys that are anchors at some step, by the most they receive then, largest first."""
        strength = np.where(self.anchors, self.values, -np.inf).max(axis=0)
        return tuple(int(key) for key in np.argsort(-strength, kind="stable") if np.isfinite(strength[key]))


def anchor_map(of: Anchors | Trace, layer: int | None = None) -> AnchorMap:
    """The map of one layer, or of the mean over layers with the anchors of the mean by the same rule.

    A trace is shown with the anchors of `zscore`.

    Example: `anchor_map(fl.anchors(trace, rule="top1"), layer=0).values`
    """
    found = anchors(of) if isinstance(of, Trace) else of
    received, share = (x.mean("head") if "head" in x.dims else x for x in (found.received, found.share))
    if layer is None:
        mean = share.mean("layer", skipna=False).values
        columns = columns_of(found.trace, mean, found.group, found.normalise)
        marked, values = find_anchors(found.rule, columns), columns.value
    else:
        layers = [int(one) for one in received["layer"].values]
        if layer not in layers:
            raise FloatlensError(f"no layer {layer} in this trace; it holds {', '.join(map(str, layers))}")
        marked, values = found.by_layer().sel(layer=layer).values, received.sel(layer=layer).values
    steps = tuple(int(step) for step in received["step"].values)
    return AnchorMap(np.where(present(found.trace), values, np.nan), np.asarray(marked), steps, layer, found)
