"""Anchors of one trace (methods §1): received attention, the keys that stand out by a rule, and the uniform null."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
import xarray as xr

from floatlens.analysis.kernels import Bools, Floats, null_share, seen_by
from floatlens.analysis.measure import Measure, by_reach, mask_of_layer, spread, variable_of
from floatlens.analysis.rules import DEFAULT_RULE, Columns, Rule, as_rule, find_anchors
from floatlens.core.errors import FloatlensError, did_you_mean
from floatlens.traces import Trace

__all__ = ["GROUPS", "Anchors", "QueryGroup", "anchors", "columns_of", "head_mean", "present", "queries_of"]

QueryGroup = Literal["all", "masked", "committed", "answer"]
Normalise = Literal["share", "visible"]
GROUPS: dict[QueryGroup, str] = {
    "all": "received",
    "masked": "received_masked",
    "committed": "received_committed",
    "answer": "received_answer",
}
"""Query groups, and the trace variable with the attention that each gives."""


@dataclass(frozen=True, eq=False)
class Anchors:
    """Which keys are anchors, by step and layer (and head, if asked): `is_anchor` and `received` have the same dims.
    `share` is received attention as shares that sum to 1, `received` as it was asked for (`normalise`), `null` (step,
    key) what uniform attention would give as shares, by contribution (step, layer, key) where layers differ in reach.
    `measure` says what is received, `trace` is where it comes from."""

    trace: Trace
    rule: Rule
    group: QueryGroup
    normalise: Normalise
    received: xr.DataArray
    share: xr.DataArray
    is_anchor: xr.DataArray
    null: xr.DataArray
    measure: Measure = "attention"

    @property
    def provenance(self) -> dict[str, Any]:
        about = {"rule": str(self.rule), "group": self.group, "normalise": self.normalise, "measure": self.measure}
        return {"model": self.trace.model["ref"], **about}

    def __repr__(self) -> str:
        sizes = " ".join(f"{size} {dim}s" for dim, size in self.is_anchor.sizes.items())
        count = int(self.is_anchor.sum())
        return f"Anchors({self.trace.model['ref']}, {self.rule}, {self.group} queries: {count} anchors in {sizes})"

    def by_layer(self) -> xr.DataArray:
        """(step, layer, key): anchors of a layer; where they were found per head, of any of its heads."""
        return self.is_anchor.any("head") if "head" in self.is_anchor.dims else self.is_anchor

    def to_frame(self) -> pd.DataFrame:
        """One row per anchor: step, layer, (head,) key, token, region, received, share and null."""
        where = np.nonzero(self.is_anchor.values)
        rows: dict[str, Any] = {
            str(dim): self.is_anchor[dim].values[index] for dim, index in zip(self.is_anchor.dims, where, strict=True)
        }
        keys, texts = where[-1], self.trace.tokens
        rows["token"] = [texts[key] for key in keys] if texts else self.trace.data["final"].values[keys]
        rows["region"] = np.array(self.trace.regions)[self.trace.data["region_of"].values[keys]]
        rows["received"] = self.received.values[where]
        rows["share"] = self.share.values[where]
        rows["null"] = np.broadcast_to(spread(self.null.values, self.share.ndim), self.share.shape)[where]
        return pd.DataFrame(rows)


def anchors(
    trace: Trace,
    *,
    rule: str | Rule = DEFAULT_RULE,
    group: QueryGroup = "all",
    normalise: Normalise = "share",
    heads: Literal["mean", "each"] | None = None,
    or_top1: bool = False,
    measure: Measure = "attention",
) -> Anchors:
    """The anchors of a trace.

    `group` is whose attention counts, `normalise="visible"` divides by the number of queries that can see a key instead
    of all, `heads` says whether a rule looks at the mean over heads or at each (by default what the rule is made for).
    `measure` is "attention" or "contribution", which layers without attention have as well.

    Example: `anchors(trace, rule="robust(3)").to_frame().groupby("token").size()`
    """
    if group not in GROUPS:
        raise FloatlensError(f'group="{group}"{did_you_mean(group, GROUPS)}; give {", ".join(GROUPS)}')
    if normalise not in ("share", "visible"):
        raise FloatlensError(f'normalise="{normalise}"; give "share" or "visible"')
    if heads not in ("mean", "each", None):
        raise FloatlensError(f'heads="{heads}"; give "mean" or "each", or nothing for what the rule is made for')
    name = variable_of(measure, GROUPS[group])
    trace.require(name)
    found = as_rule(rule, or_top1=or_top1)
    each = heads == "each" or (heads is None and found.unit == "head")
    share = _per_head(trace, name) if each else head_mean(trace, name)
    columns = columns_of(trace, share.values, group, normalise, measure)
    null = _null(trace, group, measure)
    dims = ("step", "key") if null.ndim == 2 else ("step", "layer", "key")
    free = xr.DataArray(null, dims=dims, coords={dim: share[dim] for dim in dims})
    received, chosen = share.copy(data=columns.value), share.copy(data=find_anchors(found, columns))
    return Anchors(trace, found, group, normalise, received, share, chosen, free, measure)


def _null(trace: Trace, group: QueryGroup, measure: Measure) -> Floats:
    """(step, key), or (step, layer, key) where layers differ in reach: the share of each key under uniformity."""
    asking, here = queries_of(trace, group), present(trace)
    return by_reach(trace, measure, lambda reach: null_share(asking, here, **mask_of_layer(trace, reach)))


def columns_of(
    trace: Trace,
    share: Floats,
    group: QueryGroup,
    normalise: Normalise = "share",
    measure: Measure = "attention",
) -> Columns:
    """What rules look at, for shares (step, layer, …, key) of a trace, or (step, key) of the mean over its layers. By
    attention, dims between step and key can be any."""
    here, asking = present(trace), queries_of(trace, group)
    seen = by_reach(trace, measure, lambda reach: seen_by(asking, here, **mask_of_layer(trace, reach)))
    null = _null(trace, group, measure)
    if null.ndim > share.ndim:
        null, seen = null.mean(axis=1), seen.mean(axis=1)
    null, seen = (spread(one, share.ndim) for one in (null, seen))
    count = asking.sum(axis=-1).astype(np.float64)[(slice(None), *[None] * (share.ndim - 2))]
    with np.errstate(divide="ignore", invalid="ignore"):
        value = share * count[..., None] / seen if normalise == "visible" else share
    null, seen = (np.broadcast_to(one, share.shape) for one in (null, seen))
    here = np.broadcast_to(here[(slice(None), *[None] * (share.ndim - 2))], share.shape)
    return Columns(value, share, null, here, seen, np.broadcast_to(count, share.shape[:-1]))


def present(trace: Trace) -> Bools:
    """(step, key): where there is a token; autoregressive sequences grow."""
    return np.asarray(trace.data["sequence"].values >= 0)


def queries_of(trace: Trace, group: QueryGroup) -> Bools:
    """(step, key): the positions whose attention a group counts."""
    here, masked = present(trace), trace.masked
    if group == "masked":
        return masked
    if group == "committed":
        return here & ~masked
    if group == "answer":
        answer = trace.regions.index("answer") if "answer" in trace.regions else -1
        return np.asarray(here & (trace.data["region_of"].values == answer))
    return here


def head_mean(trace: Trace, variable: str) -> xr.DataArray:
    """A variable of a trace as float64 without its head dimension."""
    array = trace.data[variable]
    return _bare(array.mean("head", dtype=np.float64, skipna=False) if "head" in array.dims else array)


def _per_head(trace: Trace, variable: str) -> xr.DataArray:
    array = trace.data[variable]
    if "head" not in array.dims:
        raise FloatlensError('this trace was made with heads="mean"; trace again with heads="all" to look at each head')
    return _bare(array)


def _bare(array: xr.DataArray) -> xr.DataArray:
    """As float64, with no coordinates but those of its dimensions."""
    return array.astype(np.float64).drop_vars([name for name in array.coords if name not in array.dims])
