"""Over-smoothing (methods §18): do tokens become alike in deep layers?"""

from __future__ import annotations

import numpy as np
import xarray as xr

from floatlens.analysis.description import Variable, Words
from floatlens.analysis.kernels import nanmean
from floatlens.analysis.registry import analysis
from floatlens.traces import Trace

__all__ = ["smoothing"]

WORDS = Words(
    "Over-smoothing",
    "Do tokens become alike?",
    reading="Where a model smooths too much, tokens lose what sets them apart: cosines rise towards 1 with depth, the "
    "effective rank falls towards 1, and the rows of a layer attend to the same keys (distance towards 0). Masked "
    "tokens begin alike, since all have the same embedding.",
    method="By layer; means over steps. States are those that enter a layer (layer 0: the embeddings). Row distances "
    "are means over heads and over pairs of rows, evenly spaced over the sequence.",
    variables={
        "cosine": Variable("cosine of states", "Mean cosine of the states of two tokens, over all pairs."),
        "masked_cosine": Variable("cosine, masked tokens", "The same over pairs of masked tokens."),
        "rank": Variable(
            "effective rank",
            "exp of the entropy of the states' singular values divided by their sum.",
        ),
        "rank_share": Variable("effective rank ÷ tokens", "Effective rank ÷ number of tokens."),
        "row_distance": Variable("distance of rows", "Mean Jensen-Shannon distance of two attention rows, 0 to 1."),
    },
)


@analysis(
    "smoothing",
    requires=("state_cosine", "masked_cosine", "effective_rank", "row_distance"),
    words=WORDS,
    optional=True,
)
def smoothing(trace: Trace) -> xr.Dataset:
    """How alike the tokens of a layer are, by layer.

    Example: `fl.smoothing(fl.trace(model, question="Who?", gen_length=4, probes=["smoothing"])).cosine.mean`
    """
    tokens = (trace.data["sequence"].values >= 0).sum(axis=-1)  # (step,)
    rank = np.asarray(trace.data["effective_rank"].values, dtype=np.float64)
    rows = np.asarray(trace.data["row_distance"].values, dtype=np.float64)
    data = {
        "cosine": np.asarray(trace.data["state_cosine"].values, dtype=np.float64),
        "masked_cosine": np.asarray(trace.data["masked_cosine"].values, dtype=np.float64),
        "rank": rank,
        "rank_share": rank / tokens[:, None],
        "row_distance": rows.mean(axis=-1) if rows.ndim == 3 else rows,
    }
    return xr.Dataset(
        {name: (("layer",), nanmean(values)) for name, values in data.items()},
        coords={"layer": trace.data["layer"].values},
    )
