"""Absorption (methods §3): how much of all attention a set of keys takes, compared with uniform attention.

Two views of each model, whatever its kind: `fixed` is the first position (BOS where the model has one), `floating` the
anchors of a rule. One definition for all models, so two of them can be compared.
"""

from __future__ import annotations

import numpy as np
import xarray as xr

from floatlens.analysis.anchors import QueryGroup, anchors
from floatlens.analysis.description import Variable, Words
from floatlens.analysis.kernels import Floats, nanmean
from floatlens.analysis.measure import Measure, spread
from floatlens.analysis.registry import analysis
from floatlens.traces import Trace

__all__ = ["VIEWS", "absorption"]

VIEWS = ("fixed", "floating")
WORDS = Words(
    "Absorption",
    "How much attention do anchors take?",
    reading="The percentage of all attention that lands on the first position (left) and on the anchors of each step "
    "(right), layer by layer. Thin dotted lines are what the same positions would get if attention were uniform: under "
    "a causal mask early tokens get more, so compare a line with its own dotted line before you compare two models.",
    method="By view and layer: `fixed` is the first position, `floating` the anchors of the rule. Means over steps; "
    "for a rule applied to each head, over heads as well.",
    variables={
        "absorbed": Variable("attention absorbed", "Share of all attention that lands on the set.", "%"),
        "uniform": Variable("under uniform attention", "What the set would get if attention were uniform.", "%"),
        "excess": Variable("excess over uniform", "`absorbed` minus `uniform`.", "percentage points"),
        "anchors": Variable("anchors", "Number of keys in the set."),
    },
)


@analysis("absorption", requires=("received",), words=WORDS)
def absorption(
    trace: Trace, *, rule: str = "top1", group: QueryGroup = "all", measure: Measure = "attention"
) -> xr.Dataset:
    """Attention absorbed by the first position and by the anchors, by layer.

    Example: `fl.absorption(traces).group("scale:llada").estimate("excess").mean`
    """
    found = anchors(trace, rule=rule, group=group, measure=measure)
    share, sets = found.share.values, found.is_anchor.values  # (step, layer[, head], key)
    null = np.broadcast_to(spread(found.null.values, share.ndim), share.shape)
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
