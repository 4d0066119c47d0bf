"""Commit order (methods §12a): in which order are tokens committed, by position and confidence? Needs no probe."""

from __future__ import annotations

import numpy as np
import xarray as xr
from scipy import stats

from floatlens.analysis.deciding import answer_tokens
from floatlens.analysis.description import Variable, Words
from floatlens.analysis.kernels import Bools, Floats
from floatlens.analysis.registry import analysis
from floatlens.traces import Trace

__all__ = ["TENTHS", "TOKENS", "order"]

TOKENS = ("all", "text")
"""All committed tokens, and those before the first EOS."""
TENTHS = 10
WORDS = Words(
    "Commit order",
    "In which order are tokens committed?",
    reading="Each map shows when each part of the answer is committed: a rising diagonal is writing from left to "
    "right, an even map is no order. The points give the same as a rank correlation with the position (1 is left to "
    "right) and with the confidence (-1 is the most confident token first).",
    method="Kendall's τ-b (ties are corrected for) over the tokens of an answer; undefined where all are committed in "
    "one pass. `all` are all tokens, `text` those before the first EOS. A sampler that works block by block fixes the "
    "order of the blocks.",
    variables={
        "position_tau": Variable("τ of step and position", "1 is left to right, -1 right to left.", "Kendall τ-b"),
        "confidence_tau": Variable(
            "τ of step and confidence",
            "With the confidence of each token in the pass that committed it.",
            "Kendall τ-b",
        ),
        "first_confidence_tau": Variable(
            "τ of step and first confidence",
            "With the largest probability at its position in the first pass; needs the probe `lens`.",
            "Kendall τ-b",
        ),
        "tokens_per_step": Variable("tokens per step", "Committed tokens ÷ passes."),
        "commits": Variable(
            "tokens by step and position",
            "Share of the tokens of a tenth of the answer that is committed in each tenth of the passes.",
        ),
    },
)


@analysis("order", requires=(), words=WORDS)
def order(trace: Trace) -> xr.Dataset:
    """The order in which the tokens of the answer are committed.

    Example: `fl.order(traces).position_tau.sel(tokens="all").mean`
    """
    step, position = (trace.data[f"token_{name}"].values.astype(np.float64) for name in ("step", "position"))
    against = {
        "position_tau": position,
        "confidence_tau": trace.data["token_confidence"].values.astype(np.float64),
        "first_confidence_tau": _first_confidence(trace),
    }
    parts = (np.ones(len(step), dtype=bool), np.isin(np.arange(len(step)), answer_tokens(trace)))
    data = {name: (("tokens",), [_tau(step, values, part) for part in parts]) for name, values in against.items()}
    tenths = (np.arange(TENTHS) + 0.5) / TENTHS
    return xr.Dataset(
        {
            **data,
            "tokens_per_step": ((), len(step) / (step.max() + 1) if len(step) else np.nan),
            "commits": (("moment", "place"), _commits(step, position)),
        },
        coords={"tokens": list(TOKENS), "moment": tenths, "place": tenths},
    )


def _tau(x: Floats, y: Floats, part: Bools) -> float:
    """Kendall's τ-b of what is defined; NaN where either never changes."""
    both = part & np.isfinite(x) & np.isfinite(y)
    x, y = x[both], y[both]
    if len(x) < 2 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return float("nan")
    return float(stats.kendalltau(x, y, variant="b").statistic)


def _first_confidence(trace: Trace) -> Floats:
    """(token): the largest probability at its position in the first pass, in the last layer; NaN where unknown."""
    step = trace.data["token_step"].values
    if "lens_peak" not in trace.data or int(trace.data["layer"].values[-1]) != trace.model["layers"] - 1:
        return np.full(len(step), np.nan)
    peak = trace.data["lens_peak"].values[..., -1].astype(np.float64)  # (steps before commitment, token)
    known = step < len(peak)  # an autoregressive model has no row for later positions in its first pass
    return np.where(known, peak[np.where(known, step, 0), np.arange(len(step))], np.nan)


def _commits(step: Floats, position: Floats) -> Floats:
    """(moment, place): each token fills its part of the answer and its pass, and every place sums to 1. NaN where there
    is one pass."""
    count, passes = len(step), int(step.max()) + 1 if len(step) else 0
    if passes < 2:
        return np.full((TENTHS, TENTHS), np.nan)
    rank = np.argsort(np.argsort(position))
    places, moments = _overlap(count)[rank], _overlap(passes)[step.astype(np.intp)]
    return np.asarray(TENTHS * passes * moments.T @ places)


def _overlap(count: int) -> Floats:
    """(part, tenth): the length that each of `count` equal parts of [0, 1] has in common with each tenth."""
    part, tenth = np.arange(count)[:, None] / count, np.arange(TENTHS)[None] / TENTHS
    return np.asarray(np.maximum(np.minimum(part + 1 / count, tenth + 1 / TENTHS) - np.maximum(part, tenth), 0.0))
