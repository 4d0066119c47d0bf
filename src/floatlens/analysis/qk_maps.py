"""Maps of q·k of one head (methods §4): the product, its angle and its norms, query × key, with the anchors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from floatlens.analysis.anchors import anchors
from floatlens.analysis.kernels import Bools, Floats, nanmean
from floatlens.analysis.qk import kv_head_of
from floatlens.core.errors import FloatlensError
from floatlens.traces import Trace

__all__ = ["QKMaps", "qk_maps"]


@dataclass(frozen=True, eq=False)
class QKMaps:
    """`dot`, `cos` and `norm` are (query, key); NaN where a query does not see a key. `anchors` is (key)."""

    dot: Floats
    cos: Floats
    norm: Floats
    anchors: Bools
    tokens: tuple[str, ...]
    model: str
    layer: int
    head: int
    step: int
    rule: str

    @property
    def ranked(self) -> tuple[int, ...]:
        """The anchors by their mean q·k over the queries that see them, largest first."""
        keys = np.flatnonzero(self.anchors)
        return tuple(keys[np.argsort(-nanmean(self.dot[:, keys]), kind="stable")].tolist())


def qk_maps(trace: Trace, layer: int, head: int, step: int | None = None, *, rule: str = "zscore") -> QKMaps:
    """The maps of one layer, head and step (by default the last that was kept), by their numbers in the model.

    Needs heatmaps: `fl.trace(…, probes=[*DEFAULT_PROBES, QK(heatmaps=Select(layers=[3], heads=[1], steps=[-1]))])`.
    Example: `fl.qk_maps(trace, layer=3, head=1)`
    """
    trace.require("qk_matrix", "query_norm", "key_norm", "received")
    kept = trace.data["qk_matrix"]
    step = int(kept["qk_matrix_step"].values[-1]) if step is None else step
    wanted = {"qk_matrix_layer": layer, "qk_matrix_head": head, "qk_matrix_step": step}
    for dim, number in wanted.items():
        have = kept[dim].values.tolist()
        if number not in have:
            raise FloatlensError(f"no q·k heatmap of {dim[10:]} {number}; the trace kept {dim[10:]} {have}")
    dot = np.asarray(kept.sel(wanted).values, dtype=np.float64)
    for dim, number in {"step": step, "layer": layer, "head": head}.items():
        have = trace.data["query_norm"][dim].values.tolist() if dim in trace.data["query_norm"].dims else []
        if number not in have:
            raise FloatlensError(f"no norms of {dim} {number}, so no angle; the trace kept {dim} {have or 'means'}")
    here = trace.data.sel(step=step, layer=layer)
    query = np.asarray(here["query_norm"].sel(head=head).values, dtype=np.float64)
    key = np.asarray(here["key_norm"].isel(kv_head=kv_head_of(trace, head)).values, dtype=np.float64)
    norm = query[:, None] * key
    if trace.data.attrs["causal"]:
        hidden = np.triu(np.ones(dot.shape, dtype=bool), k=1)
        dot, norm = (np.where(hidden, np.nan, x) for x in (dot, norm))
    found = anchors(trace, rule=rule)
    with np.errstate(invalid="ignore", divide="ignore"):
        cos = dot / norm
    return QKMaps(
        dot,
        cos,
        np.where(np.isnan(dot), np.nan, norm),
        found.by_layer().sel(step=step, layer=layer).values,
        trace.tokens,
        str(trace.model["ref"]),
        layer,
        head,
        step,
        str(found.rule),
    )
