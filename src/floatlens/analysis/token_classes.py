"""Token classes (methods §5): are anchors structural or content tokens, by layer, and more often than by chance?"""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from floatlens.analysis.anchors import QueryGroup, anchors, present
from floatlens.analysis.description import Variable, Words
from floatlens.analysis.kernels import Bools, Floats, nanmean
from floatlens.analysis.measure import Measure
from floatlens.analysis.registry import analysis
from floatlens.analysis.rules import DEFAULT_RULE
from floatlens.core.errors import FloatlensError
from floatlens.prompts.words import CLASSES, LEXICAL, STRUCTURAL, classify
from floatlens.traces import Trace

__all__ = ["classes_of", "token_classes"]

WORDS = Words(
    "Token classes",
    "Structure or content?",
    reading="Bars show which kinds of tokens the anchors are and where attention goes, beside the composition of the "
    "text (the last bar). A class that fills more of a layer's bar than of the last one is preferred there. The lines "
    "give the same as a ratio for structure (special tokens, punctuation, function words) and content (names, numbers, "
    "other words): above 1 is more than by chance.",
    method="By class and layer; means over steps. Enrichment is a share ÷ the class's share of the tokens present.",
    variables={
        "anchors": Variable("share of anchors", "Share of the rule's anchors, over the steps that have any."),
        "anchors_enrichment": Variable("enrichment of anchors", "`anchors` ÷ `tokens`.", "1 = chance"),
        "mass": Variable("share of attention", "Share of received attention."),
        "mass_enrichment": Variable("enrichment of attention", "`mass` ÷ `tokens`.", "1 = chance"),
        "tokens": Variable("share of tokens", "Share of the tokens present."),
        "structural": Variable(
            "enrichment of structure", "Enrichment of attention, the structural classes together.", "1 = chance"
        ),
        "lexical": Variable(
            "enrichment of content", "Enrichment of attention, the content classes together.", "1 = chance"
        ),
        "structural_anchors": Variable("enrichment of structure in anchors", "The same for anchors.", "1 = chance"),
        "lexical_anchors": Variable("enrichment of content in anchors", "The same for anchors.", "1 = chance"),
    },
)


@analysis("token_classes", requires=("received",), words=WORDS)
def token_classes(
    trace: Trace, *, rule: str = DEFAULT_RULE, group: QueryGroup = "all", measure: Measure = "attention"
) -> xr.Dataset:
    """Shares and enrichment of token classes, by class and layer.
    Example: `fl.token_classes(trace).mass_enrichment.mean  # model × class × layer`"""
    found = anchors(trace, rule=rule, group=group, measure=measure)
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


def classes_of(trace: Trace) -> Bools:
    """(class, step, key): the class of each position at each step; a masked position is a mask, whatever it becomes."""
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


def _shares(weight: Floats, member: Bools) -> Floats:
    """(class, step, layer): the part of the weight (step, layer, key) on each class; NaN where there is none at all."""
    summed = np.einsum("slk,csk->csl", weight, member.astype(np.float64))
    total = weight.sum(axis=-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.where(total > 0, summed / total, np.nan))


def _ratio(share: Floats, tokens: Floats) -> Floats:
    """Enrichment; NaN where a class is not present."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.where(tokens[..., None] > 0, share / tokens[..., None], np.nan))
