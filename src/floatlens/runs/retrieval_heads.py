"""Which heads retrieve, for ablations: from the copy scores of traces, model by model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from floatlens.core.errors import FloatlensError
from floatlens.edits import AblateHeads

if TYPE_CHECKING:
    from floatlens.edits.spec import EditSpec

__all__ = ["head_scores", "heads_for"]


def head_scores(files: Sequence[Path]) -> dict[str, xr.DataArray]:
    """Mean copy score (layer, head) of each model, from trace files; nothing without files."""
    from floatlens.analysis import retrieval_heads

    found = {}
    for group in retrieval_heads(files, score="copy").groups if files else ():
        labels = {dim: group.coordinate("copy", dim) for dim in ("layer", "head")}
        found[group.model] = xr.DataArray(group.estimate("copy").mean, dims=("layer", "head"), coords=labels)
    return found


def heads_for(spec: EditSpec, model: str, scores: Mapping[str, xr.DataArray]) -> EditSpec:
    """The edit with `top=N` replaced by the N heads with the highest scores; any other edit as it is."""
    if "retrieval scores" not in spec.build().needs:
        return spec
    given = dict(spec.settings)
    top = given.pop("top")
    if model not in scores:
        raise FloatlensError(
            f"{spec.label}: no trace of {model}, so its retrieval heads are not known; trace questions with documents "
            "and give that run as heads_from (--heads-from)"
        )
    found = scores[model]
    defined = int(np.isfinite(found.values).sum())
    if top > defined:
        raise FloatlensError(
            f"{spec.label}: {defined} heads of {model} have a copy score, fewer than {top}; trace questions with a "
            "gold document, in all layers, or ask for fewer heads"
        )
    places = AblateHeads("retrieval", scores=found.values, top=top).heads
    heads = tuple((int(found["layer"][layer]), int(found["head"][head])) for layer, head in places)
    return replace(spec, settings=(("heads", heads), *given.items()))
