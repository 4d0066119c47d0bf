"""Flow (methods §7): how much of the answer comes from the gold document, directly and through all layers.

Measured in the rows that decided the tokens of the answer, without EOS: their attention, and their exact rollout over
tokens. The rollout between regions of the last pass is an approximation for an overview. A group is a model, a number
of documents and the position of the gold document (from 1), since regions differ.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import xarray as xr

from floatlens.analysis.anchors import present
from floatlens.analysis.deciding import answer_tokens, uniform_rows
from floatlens.analysis.description import Variable, Words
from floatlens.analysis.intervals import Estimate
from floatlens.analysis.kernels import Floats, nanmean, rollout, uniform_flow
from floatlens.analysis.measure import Measure, by_reach, mask_of_layer, variable_of
from floatlens.analysis.registry import analysis
from floatlens.analysis.result import Group
from floatlens.core.errors import FloatlensError
from floatlens.traces import Trace

__all__ = ["documents_of", "flow", "gold_lift", "gold_of", "token_rollout"]

_EVEN = "The same for uniform attention from the same rows: it follows from mask and document lengths."
WORDS = Words(
    "Flow to the answer",
    "Where does the answer come from?",
    reading="How much more of the answer comes from the gold document than from the others, divided by the same under "
    "uniform attention: above 1 the model prefers the gold document; flat lines mean that it does so at any position. "
    "Direct attention is what the rows look at when they decide a token; the rollout follows all paths through the "
    "layers. The maps show an approximation of the rollout between all regions: rows sum to 1, colours end at the "
    "largest share of a document, the framed column is the gold document.",
    method="In the deciding rows of the answer's tokens, without EOS; attention is a mean over heads. Masses are "
    "averaged over the tokens (direct attention: and over the layers) before they are divided.",
    variables={
        "direct_share": Variable("attention on the gold document", "Mass of the deciding rows on the gold document."),
        "direct_share_over_uniform": Variable(
            "attention on the gold document", "`direct_share` ÷ that of uniform attention.", "× uniform"
        ),
        "direct_lift": Variable("gold lift of attention", "Mass on the gold document ÷ mean of the other documents."),
        "direct_lift_uniform": Variable("gold lift under uniform attention", _EVEN),
        "direct_lift_over_uniform": Variable(
            "gold lift of attention", "`direct_lift` ÷ `direct_lift_uniform`.", "× uniform"
        ),
        "direct_log_lift": Variable(
            "gold lift of attention, natural logarithm",
            "ln `direct_lift_over_uniform`: 0 is even. Claims and figures average it over questions, since ratios are "
            "skewed.",
        ),
        "lift_by_layer": Variable(
            "gold lift of attention by layer", "`direct_lift_over_uniform` layer by layer.", "× uniform"
        ),
        "rollout_lift": Variable(
            "gold lift of the rollout",
            "In the exact rollout over tokens (identity added, rows normalised, all layers multiplied): gold document "
            "÷ mean of the other documents.",
        ),
        "rollout_lift_uniform": Variable("gold lift of the rollout under uniform attention", _EVEN),
        "rollout_lift_over_uniform": Variable(
            "gold lift of the rollout", "`rollout_lift` ÷ `rollout_lift_uniform`.", "× uniform"
        ),
        "rollout_log_lift": Variable(
            "gold lift of the rollout, natural logarithm", "ln `rollout_lift_over_uniform`: 0 is even."
        ),
        "region_attention": Variable(
            "attention between regions",
            "In the last pass, mean over layers, from one region's queries to another's keys; rows sum to 1.",
        ),
        "region_rollout": Variable(
            "rollout between regions (approximation)",
            "Rollout of `region_attention` by layer. It treats the tokens of a region as one, so it only approximates "
            "the rollout over tokens.",
        ),
        "region_rollout_lift": Variable(
            "gold lift of the rollout between regions (approximation)",
            "In `region_rollout`, from the answer: gold document ÷ mean of the other documents. Its row is the mean of "
            "all answer positions of the last pass, EOS included.",
        ),
        "region_rollout_lift_over_uniform": Variable(
            "gold lift of the rollout between regions (approximation)",
            "`region_rollout_lift` ÷ the same for uniform attention.",
            "× uniform",
        ),
    },
)


def documents_of(trace: Trace) -> list[str]:
    """Names of the document regions, in order."""
    return [name for name in trace.regions if name.startswith("doc")]


def gold_of(trace: Trace) -> int | None:
    """The position of the gold document, from 1; None without one."""
    gold = trace.data.attrs["prompt"].get("gold")
    return gold + 1 if isinstance(gold, int) and f"doc{gold + 1}" in trace.regions else None


def _condition(trace: Trace) -> dict[str, Any]:
    return {"model": trace.model["ref"], "documents": len(documents_of(trace)), "gold": gold_of(trace)}


@analysis("flow", requires=("flow", "answer_flow", "answer_rollout"), groups=_condition, words=WORDS)
def flow(trace: Trace, *, measure: Measure = "attention") -> xr.Dataset:
    """Attention and rollout of the rows that decided the answer, their gold lift, and the rollout between regions.

    Example: `fl.flow(traces).group("scale:llada", gold=2).estimate("direct_lift_over_uniform")`
    """
    regions = list(trace.regions)
    if "answer" not in regions:
        raise FloatlensError("this trace has no answer region; trace a question or a prompt")
    _need_all(trace, "region flow", "layer", trace.data.sizes["layer"])
    data = {**_deciding(trace, measure), **_between_regions(trace, measure)}
    layers = trace.data["layer"].values
    return xr.Dataset(data, coords={"from_region": regions, "region": regions, "layer": layers})


def _deciding(trace: Trace, measure: Measure) -> dict[str, Any]:
    """Numbers of the rows that decided the answer's tokens, of those that were recorded."""
    tokens = answer_tokens(trace)
    held, rolled_out = (trace.data[variable_of(measure, name)].values for name in ("answer_flow", "answer_rollout"))
    tokens = tokens[~np.isnan(held[tokens]).all(axis=(1, 2))]
    by_layer = nanmean(np.asarray(held[tokens], dtype=np.float64))  # (layer, region)
    through = nanmean(np.asarray(rolled_out[tokens, -1], dtype=np.float64))
    even_by_layer, even_through = (nanmean(rows) for rows in uniform_rows(trace, tokens, measure))
    direct, even = nanmean(by_layer), even_by_layer.mean(axis=0)
    gold = gold_of(trace)
    column = None if gold is None else trace.regions.index(f"doc{gold}")
    share, even_share = (np.nan if column is None else rows[column] for rows in (direct, even))
    lift, even_lift = _lift(trace, direct), _lift(trace, even)
    rolled, even_rolled = _lift(trace, through), _lift(trace, even_through)
    # a short convolution may not reach any document: its lift is undefined
    lifts, even_lifts = (np.array([_lift(trace, row) for row in rows]) for rows in (by_layer, even_by_layer))
    undefined = np.full_like(lifts, np.nan)
    return {
        "direct_share": ((), share),
        "direct_share_over_uniform": ((), share / even_share),
        "direct_lift": ((), lift),
        "direct_lift_uniform": ((), even_lift),
        "direct_lift_over_uniform": ((), lift / even_lift),
        "direct_log_lift": ((), _log(lift / even_lift)),
        "lift_by_layer": (("layer",), np.divide(lifts, even_lifts, out=undefined, where=even_lifts > 0)),
        "rollout_lift": ((), rolled),
        "rollout_lift_uniform": ((), even_rolled),
        "rollout_lift_over_uniform": ((), rolled / even_rolled),
        "rollout_log_lift": ((), _log(rolled / even_rolled)),
    }


def _between_regions(trace: Trace, measure: Measure) -> dict[str, Any]:
    """The last pass by regions: attention, its rollout, and the gold lift of the answer's row. Where a layer has no
    attention, there is no rollout of attention."""
    last = np.asarray(trace.data[variable_of(measure, "flow")].values[-1], dtype=np.float64)  # (layer, from, to)
    through, even = (rollout(x)[-1] for x in (last, np.broadcast_to(_uniform(trace, measure), last.shape)))
    if np.isnan(last).all(axis=(1, 2)).any():
        through = np.full_like(through, np.nan)
    answer = trace.regions.index("answer")
    lift = _lift(trace, through[answer])
    return {
        "region_attention": (("from_region", "region"), nanmean(last)),
        "region_rollout": (("from_region", "region"), through),
        "region_rollout_lift": ((), lift),
        "region_rollout_lift_over_uniform": ((), lift / _lift(trace, even[answer])),
    }


def _need_all(trace: Trace, held: str, what: str, kept: int) -> None:
    """Refuse a rollout through only some of the layers or heads: it would not be that of the model."""
    have = trace.model[f"{what}s"]
    if kept != have:
        raise FloatlensError(
            f"this trace of {trace.model['ref']} holds {held} of {kept} of {have} {what}s; "
            f"a rollout needs all of them, so trace again with all {what}s"
        )


def _uniform(trace: Trace, measure: Measure) -> Floats:
    """(from_region, region), by layer where layers differ: the last pass under uniformity."""
    here, region_of, regions = present(trace)[-1], trace.data["region_of"].values, len(trace.regions)

    def uniform(reach: Any) -> Floats:
        return uniform_flow(region_of, here, regions, **mask_of_layer(trace, reach, -1))

    return by_reach(trace, measure, uniform, axis=0)


def token_rollout(trace: Trace, step: int = -1) -> xr.DataArray:
    """(query, key): the exact rollout over tokens at one recorded step, from whole matrices of every layer. Needs the
    probe `matrix` on all layers and heads; memory grows with the square of the sequence."""
    trace.require("matrix")
    matrix = trace.data["matrix"]
    for what in ("layer", "head"):
        _need_all(trace, "matrices", what, matrix.sizes[f"matrix_{what}"])
    wide = np.asarray(matrix.isel(matrix_step=step).mean("matrix_head").values, dtype=np.float64)
    here = np.asarray(~np.isnan(wide).all(axis=(0, 2)))
    wide = np.where(here[:, None], np.nan_to_num(wide), np.nan)  # queries that do not exist yet keep their own value
    return xr.DataArray(rollout(wide)[-1], dims=("query", "key"))


def gold_lift(group: Group, how: Literal["direct", "rollout"]) -> Estimate:
    """The gold lift over uniform of a group: its geometric mean over questions, with the interval of the logarithms.

    Example: `gold_lift(fl.flow(traces).group("scale:llada", gold=1), "direct").mean`
    """
    found = group.estimate(f"{how}_log_lift")
    low, mean, high = (np.exp(part) for part in (found.low, found.mean, found.high))
    return Estimate(mean, mean * found.std, low, high, found.n)


def _log(ratio: float) -> float:
    with np.errstate(divide="ignore"):
        return float(np.log(ratio))


def _lift(trace: Trace, row: Floats) -> float:
    """Gold ÷ mean of the other documents, in a row (region); NaN without a gold or another document."""
    gold, names = gold_of(trace), documents_of(trace)
    if gold is None or len(names) < 2:
        return float("nan")
    others = [trace.regions.index(name) for name in names if name != f"doc{gold}"]
    with np.errstate(invalid="ignore", divide="ignore"):
        return float(row[trace.regions.index(f"doc{gold}")] / row[others].mean())
