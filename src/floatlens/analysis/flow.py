"""Region flow (methods §7): attention between BOS, question, documents and answer, and its rollout.

A group is a model, a number of documents and the position of the gold document (from 1), since regions differ.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from floatlens.analysis.anchors import mask_of, present
from floatlens.analysis.description import Variable, Words
from floatlens.analysis.kernels import Bools, Floats, rollout, uniform_flow
from floatlens.analysis.registry import analysis
from floatlens.core.errors import FloatlensError
from floatlens.traces import Trace

__all__ = ["documents_of", "flow", "gold_of", "token_rollout"]

WORDS = Words(
    "Region flow",
    "Where does the answer come from?",
    reading="Each row shows where the information of a region comes from after all layers, over all paths (rollout). "
    "Rows sum to 1; colours end at the largest share of a document. The framed column is the gold document. Below, the "
    "row of the answer as one number: how much more comes from the gold document than from the others, divided by the "
    "same under uniform attention. Above 1 the model prefers the gold document; flat lines mean that it does so at any "
    "position.",
    method="Attention between regions in the last pass, when the sequence is all but finished.",
    variables={
        "attention": Variable(
            "attention", "Mean over layers of the mass from one region's queries to another's keys; rows sum to 1."
        ),
        "rollout": Variable(
            "rollout", "The same through all layers with the residual stream (identity added, rows normalised)."
        ),
        "gold_lift": Variable(
            "gold lift", "In the rollout, from the answer: gold document ÷ mean of the other documents."
        ),
        "uniform_lift": Variable(
            "gold lift under uniform attention",
            "The same for uniform attention: it follows from mask and document lengths.",
        ),
        "lift_over_uniform": Variable("gold lift", "`gold_lift` ÷ `uniform_lift`.", "× uniform"),
        "lift_by_layer": Variable("gold lift of attention", "The gold lift of attention itself, layer by layer."),
        "lift_by_step": Variable(
            "gold lift by step",
            "The gold lift of the rollout at ten moments from the first pass to the last; from the template where the "
            "answer has no queries yet (the first pass of an autoregressive model).",
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


@analysis("flow", requires=("flow",), groups=_condition, words=WORDS)
def flow(trace: Trace) -> xr.Dataset:
    """Attention between regions, its rollout, and the gold lift.

    Example: `fl.flow(traces).group("scale:llada", gold=2).estimate("gold_lift")`
    """
    regions = list(trace.regions)
    if "answer" not in regions:
        raise FloatlensError("this trace has no answer region; trace a question or a prompt")
    _need_all(trace, "region flow", "layer", trace.data["flow"].sizes["layer"])
    steps = np.asarray(trace.data["flow"].values, dtype=np.float64)  # (step, layer, from, to)
    last = steps[-1]
    through = rollout(last)[-1]
    even = rollout(np.broadcast_to(_uniform(trace), last.shape))[-1]
    moments = np.linspace(0, len(steps) - 1, 10).round().astype(int)
    by_step = [_lift(trace, rollout(steps[s])[-1], ~np.isnan(steps[s, 0]).any(axis=-1)) for s in moments]
    data = {
        "attention": (("from_region", "region"), last.mean(axis=0)),
        "rollout": (("from_region", "region"), through),
        "gold_lift": ((), _lift(trace, through)),
        "uniform_lift": ((), _lift(trace, even)),
        "lift_over_uniform": ((), _lift(trace, through) / _lift(trace, even)),
        "lift_by_layer": (("layer",), np.array([_lift(trace, layer) for layer in last])),
        "lift_by_step": (("moment",), np.array(by_step)),
    }
    coords = {"layer": trace.data["flow"]["layer"].values, "moment": np.linspace(0, 1, 10).round(3)}
    return xr.Dataset(data, coords={"from_region": regions, "region": regions, **coords})


def _need_all(trace: Trace, held: str, what: str, kept: int) -> None:
    """Refuse a rollout through only some of the layers or heads: it would not be that of the model."""
    have = trace.model[f"{what}s"]
    if kept != have:
        raise FloatlensError(
            f"this trace of {trace.model['ref']} holds {held} of {kept} of {have} {what}s; "
            f"a rollout needs all of them, so trace again with all {what}s"
        )


def _uniform(trace: Trace) -> Floats:
    """(from_region, region): the last pass under uniform attention."""
    here, region_of = present(trace)[-1], trace.data["region_of"].values
    return uniform_flow(region_of, here, len(trace.regions), **mask_of(trace))


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


def _lift(trace: Trace, through: Floats, asking: Bools | None = None) -> float:
    """Gold ÷ mean of the other documents in the row of the answer (or, while it has no queries, of the template)."""
    regions, gold, names = list(trace.regions), gold_of(trace), documents_of(trace)
    if gold is None or len(names) < 2:
        return float("nan")
    row = regions.index("answer")
    if asking is not None and not asking[row]:
        row = regions.index("template") if "template" in regions else row
    others = [regions.index(name) for name in names if name != f"doc{gold}"]
    with np.errstate(invalid="ignore", divide="ignore"):
        return float(through[row, regions.index(f"doc{gold}")] / through[row, others].mean())
