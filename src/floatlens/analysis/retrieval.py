"""Retrieval heads (methods §6): which heads look at the evidence when the model writes the answer.

Computed for each token of the answer up to EOS, in its deciding row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Literal, get_args

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from floatlens.analysis.deciding import answer_tokens
from floatlens.analysis.description import Variable, Words
from floatlens.analysis.intervals import Estimate, estimate, estimate_by_halves, share
from floatlens.analysis.kernels import Bools, Floats, Ints, nanmean
from floatlens.analysis.measure import Measure, variable_of
from floatlens.analysis.registry import analysis
from floatlens.analysis.result import Group, Summary
from floatlens.core.errors import FloatlensError, did_you_mean
from floatlens.traces import Trace

__all__ = [
    "HALVES",
    "SCORES",
    "THRESHOLDS",
    "Half",
    "Score",
    "depth_correlation",
    "retrieval_heads",
    "share_above",
]

Score = Literal["copy", "copy_code", "focus", "mass", "qr"]
SCORES: tuple[Score, ...] = get_args(Score)
Half = Literal["shallow", "deep"]
HALVES: tuple[Half, ...] = get_args(Half)
THRESHOLDS = (0.1, 0.5)
"""Mean score above which a head is a retrieval head, or a strong one [Wu]."""
_RECALL = 0.5
WORDS = Words(
    "Retrieval heads",
    "Which heads copy the answer?",
    reading="Each cell is a head: how much of the evidence it copied, that is, how often its largest weight was on the "
    "very token being written. Strong colours are retrieval heads. The line is their mean by depth: a rise to the "
    "right means that copying happens late in the network.",
    method="By layer and head, undefined for a trace without evidence; from 0 to 1, except `copy_code`. Answer tokens "
    "whose deciding pass was not recorded (a selection of steps) are left out.",
    variables={
        "copy": Variable(
            "copy score",
            "Distinct evidence tokens that the head copied (its largest weight is on the token being written) ÷ "
            "distinct tokens of the evidence.",
        ),
        "copy_code": Variable(
            "copy score, as in Wu's code",
            "Each copied token adds 1 ÷ evidence length; only answers whose unigrams cover more than half of the "
            "evidence, and that were recorded completely, count.",
        ),
        "focus": Variable("focus", "Share of answer tokens whose largest weight is in the evidence."),
        "mass": Variable("mass on the evidence", "Mean attention on the evidence."),
        "qr": Variable(
            "question to gold", "Mean attention of question tokens on the gold document, in the first pass."
        ),
        "copy_heads": Variable("retrieval heads", "Share of heads above a threshold, in each half of the layers."),
        "copy_depth": Variable("rise with depth", "Spearman correlation of a head's score with its layer."),
    },
    aliases={f"{s}_{what}": f"copy_{what}" for s in SCORES[1:] for what in ("heads", "depth")},
)


def depth_correlation(group: Group, score: Score = "copy") -> Estimate:
    """Spearman correlation of a head's mean score with its layer, with an interval over questions."""
    values = group.by_question(group.values(score))
    layers = np.repeat(np.arange(values.shape[1]), values.shape[2])
    mean_of = nanmean if np.isnan(values).any() else partial(np.mean, axis=0)  # hundreds of times for an interval

    def statistic(samples: Floats) -> float:
        flat = mean_of(samples).ravel()  # (layer, head)
        defined = np.isfinite(flat)
        if not defined.any() or np.ptp(flat[defined]) == 0 or np.ptp(layers[defined]) == 0:
            return float("nan")
        first, second = _ranks(flat[defined]), _ranks(layers[defined])
        return float(first @ second / np.sqrt((first @ first) * (second @ second)))

    return estimate_by_halves(values, statistic, bounds=(-1, 1), correlation=True)


def _ranks(values: NDArray[np.number]) -> Floats:
    """Ranks about their mean; ties have their mean rank."""
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((count.cumsum() - count / 2)[place] - len(values) / 2)


def share_above(group: Group, half: Half, score: Score = "copy", above: float = THRESHOLDS[0]) -> Estimate:
    """The share of heads in the shallow or the deep half of the layers whose mean score is above a threshold. NaN where
    no sample has a score.

    The interval runs from the heads whose own interval is above the threshold to those whose interval is not below it:
    a single head near the threshold makes the share jump, and resampling does not see how far. It covers more than
    95 %. `std` is undefined.
    """
    values = group.by_question(group.values(score))
    middle = values.shape[1] // 2
    part = (values[:, :middle] if half == "shallow" else values[:, middle:]).reshape(len(values), -1)
    part = part[:, ~np.isnan(part).all(axis=0)]
    n, nothing = np.asarray((~np.isnan(part).all(axis=1)).sum()), np.asarray(np.nan)
    if not n:
        return Estimate(nothing, nothing, nothing, nothing, n)
    heads = estimate(part) if score == "copy_code" else share(part)  # only that one can be above 1
    mean, low, high = (np.asarray((end > above).mean()) for end in (heads.mean, heads.low, heads.high))
    known = not np.isnan(heads.low).any()
    return Estimate(mean, nothing, low if known else nothing, high if known else nothing, n)


def _summary(group: Group) -> Iterator[Summary]:
    """Retrieval heads by half of the depth, and their trend, for the first score that the group has."""
    score = next(name for name in SCORES if name in group.samples)
    for above in THRESHOLDS:
        for half in HALVES:
            yield Summary(f"{score}_heads", {"half": half, "above": above}, share_above(group, half, score, above))
    yield Summary(f"{score}_depth", {}, depth_correlation(group, score))


@analysis(
    "retrieval_heads", requires=("answer_argmax", "answer_evidence", "question_flow"), summarise=_summary, words=WORDS
)
def retrieval_heads(
    trace: Trace, *, score: Score | Literal["all"] = "all", measure: Measure = "attention"
) -> xr.Dataset:
    """Scores of each head. Tables also hold retrieval heads by half of the depth, for the first score asked for. By
    contribution, a layer without heads has the same score at every head.

    Example: `fl.retrieval_heads(traces, score="copy").copy.mean  # model × layer × head`
    """
    if score not in (*SCORES, "all"):
        raise FloatlensError(f'score="{score}"{did_you_mean(score, SCORES)}; give {", ".join(SCORES)} or all')
    wanted = SCORES if score == "all" else (score,)
    rows = _Rows.of(trace, measure)
    coords = {dim: trace.data[dim].values for dim in ("layer", "head")}
    data = {name: (("layer", "head"), np.where(rows.covered, _KERNELS[name](rows), np.nan)) for name in wanted}
    return xr.Dataset(data, coords=coords)


@dataclass(frozen=True)
class _Rows:
    """The deciding rows of the answer's tokens: the key with the largest weight and the mass on the evidence, (token,
    layer, head), the question's mass on regions (step, layer, head, region), and which layers (layer, 1) have any."""

    trace: Trace
    argmax: Ints
    evidence: Floats
    question: xr.DataArray
    covered: Bools

    @classmethod
    def of(cls, trace: Trace, measure: Measure) -> _Rows:
        names = (variable_of(measure, name) for name in ("answer_argmax", "answer_evidence", "question_flow"))
        argmax, evidence, question = (trace.data[name] for name in names)
        tokens = answer_tokens(trace)
        held = np.asarray(argmax.values, dtype=np.intp)
        covered = np.asarray((held >= 0).any(axis=(0, 2)))
        covered = covered if covered.any() else np.ones_like(covered)
        return cls(trace, held[tokens], evidence.values[tokens].astype(np.float64), question, covered[:, None])

    @cached_property
    def recorded(self) -> Bools:
        """(token): whether the pass that decided an answer token was recorded; under a selection of steps not all
        are."""
        return np.asarray((self.argmax >= 0).any(axis=(1, 2)))

    @property
    def written(self) -> Ints:
        return np.asarray(self.trace.data["token_id"].values[answer_tokens(self.trace)])

    @property
    def undefined(self) -> Floats:
        return np.full(self.argmax.shape[1:], np.nan)

    def hits(self) -> tuple[Bools, Bools]:
        """(token, layer, head): whether the largest weight lies in the evidence, and there on the token being written.
        Of the answer tokens whose passes were recorded."""
        where = self.argmax[self.recorded]
        evidence, final = self.trace.data["evidence"].values, self.trace.data["final"].values
        inside = evidence[where] & (where >= 0)
        same = final[where] == self.written[self.recorded][:, None, None]
        return inside, inside & same


def _copy(rows: _Rows) -> Floats:
    evidence = np.unique(rows.trace.data["final"].values[rows.trace.data["evidence"].values])
    if not len(evidence):
        return rows.undefined
    _, hit = rows.hits()
    written, known = rows.written, rows.recorded
    evidence = evidence[np.isin(evidence, written[known]) | ~np.isin(evidence, written)]  # others are unknown
    if not len(evidence):
        return rows.undefined
    copied = [hit[written[known] == token].any(axis=0) for token in evidence if (written[known] == token).any()]
    total = np.sum(copied, axis=0) if copied else np.zeros(rows.undefined.shape)
    return np.asarray(total / len(evidence), dtype=np.float64)


def _copy_code(rows: _Rows) -> Floats:
    evidence = rows.trace.data["final"].values[rows.trace.data["evidence"].values]
    covered = (Counter(evidence.tolist()) & Counter(rows.written.tolist())).total()  # as ROUGE-1 counts
    if not len(evidence) or covered / len(evidence) <= _RECALL or not rows.recorded.all():
        return rows.undefined
    _, hit = rows.hits()
    return np.asarray(hit.sum(axis=0) / len(evidence))


def _focus(rows: _Rows) -> Floats:
    inside, _ = rows.hits()
    if not len(inside) or not rows.trace.data["evidence"].values.any():
        return rows.undefined
    return np.asarray(inside.mean(axis=0))


def _mass(rows: _Rows) -> Floats:
    return nanmean(rows.evidence) if len(rows.evidence) else rows.undefined


def _qr(rows: _Rows) -> Floats:
    gold = rows.trace.data.attrs["prompt"].get("gold")
    name = f"doc{gold + 1}" if isinstance(gold, int) else ""
    if name not in rows.trace.regions or "head" not in rows.question.dims:
        return rows.undefined
    return np.asarray(rows.question.isel(step=0).values[..., rows.trace.regions.index(name)], dtype=np.float64)


_KERNELS = {"copy": _copy, "copy_code": _copy_code, "focus": _focus, "mass": _mass, "qr": _qr}
