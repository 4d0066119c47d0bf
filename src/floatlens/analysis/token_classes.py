"""Token classes (methods §5): do anchors stand on structure or on content, layer by layer, and more than by chance?"""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from floatlens.analysis.anchors import QueryGroup, anchors, present
from floatlens.analysis.kernels.motion import nanmean
from floatlens.analysis.registry import analysis
from floatlens.core.errors import FloatlensError
from floatlens.prompts.words import CLASSES, LEXICAL, STRUCTURAL, classify
from floatlens.traces import Trace

__all__ = ["classes_of", "token_classes"]


@analysis("token_classes", requires=("received",))
def token_classes(trace: Trace, *, rule: str = "zscore", group: QueryGroup = "all") -> xr.Dataset:
    """By class and layer, means over steps: shares, and enrichment = share ÷ the class's share of the tokens present.

    anchors, anchors_enrichment   of the anchors of the rule; over steps that have any
    mass, mass_enrichment         of received attention
    tokens                        the class's share of the tokens present
    structural, lexical           the same mass enrichment for the classes taken together, by layer
    structural_anchors …          and for anchors

    Example: `fl.token_classes(trace).group().estimate("mass_enrichment").mean  # class × layer`
    """
    found = anchors(trace, rule=rule, group=group)
    member = classes_of(trace)  # (class, step, key)
    share, sets = found.share.values, found.is_anchor.values.astype(np.float64)
    if share.ndim == 4:  # rules that look at each head
        share, sets = share.mean(axis=2), sets.mean(axis=2)
    share = np.nan_to_num(share)
    tokens = member.sum(axis=-1) / present(trace).sum(axis=-1)  # (class, step)
    measured = {"mass": _shares(share, member), "anchors": _shares(sets, member)}
    data: dict[str, Any] = {name: (("class", "layer"), nanmean(values, axis=1)) for name, values in measured.items()}
    data |= {
        f"{name}_enrichment": (("class", "layer"), nanmean(_ratio(values, tokens), axis=1))
        for name, values in measured.items()
    }
    data["tokens"] = (("class",), nanmean(tokens, axis=1))
    for name, classes in (("structural", STRUCTURAL), ("lexical", LEXICAL)):
        rows = [CLASSES.index(one) for one in classes]
        for suffix, values in (("", measured["mass"]), ("_anchors", measured["anchors"])):
            ratio = _ratio(values[rows].sum(axis=0, keepdims=True), tokens[rows].sum(axis=0, keepdims=True))
            data[f"{name}{suffix}"] = (("layer",), nanmean(ratio, axis=1)[0])
    return xr.Dataset(data, coords={"class": list(CLASSES), "layer": found.share["layer"].values})


def classes_of(trace: Trace) -> NDArray[np.bool_]:
    """(class, step, key): which class a position has at each step; a masked one is a mask, whatever it becomes."""
    if not trace.tokens:
        raise FloatlensError(
            f"this trace of {trace.model['ref']} holds no token texts, so its tokens have no classes; "
            f"trace a model that comes with a tokenizer"
        )
    special = {trace.model["bos_id"], *trace.model["eos_ids"]} - {None}
    kinds = classify(trace.tokens, trace.data["final"].values.tolist(), special)
    numbers = np.array([CLASSES.index(kind) for kind in kinds])
    masked, here = trace.masked, present(trace)
    at_step = np.where(masked, CLASSES.index("mask"), numbers)
    return np.asarray((at_step[None] == np.arange(len(CLASSES))[:, None, None]) & here)


def _shares(weight: NDArray[np.float64], member: NDArray[np.bool_]) -> NDArray[np.float64]:
    """(class, step, layer): the part of the weight (step, layer, key) on each class; NaN where there is none at all."""
    summed = np.einsum("slk,csk->csl", weight, member.astype(np.float64))
    total = weight.sum(axis=-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.where(total > 0, summed / total, np.nan))


def _ratio(share: NDArray[np.float64], tokens: NDArray[np.float64]) -> NDArray[np.float64]:
    """Enrichment; NaN where a class is not present."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.where(tokens[..., None] > 0, share / tokens[..., None], np.nan))
