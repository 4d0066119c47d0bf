"""Why anchors win (methods §4): their advantage in q·k over the other keys, split into key norm and angle.

For each layer and head, after rotary; query head h reads key head h // (heads / key heads). Products are taken before
any mean over heads.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from floatlens.analysis.anchors import QueryGroup, anchors, present
from floatlens.analysis.description import Variable, Words
from floatlens.analysis.kernels import Bools, Floats, advantage, nanmean, split
from floatlens.analysis.registry import analysis
from floatlens.analysis.rules import DEFAULT_RULE
from floatlens.core.errors import FloatlensError
from floatlens.traces import Trace

__all__ = ["QKMaps", "key_norm_by_head", "kv_head_of", "qk", "qk_maps"]

_SIGMA = "The same in standard deviations of the other keys."
WORDS = Words(
    "Queries and keys",
    "Why do anchors win?",
    reading="Attention follows from q·k, and q·k from the length of a key and from its direction. Each line is the "
    "advantage of anchors over other tokens, split exactly into these two parts; above 0 the part helps. Long keys win "
    "with every query; direction wins where query and key fit.",
    method="By layer and head: anchors minus the other keys, means over the steps that have anchors.",
    variables={
        "dot": Variable("advantage in q·k", "Difference in q·k (unscaled)."),
        "dot_effect": Variable("advantage in q·k", _SIGMA, "σ"),
        "cos": Variable("advantage in cosine", "Difference in the cosine of q and k."),
        "cos_effect": Variable("advantage in cosine", _SIGMA, "σ"),
        "key_norm": Variable("advantage in |k|", "Difference in the key norm."),
        "key_norm_effect": Variable("advantage in |k|", _SIGMA, "σ"),
        "norm_part": Variable("by the norm of the key", "Part of `dot` due to the key's norm."),
        "angle_part": Variable(
            "by its direction", "Part of `dot` due to the key's direction; both parts sum to `dot`."
        ),
    },
)


@analysis("qk", requires=("received", "qk_dot", "qk_cos", "key_norm"), words=WORDS)
def qk(trace: Trace, *, rule: str = DEFAULT_RULE, group: QueryGroup = "all") -> xr.Dataset:
    """The advantage of anchors in q·k and its two parts, by layer and head.

    Example: `fl.qk(trace).angle_part.mean  # model × layer × head`
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


def key_norm_by_head(trace: Trace) -> Floats:
    """(step, layer, head, key): |k| of the key head that each query head of the trace reads, by its number."""
    norm = np.asarray(trace.data["key_norm"].values, dtype=np.float64)
    return norm[:, :, kv_head_of(trace, trace.data["head"].values)]


def kv_head_of(trace: Trace, head: NDArray[np.integer] | int) -> NDArray[np.integer] | int:
    """The key head that a query head reads, both by their numbers in the model; traces keep all key heads."""
    return head // int(trace.model["heads"] // trace.model["kv_heads"])


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


def qk_maps(trace: Trace, layer: int, head: int, step: int | None = None, *, rule: str = DEFAULT_RULE) -> QKMaps:
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
    marked = found.by_layer().sel(step=step, layer=layer).values
    with np.errstate(invalid="ignore", divide="ignore"):
        maps = dot, dot / norm, np.where(np.isnan(dot), np.nan, norm)
    return QKMaps(*maps, marked, trace.tokens, str(trace.model["ref"]), layer, head, step, str(found.rule))
