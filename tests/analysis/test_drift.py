"""Drift of anchors over steps: patterns by hand, and one trace against loops over steps, keys and layers."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from floatlens.analysis import drift
from floatlens.analysis.drift import QUERIES, frontier
from floatlens.analysis.motion import LAGS
from shared.synthetic import MASK, PROMPT, anchor_at, build, random_attention, ready

ALL, ANSWER, MASKED = range(3)


def of(result, name, queries=ALL):
    """The numbers of one trace for one query group."""
    return result.group().values(name)[0, queries]


# -- patterns ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("causal", [True, False])
def test_a_fixed_sink_does_not_move(causal):
    found = drift(ready("fixed", causal=causal))
    expected = {"slope": 0, "speed": 0, "jaccard": 1, "quarter_jaccard": 1, "step_null": 1, "lifetime": 8, "dwell": 8}
    expected |= {"distinct": 1, "effective_anchors": 1, "depth_jaccard": 1, "layers_differ": 0, "layer_keys": 1 / 4}
    expected |= {"first_strongest": 1, "anchored": 1, "anchored_layers": 1, "floater_mass": 0, "lifetime_share": 1}
    assert {name: float(of(found, name)) for name in expected} == pytest.approx(expected)
    assert (
        of(found, "lag_jaccard")[[0, 2, 3, 5, 6, 8, 9]].tolist() == [1] * 7
    )  # lags of 1/7, 2/7 … fall on these tenths
    for name in ("frontier", "frontier_gain", "frontier_distance", "same_token", "floater_jaccard", "floater_null"):
        assert np.isnan(of(found, name)), name  # nothing floats
    assert float(of(found, "wasserstein")) < 0.005


@pytest.mark.parametrize("causal", [True, False])
def test_a_moving_anchor_is_followed(causal):
    """Two positions to the right per step, each for one step, along with the frontier; a token per step."""
    found = drift(ready("moving", causal=causal))
    expected = {"slope": 2, "speed": 2, "jaccard": 0, "quarter_jaccard": 0, "step_null": 0, "lifetime": 1, "dwell": 1}
    expected |= {"distinct": 8, "effective_anchors": 1, "depth_jaccard": 1, "layers_differ": 0, "layer_keys": 1 / 4}
    expected |= {"first_strongest": 0, "sink_mass": 0, "frontier": 1, "floater_jaccard": 0, "lifetime_share": 1 / 8}
    assert {name: float(of(found, name)) for name in expected} == pytest.approx(expected)
    assert of(found, "slope_by_layer").tolist() == of(found, "speed_by_layer").tolist() == [2, 2, 2, 2]
    # from 2, 4 … 16 to 22, 23 … 29 it is 20, 19 … 13: without a crossing the order of the steps makes no difference
    assert [float(of(found, f"frontier_{what}")) for what in ("distance", "null", "gain")] == [16.5, 16.5, 0]
    if not causal:  # nearly all mass goes two positions of 29 per step
        assert float(of(found, "wasserstein")) == pytest.approx(2 / 29, rel=0.1)


def test_uniform_attention_has_no_anchors_and_is_spread_evenly():
    found = drift(ready("uniform", causal=False))
    for name in ("distinct", "anchored", "anchored_layers", "effective_anchors", "speed", "sink_mass", "floater_mass"):
        assert float(of(found, name)) == 0, name
    for name in ("jaccard", "quarter_jaccard", "lifetime", "dwell", "depth_jaccard", "layers_differ", "layer_keys"):
        assert np.isnan(of(found, name)), name
    assert float(of(found, "strongest")) == pytest.approx(0, abs=0.001)
    assert float(of(found, "entropy")) == pytest.approx(1, abs=1e-4)


def keyed(steps, size=40, layers=1, anchors=lambda step, layer: (), writes=1, share=0.1, **more):
    """A trace in which each anchor of a step holds `share` and the other keys the rest. The last positions are written,
    `writes` per step, from left to right."""
    attention = np.zeros((steps, layers, 1, size, size))
    for step, layer in np.ndindex(steps, layers):
        keys = list(anchors(step, layer))
        attention[step, layer] = (1 - share * len(keys)) / (size - len(keys))
        attention[step, layer, ..., keys] = share
    first = size - steps * writes
    committed = [(first + i, i // writes) for i in range(steps * writes)]
    regions = ["question"] * first + ["answer"] * (steps * writes)
    return build(attention, causal=False, mask_id=MASK, committed=committed, regions=regions, **more)


def test_sinks_are_told_from_floaters():
    """Key 0 all the time; key 5 in nine steps of ten, which is a sink; and two keys for five steps each."""
    found = drift(keyed(10, anchors=lambda step, layer: {0, 3 if step < 5 else 7} | ({5} if step else set())))
    assert float(of(found, "sink_mass")) == pytest.approx(
        0.1 + 0.1 * 9 / 10 + (0.8 / 38) / 10
    )  # 5 holds some at step 0
    assert float(of(found, "floater_mass")) == pytest.approx(0.1)
    assert of(found, "floater_by_layer")[:, 0].tolist() == [3] * 5 + [7] * 5
    assert float(of(found, "effective_anchors")) == pytest.approx((2 + 9 * 3) / 10)
    assert float(of(found, "strongest")) == pytest.approx(0.1 - 1 / 40)
    assert float(of(found, "floater_jaccard")) == 0
    assert float(of(found, "floater_null")) == pytest.approx(2 * 10 / 45)  # of 45 pairs of steps ten in each half
    seldom = drift(keyed(10, anchors=lambda step, layer: {0} | ({5} if step > 1 else set())))
    assert float(of(seldom, "sink_mass")) == pytest.approx(0.1)  # eight of ten are too few


def test_speed_is_per_token_written_and_tells_where_floaters_go():
    """A sink, and a floater that goes three positions per step; two tokens are written per step."""
    found = drift(keyed(8, writes=2, anchors=lambda step, layer: {0, 2 + 3 * step}, share=0.15))
    assert float(of(found, "speed")) == 1.5
    assert float(of(found, "dwell")) == pytest.approx((8 * 2 + 8 * 2) / 9)  # nine stays in 16 tokens
    assert float(of(found, "quarter_jaccard")) == pytest.approx(1 / 3)
    left = drift(keyed(8, anchors=lambda step, layer: {0, 30 - 3 * step}))
    assert float(of(left, "speed")) == -3
    rare = drift(keyed(8, anchors=lambda step, layer: {0} | ({5 * step} if 0 < step < 4 else set())))
    assert float(of(rare, "speed")) == 0  # three steps of eight have a floater: not enough for a track
    still = drift(keyed(8, anchors=lambda step, layer: {0, 9 if step < 7 else 12}))
    assert float(of(still, "speed")) == 0


def test_a_floater_that_stays_at_the_frontier_gains_all():
    """The answer is written at 32 … 39. The floater is there, one position behind, or at the mirrored place."""
    there, behind, away = (
        drift(keyed(8, anchors=lambda step, layer, at=at: {at(step)}))
        for at in (lambda step: 32 + step, lambda step: 31 + step, lambda step: 39 - step)
    )
    pairs = list(itertools.product(range(8), repeat=2))
    assert [float(of(there, f"frontier_{what}")) for what in ("distance", "gain")] == [0, 1]
    assert float(of(there, "frontier_null")) == np.mean([abs(a - b) for a, b in pairs]) == 2.625
    assert float(of(behind, "frontier_distance")) == 1
    assert float(of(behind, "frontier_gain")) == pytest.approx(1 - 1 / np.mean([abs(a - 1 - b) for a, b in pairs]))
    assert float(of(away, "frontier_distance")) == np.mean([abs(7 - 2 * s) for s in range(8)]) == 4
    assert float(of(away, "frontier_gain")) == pytest.approx(1 - 4 / 2.625)


def test_a_move_to_the_same_token_is_seen():
    """Keys 3, 4, 5 … hold tokens 7, 7, 8, 8, 9, 9, 9, 9: of seven moves four end on the token they left. In the second
    trace the floater rests every other step, and a rest is no move."""
    ids = [1, 1, 1, 7, 7, 8, 8, 9, 9, 9, 9, *range(20, 49)]
    each = drift(keyed(8, anchors=lambda step, layer: {3 + step}, final=ids))
    assert float(of(each, "same_token")) == pytest.approx(5 / 7)
    rests = drift(keyed(8, anchors=lambda step, layer: {3 + step // 2}, final=ids))
    assert float(of(rests, "same_token")) == pytest.approx(2 / 3)


# -- layers -----------------------------------------------------------------------------------------------------------


def test_layers_are_compared_in_pairs_and_as_neighbours():
    """Layers 0 and 1 share key 0, layer 2 has 5, and layer 3 has 0 and 5. Overlaps of the six pairs: 1, 0, ½, 0, ½, ½;
    strongest keys 0, 0, 5, 0: of three neighbours two differ, and two keys serve four layers."""
    sets = ({0}, {0}, {5}, {0, 5})
    found = drift(keyed(4, layers=4, anchors=lambda step, layer: sets[layer]))
    assert float(of(found, "depth_jaccard")) == pytest.approx(2.5 / 6)
    assert of(found, "depth_jaccard_by_layer") == pytest.approx(np.array([1.5, 1.5, 0.5, 1.5]) / 3)
    assert float(of(found, "layers_differ")) == pytest.approx(2 / 3)
    assert float(of(found, "layer_keys")) == 2 / 4
    assert float(of(found, "first_strongest")) == 3 / 4


def test_layers_without_anchors_count_for_nothing():
    """Layer 1 has an anchor in one step of eight and layer 2 in four; of neighbours only 2 and 3 both have some."""
    wanted = (range(8), [3], range(4), range(8))
    trace = keyed(8, layers=4, anchors=lambda step, layer: {layer} if step in wanted[layer] else ())
    found = drift(trace)
    assert of(found, "anchored_by_layer").tolist() == [1, 1 / 8, 1 / 2, 1]
    assert float(of(found, "anchored_layers")) == 3 / 4
    assert float(of(found, "anchored")) == pytest.approx((1 + 1 / 8 + 1 / 2 + 1) / 4)
    assert np.isnan(of(found, "quarter_jaccard_by_layer")).tolist() == [False, True, False, False]
    assert float(of(found, "quarter_jaccard")) == pytest.approx((1 + 0 + 1) / 3)
    assert float(of(found, "layers_differ")) == 1
    assert float(of(found, "effective_anchors")) == pytest.approx((1 + 1 / 2 + 1) / 3)
    masses = of(found, "strongest_by_layer")
    assert float(of(found, "strongest")) == pytest.approx(masses[[0, 2, 3]].mean())


def test_neighbours_are_layers_with_neighbouring_numbers():
    """Layers 0, 1, 5 and 6 were kept; 1 and 5 differ, but are no neighbours."""
    trace = keyed(4, layers=4, anchors=lambda step, layer: {layer // 2}, layer_numbers=[0, 1, 5, 6])
    assert float(of(drift(trace), "layers_differ")) == 0
    assert float(of(drift(keyed(4, layers=4, anchors=lambda step, layer: {layer // 2})), "layers_differ")) == 1 / 3


# -- steps ------------------------------------------------------------------------------------------------------------


def test_the_tracks_of_one_trace_are_kept_step_by_step_and_of_several_they_are_not():
    """The anchor of the moving pattern stands at 2, 4 … 16; there are eight steps and four layers."""
    one = ready("moving", causal=False)
    found = drift(one)
    places = [anchor_at("moving", step) for step in range(8)]
    assert of(found, "track_by_layer").tolist() == of(found, "floater_by_layer").tolist() == [[p] * 4 for p in places]
    assert found.groups[0].coordinate("track_by_layer", "step") == list(range(8))
    more = drift([one, ready("moving", causal=False, sample=1)]).groups[0]
    assert not {"track_by_layer", "floater_by_layer"} & set(more.samples.data_vars)
    assert "step" not in more.samples.coords


def test_traces_of_unlike_length_are_analysed_together():
    long, short = (ready("fixed", causal=False, sample=sample) for sample in range(2))
    found = drift([long, type(short)(short.data.isel(step=slice(0, 3)))])
    assert found.group().estimate("steps").mean.tolist() == [5.5] * 3  # of eight and three
    assert found.group().estimate("quarter_jaccard").n.tolist() == [1, 1, 1]  # three steps have no quarters


def test_one_step_has_no_motion():
    found = drift(build(random_attention(3, 1, 2, 2, 15, causal=False), causal=False), rule="top1")
    for name in ("slope", "jaccard", "quarter_jaccard", "step_null", "wasserstein", "frontier", "speed"):
        assert np.isnan(of(found, name)), name
        assert np.isnan(of(found, f"{name}_by_layer")).all(), name
    assert np.isnan(of(found, "lag_jaccard")).all()
    assert float(of(found, "distinct")) == 1


def test_more_steps_of_the_same_journey_do_not_change_the_quarters():
    """Anchors that are all elsewhere at the end: from step to step they hardly move when there are many steps."""
    few, many = (
        drift(keyed(steps, size=160, anchors=lambda step, layer, n=steps: {int(5 * step / n)})) for steps in (8, 128)
    )
    assert float(of(many, "jaccard")) == pytest.approx(123 / 127)
    assert float(of(few, "jaccard")) == pytest.approx(3 / 7)
    assert float(of(many, "quarter_jaccard")) == float(of(few, "quarter_jaccard")) == 0
    near = [(a, b) for a, b in itertools.combinations(range(128), 2) if 0.05 <= (b - a) / 127 < 0.15]
    assert of(many, "lag_jaccard")[0] == pytest.approx(np.mean([5 * a // 128 == 5 * b // 128 for a, b in near]))
    assert of(many, "lag_jaccard")[2:].tolist() == [0] * 8


def test_the_frontier_is_the_mean_position_a_step_commits():
    attention = random_attention(0, 3, 1, 1, 8, causal=False)
    trace = build(attention, causal=False, mask_id=MASK, committed=[(4, 0), (7, 0), (5, 2)])
    assert np.array_equal(frontier(trace), [5.5, np.nan, 5], equal_nan=True)
    assert frontier(ready("moving", causal=True)).tolist() == [PROMPT + step for step in range(8)]


def test_entropy_of_a_sequence_that_grows_is_of_the_keys_that_stand():
    """One layer and head: uniform over 2, then over 3 keys of a bidirectional reader; both are as even as can be."""
    attention = np.zeros((2, 1, 1, 4, 4))
    attention[0, 0, 0, :2, :2], attention[1, 0, 0, :3, :3] = 1 / 2, 1 / 3
    found = drift(build(attention, causal=False, committed=[(2, 0), (3, 1)]))
    assert float(of(found, "entropy")) == pytest.approx(1, abs=1e-6)


# -- query groups -----------------------------------------------------------------------------------------------------


def test_query_groups_are_side_by_side():
    """Prompt rows look at key 0 all the time, answer rows at 2, 4, 6 …, and those still masked at 3 besides."""
    steps, size = 8, 60
    attention = np.full((steps, 1, 1, size, size), 0.5 / size)
    for step in range(steps):
        attention[step, 0, 0, : size - steps, 0] += 0.5
        attention[step, 0, 0, size - steps :, 2 + 2 * step] += 0.5
        attention[step, 0, 0, size - steps + step :, 2 + 2 * step] -= 0.25
        attention[step, 0, 0, size - steps + step :, 3] += 0.25
    committed = [(size - steps + step, step) for step in range(steps)]
    regions = ["question"] * (size - steps) + ["answer"] * steps
    found = drift(build(attention, causal=False, mask_id=MASK, committed=committed, regions=regions))
    assert found.group().coordinate("jaccard", "queries") == list(QUERIES) == ["all", "answer", "masked"]
    assert of(found, "track_by_layer", ALL)[:, 0].tolist() == [0] * steps
    assert of(found, "floater_by_layer", ANSWER)[:, 0].tolist() == [2 + 2 * step for step in range(steps)]
    assert [float(of(found, "speed", group)) for group in (ANSWER, MASKED)] == [2, 2]
    assert float(of(found, "quarter_jaccard", MASKED)) == pytest.approx(1 / 3)  # 3 stays, the other goes
    assert float(of(found, "sink_mass", MASKED)) == pytest.approx(0.25 + 0.5 / size)
    assert float(of(found, "first", ALL)) == pytest.approx(0.5 * (size - steps) / size + 0.5 / size - 1 / size)
    assert float(of(found, "first", ANSWER)) == pytest.approx(0.5 / size - 1 / size)


def test_a_group_without_queries_has_no_numbers_and_steps_without_queries_are_left_out():
    """An autoregressive model has no masks, and no row of the answer before its first token is written."""
    found = drift(ready("fixed", causal=True))
    assert found.group().values("steps")[0].tolist()[:2] == [8, 7]
    for name in found.variables:
        assert np.isnan(of(found, name, MASKED)).all(), name
    assert np.isnan(of(found, "track_by_layer", ANSWER)[:, 0]).tolist() == [True] + [False] * 7
    assert float(of(found, "quarter_jaccard", ANSWER)) == 1
    assert float(of(found, "dwell", ANSWER)) == 7  # seven tokens are written from step 1 on


# -- against loops ----------------------------------------------------------------------------------------------------

SCALARS = ("slope", "jaccard", "quarter_jaccard", "step_null", "floater_jaccard", "floater_null", "lifetime", "dwell")
SCALARS += ("distinct", "entropy", "wasserstein", "frontier", "strongest", "first", "sink_mass", "floater_mass")
SCALARS += ("effective_anchors", "speed", "frontier_distance", "frontier_null", "frontier_gain", "same_token")


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_every_scalar_against_loops_over_steps(causal, seed):
    """Random attention with a sink on key 1, steps recorded at uneven numbers; topk has two anchors in every step."""
    numbers, size = [0, 1, 4, 6, 9, 10], 12
    attention = random_attention(seed, 6, 3, 2, size, causal=causal)
    attention[..., 1:, 1] += 1
    attention /= attention.sum(axis=-1, keepdims=True)
    committed = [(8, 0), (10, 0), (9, 4), (11, 9), (7, 9)]
    ids = np.random.default_rng(seed).integers(10, 13, size=size)
    trace = build(attention, causal=causal, mask_id=MASK, committed=committed, step_numbers=numbers, final=ids)
    found = drift(trace, rule="topk(2)")
    share = attention.mean(axis=(2, 3))  # (step, layer, key): over heads and queries
    seen = [1 / size if not causal else sum(1 / (i + 1) for i in range(j, size)) / size for j in range(size)]
    expected = [
        scalars(share[:, layer], numbers, [9.0, np.nan, 9.0, np.nan, 9.0, np.nan], seen, trace.data["sequence"].values)
        for layer in range(3)
    ]
    for scalar in SCALARS:
        each = [one[scalar] for one in expected]
        assert of(found, f"{scalar}_by_layer") == pytest.approx(each, abs=1e-5, nan_ok=True), scalar
        mean = np.mean([x for x in each if x == x]) if any(x == x for x in each) else np.nan
        assert float(of(found, scalar)) == pytest.approx(mean, abs=1e-5, nan_ok=True), scalar
    lags = np.array([[one["lags"].get(lag, np.nan) for lag in LAGS] for one in expected])
    assert of(found, "lag_jaccard_by_layer") == pytest.approx(lags, abs=1e-5, nan_ok=True)
    assert np.isfinite(lags).any(axis=0).tolist() == [lag not in (0.7,) for lag in LAGS]
    pairs = [
        overlap(top2(share[s, a]), top2(share[s, b])) for s in range(6) for a, b in itertools.combinations(range(3), 2)
    ]
    assert float(of(found, "depth_jaccard")) == pytest.approx(np.mean(pairs))


def scalars(share, numbers, front, uniform, tokens):
    """Of shares (step, key), with plain python and scipy. Tokens are written at steps 0, 0, 4, 9, 9."""
    steps, size = share.shape
    sets = [top2(row) for row in share]
    pairs = list(itertools.combinations(range(steps), 2))
    often = {key for key in range(size) if sum(key in one for one in sets) >= 0.9 * steps}
    floating = [one - often for one in sets]
    runs = [
        [step for step, _ in run]
        for key in range(size)
        for held, run in itertools.groupby(enumerate(key in one for one in sets), key=lambda at: at[1])
        if held
    ]
    when = [0, 0, 4, 9, 9]
    ends = [*numbers[1:], 99]
    writes = [sum(a <= w < b for w in when) for a, b in zip(numbers, ends, strict=True)]
    written = [sum(w < a for w in when) for a in numbers]
    track = [max(one, key=lambda key, row=row: row[key]) for one, row in zip(sets, share, strict=True)]
    floater = [
        max(one, key=lambda key, row=row: row[key], default=None) for one, row in zip(floating, share, strict=True)
    ]
    if sum(key is not None for key in floater) < steps / 2:
        floater = [None] * steps
    early, late = [s for s in range(steps) if numbers[s] <= 2.5], [s for s in range(steps) if numbers[s] >= 7.5]
    lags = {}
    for a, b in pairs:
        lags.setdefault(round(int((numbers[b] - numbers[a]) / 10 * 10 + 0.5) / 10, 1), []).append(
            overlap(sets[a], sets[b])
        )
    both = [s for s in range(steps) if floater[s] is not None and front[s] == front[s]]
    distance = np.mean([abs(floater[s] - front[s]) for s in both]) if both else np.nan
    null = np.mean([abs(floater[s] - front[t]) for s in both for t in both]) if both else np.nan
    moves = [s for s in range(1, steps) if None not in (floater[s], floater[s - 1]) and floater[s] != floater[s - 1]]
    rises = [
        (floater[b] - floater[a]) / (written[b] - written[a])
        for a, b in pairs
        if None not in (floater[a], floater[b]) and written[a] != written[b]
    ]
    fixed = [(t, f) for t, f in zip(track, front, strict=True) if f == f]
    moving = len({t for t, _ in fixed}) > 1 and len({f for _, f in fixed}) > 1
    places = np.linspace(0, 1, size)
    inside = [[row[key] / sum(row[k] for k in one) for key in one] for one, row in zip(sets, share, strict=True)]
    return {
        "slope": stats.theilslopes(track, numbers).slope,
        "jaccard": np.mean([overlap(a, b) for a, b in itertools.pairwise(sets)]),
        "quarter_jaccard": np.mean([overlap(sets[a], sets[b]) for a in early for b in late]),
        "step_null": np.mean([overlap(sets[a], sets[b]) for a, b in pairs]),
        "floater_jaccard": mean([overlap(floating[a], floating[b]) for a in early for b in late]),
        "floater_null": mean([overlap(floating[a], floating[b]) for a, b in pairs]),
        "lifetime": np.mean([len(run) for run in runs]),
        "dwell": np.mean([sum(writes[step] for step in run) for run in runs]),
        "distinct": len(set().union(*sets)),
        "entropy": np.mean([stats.entropy(row) / np.log(size) for row in share]),
        "wasserstein": np.mean(
            [stats.wasserstein_distance(places, places, a, b) for a, b in itertools.pairwise(share)]
        ),
        "frontier": stats.pearsonr(*zip(*fixed, strict=True)).statistic if moving else np.nan,
        "strongest": np.mean([row[key] - uniform[key] for key, row in zip(track, share, strict=True)]),
        "first": np.mean([row[0] - uniform[0] for row in share]),
        "sink_mass": np.mean([sum(row[key] for key in often) for row in share]),
        "floater_mass": np.mean([sum(row[key] for key in one) for one, row in zip(floating, share, strict=True)]),
        "effective_anchors": np.mean([np.exp(stats.entropy(one)) for one in inside]),
        "speed": np.median(rises) if rises else 0.0,
        "frontier_distance": distance,
        "frontier_null": null,
        "frontier_gain": 1 - distance / null if both and null else np.nan,
        "same_token": mean([tokens[s][floater[s]] == tokens[s - 1][floater[s - 1]] for s in moves]),
        "lags": {lag: np.mean(values) for lag, values in lags.items()},
    }


def top2(row):
    return {int(j) for j in np.argsort(-row)[:2]}


def overlap(a, b):
    return len(a & b) / len(a | b) if a | b else np.nan


def mean(values):
    kept = [value for value in values if value == value]
    return np.mean(kept) if kept else np.nan
