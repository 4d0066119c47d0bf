"""Drift (methods §2, §2a, §12a): do anchors stay where they are while the model writes, and if not, where do they go?

Every number is given for three query groups side by side: most rows are prompt rows, which hardly change, so a mean
over all rows says little about the rows that are being written.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from floatlens.analysis import motion
from floatlens.analysis.anchors import GROUPS, QueryGroup, anchors, head_mean, present
from floatlens.analysis.description import Variable, Words
from floatlens.analysis.kernels import Bools, Floats, nanmean
from floatlens.analysis.measure import Measure, spread, variable_of
from floatlens.analysis.motion import LAGS
from floatlens.analysis.registry import analysis
from floatlens.analysis.rules import DEFAULT_RULE
from floatlens.traces import Trace

__all__ = ["ANCHORED", "QUERIES", "SINK", "drift", "frontier"]

QUERIES: tuple[QueryGroup, ...] = ("all", "answer", "masked")
"""The query groups, in the order of the dimension `queries`."""
SINK = 0.9
"""A sink is an anchor in at least this share of the steps; other anchors are floaters."""
ANCHORED = 0.5
"""A layer has anchors if it has one in at least this share of the steps, and floaters likewise. Noise has an anchor in
one step of ten, and where it comes up next says nothing about motion."""

_MOTION = {
    "jaccard": Variable(
        "anchor stability, step to step",
        "Jaccard overlap of the anchor sets of consecutive steps; 1 = the same. The more steps, the closer to 1.",
        "Jaccard",
    ),
    "lag_jaccard": Variable(
        "anchor stability by lag",
        "Jaccard overlap of the anchor sets of two steps, by their distance as a share of the generation.",
        "Jaccard",
    ),
    "quarter_jaccard": Variable(
        "anchor stability, first to last quarter",
        "Jaccard overlap of the anchor sets of a step of the first and a step of the last quarter of the generation, "
        "mean over all such pairs; 1 = fixed, 0 = all elsewhere. Needs four steps.",
        "Jaccard",
    ),
    "step_null": Variable(
        "anchor stability, any two steps",
        "The same for any two steps: what the overlap of the quarters would be with steps in random order. The "
        "quarters of travelling anchors overlap less, those of anchors that come and go as much.",
        "Jaccard",
    ),
    "floater_jaccard": Variable(
        "floater stability, first to last quarter",
        "The overlap of the quarters for floaters alone; 0 = none of them comes back.",
        "Jaccard",
    ),
    "floater_null": Variable("floater stability, any two steps", "The same for floaters of any two steps.", "Jaccard"),
    "lifetime": Variable("anchor lifetime", "Mean number of consecutive steps an anchor stays.", "steps"),
    "lifetime_share": Variable("anchor lifetime", "The same as a share of all steps."),
    "dwell": Variable("dwell of an anchor", "Mean number of tokens written while an anchor stays.", "tokens written"),
    "slope": Variable(
        "slope of the strongest key", "Slope (Theil–Sen) of the track of the strongest anchor.", "positions per step"
    ),
    "frontier": Variable(
        "correlation with the frontier",
        "Correlation of the track of the strongest anchor with the mean position committed at each step.",
    ),
    "frontier_distance": Variable(
        "distance to the frontier", "Mean distance of the strongest floater to the mean position committed.", "tokens"
    ),
    "frontier_null": Variable(
        "distance to the frontier, steps shuffled", "The same with the steps of the track in random order.", "tokens"
    ),
    "frontier_gain": Variable(
        "follows the frontier", "1 − distance to the frontier ÷ the same with steps shuffled; 0 = does not follow."
    ),
    "same_token": Variable(
        "moves to the same token",
        "Share of the moves of the strongest floater that end on a token equal to the one it left.",
    ),
    "depth_jaccard": Variable(
        "anchor stability over depth",
        "Jaccard overlap with the anchors of each other layer that has anchors, in the same step; 1 = the same.",
        "Jaccard, layer to layer",
    ),
    "first_strongest": Variable(
        "first position is strongest", "Share of the steps with anchors in which the first position is the strongest."
    ),
}
"""Undefined in layers without anchors."""
_MASS = {
    "strongest": Variable(
        "attention on the strongest key",
        "Share of the strongest key (the anchor with the largest share; without anchors, of all keys) minus its share "
        "under uniform attention.",
    ),
    "first": Variable(
        "attention on the first position", "Share of the first position minus its share under uniform attention."
    ),
    "sink_mass": Variable(
        "attention on sinks", f"Share on sinks, the keys that are an anchor in at least {SINK * 100:g} % of the steps."
    ),
    "floater_mass": Variable("attention on floaters", "Share on floaters, the anchors that are not sinks."),
    "effective_anchors": Variable(
        "effective number of anchors",
        "exp of the entropy of the shares among the anchors of a step: 1 = a single one, 0 = none.",
    ),
    "distinct": Variable("distinct anchors", "Number of keys that are an anchor at some step."),
    "speed": Variable(
        "speed of the strongest floater",
        "Slope (Theil–Sen) of its track over the number of tokens written; above 0 is to the right, 0 where nothing "
        "floats.",
        "positions per token written",
    ),
}
_SPREAD = {
    "entropy": Variable("spread of attention", "Normalised entropy of received attention; 1 = uniform.", "1 = uniform"),
    "wasserstein": Variable("mass moved", "Distance that attention mass moves per step, as a share of the sequence."),
    "anchored": Variable("steps with anchors", "Share of the steps in which there is an anchor."),
}
_WHOLE = {
    "anchored_layers": Variable("layers with anchors", "Share of the layers that have anchors."),
    "layers_differ": Variable(
        "strongest key differs between neighbouring layers",
        "Share of neighbouring layers with anchors whose strongest anchors differ, in the same step.",
    ),
    "layer_keys": Variable(
        "different strongest keys", "Number of different strongest anchors in a step ÷ layers with anchors."
    ),
    "steps": Variable("steps", "Number of recorded steps in which the group has queries."),
}
WORDS = Words(
    "Drift",
    "Do anchors stay where they are?",
    reading="Anchors are the tokens that receive far more attention than the rest. The upper panels compare the "
    "anchors of two steps, from close ones (left) to the first and the last (right); 1 means the same anchors. A "
    "flat line at 1 is a model whose anchors are fixed. A line that falls is one whose anchors move on, and a line "
    "that is low from the start one whose anchors come and go. The panels are for the attention of all rows, most of "
    "which belong to the prompt, of the rows of the answer, and of those still masked. The lower panels show, for "
    "the rows of the answer and by layer, how much attention the strongest key holds, how many anchors share it, and "
    "how far the strongest floater moves for each token written.",
    method="For each query group (`queries`): all rows, those of the answer, those still masked. `…_by_layer` is for "
    f"each layer. A layer has anchors if it has one in at least {ANCHORED * 100:g} % of the steps; numbers without "
    "`_by_layer` are means over the layers that have anchors. Where none has, numbers about motion are undefined, and "
    "those about attention and speed are means over all layers; spread, mass moved and steps with anchors always are.",
    variables={
        **_MOTION,
        **_MASS,
        **_SPREAD,
        **_WHOLE,
        "track_by_layer": Variable("track", "The strongest anchor at each step; kept for a single trace only."),
        "floater_by_layer": Variable("floater", "The strongest floater at each step; kept for a single trace only."),
    },
    aliases={f"{name}_by_layer": name for name in (*_MOTION, *_MASS, *_SPREAD)},
)


@dataclass(frozen=True)
class _Rows:
    """What the numbers of one query group are made from; steps in which it has no queries are left out. `share` and
    `sets` are (step, layer, key), `present` and `tokens` (step, key), `null` either, others (step). `written` counts
    the tokens before a step, `writes` those from it to the next."""

    share: Floats
    sets: Bools
    null: Floats
    present: Bools
    tokens: NDArray[np.integer]
    steps: Floats
    written: Floats
    writes: Floats
    frontier: Floats


@analysis("drift", requires=tuple(GROUPS[group] for group in QUERIES), words=WORDS)
def drift(trace: Trace, *, rule: str = DEFAULT_RULE, measure: Measure = "attention") -> xr.Dataset:
    """How anchors move over steps, for the attention of all rows, of the answer's, and of masked ones.

    Example: `fl.drift(trace).quarter_jaccard.sel(queries="answer")`
    """
    layers = trace.data["layer"].values
    found: list[dict[str, Any]] = []
    for group in QUERIES:
        asked, rows = _rows(trace, rule, group, measure)
        found.append(_numbers(rows, layers) if asked.any() else {})
        found[-1] |= _tracks(rows, asked)
    dims = {"lag_jaccard": ("lag",), "lag_jaccard_by_layer": ("layer", "lag")}
    data: dict[str, Any] = {}
    for name in found[0]:  # every trace has rows
        values = [np.asarray(one.get(name, np.full_like(found[0][name], np.nan))) for one in found]
        own = ("step", "layer") if values[0].ndim == 2 else ("layer",) if values[0].ndim else ()
        data[name] = (("queries", *dims.get(name, own)), np.stack(values))
    coords = {"queries": list(QUERIES), "layer": layers, "lag": list(LAGS), "step": trace.data["step"].values}
    return xr.Dataset(data, coords=coords)


def frontier(trace: Trace) -> Floats:
    """(step): mean position of the tokens committed at each step; NaN where there are none."""
    steps = trace.data["step"].values
    where, when = trace.data["token_position"].values, trace.data["token_step"].values
    return np.array([where[when == step].mean() if (when == step).any() else np.nan for step in steps])


def _rows(trace: Trace, rule: str, group: QueryGroup, measure: Measure) -> tuple[Bools, _Rows]:
    """(step): where the group has queries; and what there is in these steps."""
    found = anchors(trace, rule=rule, group=group, measure=measure)
    share = head_mean(trace, variable_of(measure, GROUPS[group])).values
    asked = ~np.isnan(share).all(axis=(1, 2))
    steps = trace.data["step"].values[asked].astype(np.float64)
    when = np.sort(trace.data["token_step"].values)
    written = np.searchsorted(when, steps).astype(np.float64)
    rows = _Rows(
        share=share[asked],
        sets=found.by_layer().values[asked],
        null=found.null.values[asked],
        present=present(trace)[asked],
        tokens=trace.data["sequence"].values[asked],
        steps=steps,
        written=written,
        writes=np.diff(written, append=float(len(when))),
        frontier=frontier(trace)[asked],
    )
    return asked, rows


def _tracks(rows: _Rows, asked: Bools) -> dict[str, Floats]:
    """Tracks over all steps of the trace, NaN where the group has no queries."""
    made = {}
    for name, sets in (("track_by_layer", rows.sets), ("floater_by_layer", _floaters(rows.sets))):
        made[name] = np.full((len(asked), rows.share.shape[1]), np.nan)
        made[name][asked] = motion.track(np.where(sets, rows.share, np.nan))
    return made


def _floaters(sets: Bools) -> Bools:
    """(step, layer, key): the anchors that are not sinks."""
    return np.asarray(sets & ~motion.sinks(sets, SINK)) if len(sets) else sets


def _numbers(rows: _Rows, layers: NDArray[np.integer]) -> dict[str, Floats]:
    """Every number by layer, and over the layers."""
    anchored = rows.sets.any(axis=-1).mean(axis=0)
    counted = np.asarray(anchored >= ANCHORED)
    moved = _overlaps(rows) | _positions(rows) | {"depth_jaccard": _depth(rows, counted)}
    moved = {name: np.where(counted if x.ndim == 1 else counted[:, None], x, np.nan) for name, x in moved.items()}
    held = _mass(rows) | {"speed": _speed(rows), "distinct": motion.distinct(rows.sets)}
    spread = _spread(rows) | {"anchored": anchored}
    chosen = counted if counted.any() else np.ones_like(counted)
    whole = {name: nanmean(x) for name, x in (moved | spread).items()}
    whole |= {name: nanmean(x[chosen]) for name, x in held.items()}
    track = np.where(counted, motion.track(np.where(rows.sets, rows.share, np.nan)), np.nan)
    whole |= {"anchored_layers": np.asarray(counted.mean()), "layers_differ": _layers_differ(track, layers)}
    whole |= {"layer_keys": nanmean(motion.distinct_share(track)), "steps": np.asarray(float(len(rows.steps)))}
    return whole | {f"{name}_by_layer": x for name, x in (moved | held | spread).items()}


def _overlaps(rows: _Rows) -> dict[str, Floats]:
    """How much of the sets stays."""
    pairs = motion.pair_jaccard(rows.sets)  # (layer, step, step)
    floating = motion.pair_jaccard(_floaters(rows.sets))
    stay = motion.lifetime(rows.sets)
    return {
        "jaccard": nanmean(np.diagonal(pairs, offset=1, axis1=-2, axis2=-1), axis=-1),
        "lag_jaccard": motion.by_lag(pairs, rows.steps),
        "quarter_jaccard": motion.between_quarters(pairs, rows.steps),
        "step_null": motion.between_any(pairs),
        "floater_jaccard": motion.between_quarters(floating, rows.steps),
        "floater_null": motion.between_any(floating),
        "lifetime": stay,
        "lifetime_share": stay / len(rows.steps),
        "dwell": motion.lifetime(rows.sets, rows.writes),
    }


def _positions(rows: _Rows) -> dict[str, Floats]:
    """Where the strongest anchor and the strongest floater go."""
    track = motion.track(np.where(rows.sets, rows.share, np.nan))
    floater = _floating(rows)
    distance, null = motion.distances(floater, rows.frontier)
    with np.errstate(invalid="ignore", divide="ignore"):
        gain = np.where(null > 0, 1 - distance / null, np.nan)
    return {
        "slope": motion.slope(track, rows.steps),
        "frontier": motion.correlation(track, rows.frontier),
        "first_strongest": nanmean(np.where(np.isnan(track), np.nan, track == 0)),
        "frontier_distance": distance,
        "frontier_null": null,
        "frontier_gain": gain,
        "same_token": motion.same_token(floater, rows.tokens),
    }


def _floating(rows: _Rows) -> Floats:
    """(step, layer): the strongest floater; NaN without one, and in layers where most steps have none."""
    track = motion.track(np.where(_floaters(rows.sets), rows.share, np.nan))
    return np.where(np.isfinite(track).mean(axis=0) >= ANCHORED, track, np.nan)


def _speed(rows: _Rows) -> Floats:
    """(layer): positions per token written; NaN where nothing was written between steps."""
    if np.ptp(rows.written) == 0:
        return np.full(rows.share.shape[1], np.nan)
    floater = _floating(rows)
    return np.where(np.isfinite(floater).any(axis=0), motion.slope(floater, rows.written), 0.0)


def _mass(rows: _Rows) -> dict[str, Floats]:
    """Who holds how much."""
    sinks = motion.sinks(rows.sets, SINK)
    wide = np.broadcast_to(spread(rows.null, 3), rows.share.shape)
    there = np.where(rows.sets.any(axis=-1, keepdims=True) & ~rows.sets, np.nan, rows.share)
    track = motion.track(there)[..., None]
    key = np.nan_to_num(track).astype(np.int64)  # NaN where nothing was received: so is its share
    strongest = np.take_along_axis(rows.share, key, axis=-1) - np.take_along_axis(wide, key, axis=-1)
    strongest = np.where(np.isfinite(track), strongest, np.nan)
    share = np.nan_to_num(rows.share)
    return {
        "strongest": strongest[..., 0].mean(axis=0),
        "first": nanmean(rows.share[..., 0] - wide[..., 0]),
        "sink_mass": (share * sinks).sum(axis=-1).mean(axis=0),
        "floater_mass": (share * _floaters(rows.sets)).sum(axis=-1).mean(axis=0),
        "effective_anchors": motion.effective_number(share, rows.sets).mean(axis=0),
    }


def _spread(rows: _Rows) -> dict[str, Floats]:
    moved = motion.wasserstein(rows.share)
    return {
        "entropy": nanmean(motion.entropy(rows.share, np.broadcast_to(rows.present[:, None], rows.share.shape))),
        "wasserstein": nanmean(moved) if len(moved) else np.full(rows.share.shape[1], np.nan),
    }


def _depth(rows: _Rows, counted: Bools) -> Floats:
    """(layer): mean overlap with the anchors of the other layers that have some."""
    pairs = motion.pair_jaccard(np.moveaxis(rows.sets, 1, 0))  # (step, layer, layer)
    other = counted & ~np.eye(len(counted), dtype=bool)
    return nanmean(np.where(other, pairs, np.nan), axis=(0, 2))


def _layers_differ(track: Floats, layers: NDArray[np.integer]) -> Floats:
    """Share of neighbouring layers whose tracks (step, layer) differ, over all steps."""
    both = np.isfinite(track[:, 1:]) & np.isfinite(track[:, :-1]) & (np.diff(layers) == 1)
    return nanmean(np.where(both, track[:, 1:] != track[:, :-1], np.nan), axis=(0, 1))
