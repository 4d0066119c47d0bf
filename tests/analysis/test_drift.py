"""Drift of anchors over steps: the ready-made patterns by hand, and one trace against loops over steps."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from floatlens.analysis import drift
from floatlens.analysis.drift import frontier
from shared.synthetic import MASK, PROMPT, anchor_at, build, random_attention, ready

SCALARS = ("slope", "jaccard", "lifetime", "distinct", "entropy", "wasserstein", "frontier")


@pytest.mark.parametrize("causal", [True, False])
def test_a_fixed_sink_does_not_move(causal):
    found = drift(ready("fixed", causal=causal))
    assert [float(found.group().estimate(name).mean) for name in ("slope", "jaccard", "lifetime", "distinct")] == [
        0,
        1,
        8,
        1,
    ]
    assert np.isnan(found.group().estimate("frontier").mean)  # a track that stands still goes along with nothing
    assert float(found.group().estimate("wasserstein").mean) < 0.005
    by_layer = found.group().estimate("depth_jaccard_by_layer").mean
    assert np.isnan(by_layer[0])
    assert by_layer[1:].tolist() == [1, 1, 1]


@pytest.mark.parametrize("causal", [True, False])
def test_a_moving_anchor_is_followed(causal):
    """Two positions to the right per step, each for one step, along with the frontier."""
    found = drift(ready("moving", causal=causal))
    assert [float(found.group().estimate(name).mean) for name in ("slope", "jaccard", "lifetime", "distinct")] == [
        2,
        0,
        1,
        8,
    ]
    assert float(found.group().estimate("frontier").mean) == pytest.approx(1)
    assert found.group().estimate("slope_by_layer").mean.tolist() == [2, 2, 2, 2]
    assert found.group().estimate("depth_jaccard_by_layer").mean[1:].tolist() == [1, 1, 1]
    if not causal:  # nearly all mass goes two positions of 29 per step
        assert float(found.group().estimate("wasserstein").mean) == pytest.approx(2 / 29, rel=0.1)


def test_the_track_of_one_trace_is_kept_step_by_step_and_of_several_it_is_not():
    """The anchor of the moving pattern stands at 2, 4 … 16; there are eight steps and four layers."""
    one = ready("moving", causal=False)
    found = drift(one)
    places = [anchor_at("moving", step) for step in range(8)]
    assert found.group().estimate("track").mean.tolist() == places
    assert found.group().estimate("track_by_layer").mean.tolist() == [[place] * 4 for place in places]
    assert found.groups[0].coordinate("track_by_layer", "step") == list(range(8))
    more = drift([one, ready("moving", causal=False, sample=1)]).groups[0]
    assert not {"track", "track_by_layer"} & set(more.samples.data_vars)
    assert "step" not in more.samples.coords


def test_traces_of_unlike_length_are_analysed_together():
    long, short = (ready("fixed", causal=False, sample=sample) for sample in range(2))
    found = drift([long, type(short)(short.data.isel(step=slice(0, 3)))])
    assert float(found.group().estimate("steps").mean) == 5.5  # of eight and three


@pytest.mark.parametrize(("pattern", "share"), [("fixed", 1), ("moving", 1 / 8)])
def test_lifetime_is_told_as_a_share_of_the_steps_too(pattern, share):
    """A fixed anchor lives through all eight steps and a moving one through one; of four steps, four and one."""
    trace = ready(pattern, causal=False)
    found = drift(trace)
    assert float(found.group().estimate("steps").mean) == 8
    assert float(found.group().estimate("lifetime_share").mean) == share
    assert found.group().estimate("lifetime_share_by_layer").mean.tolist() == [share] * 4
    half = drift(type(trace)(trace.data.isel(step=slice(0, 4))))
    assert float(half.group().estimate("lifetime_share").mean) == (1 if pattern == "fixed" else 1 / 4)


def test_depth_is_compared_between_neighbouring_layers_only():
    """Layers 0, 1, 5 and 6 were kept: 1 with 0 and 6 with 5, but 5 with none."""
    trace = ready("fixed", causal=False, layer_numbers=[0, 1, 5, 6])
    assert np.isnan(drift(trace).group().estimate("depth_jaccard_by_layer").mean).tolist() == [True, False, True, False]


def test_uniform_attention_has_no_anchors_and_is_spread_evenly():
    found = drift(ready("uniform", causal=False))
    assert float(found.group().estimate("distinct").mean) == 0
    assert np.isnan(found.group().estimate("jaccard").mean)
    assert np.isnan(found.group().estimate("lifetime").mean)
    assert float(found.group().estimate("entropy").mean) == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("causal", [True, False])
def test_every_scalar_against_loops_over_steps(causal):
    """Random attention, steps recorded at uneven numbers; the overall scalars are of the mean over layers."""
    numbers, size = [0, 1, 4, 6, 9], 12
    attention = random_attention(5, 5, 3, 2, size, causal=causal)
    committed = [(8, 0), (10, 0), (9, 4), (11, 9)]
    trace = build(attention, causal=causal, mask_id=MASK, committed=committed, step_numbers=numbers)
    found = drift(trace, rule="topk(2)")
    share = attention.mean(axis=(2, 3))  # (step, layer, key): over heads and queries
    for name, values in (("", share.mean(axis=1)), *((str(layer), share[:, layer]) for layer in range(3))):
        expected = scalars(values, numbers, [9.0, np.nan, 9.0, np.nan, 11.0])
        for scalar in SCALARS:
            given = (
                found.group().estimate(scalar).mean
                if not name
                else found.group().estimate(f"{scalar}_by_layer").mean[int(name)]
            )
            assert float(given) == pytest.approx(expected[scalar], abs=1e-5, nan_ok=True), (name, scalar)
    for layer in (1, 2):
        overlaps = [overlap(top2(share[s, layer]), top2(share[s, layer - 1])) for s in range(5)]
        assert found.group().estimate("depth_jaccard_by_layer").mean[layer] == pytest.approx(np.mean(overlaps))


def scalars(share, numbers, front):
    """Of shares (step, key), with plain python and scipy."""
    size = share.shape[1]
    sets = [top2(row) for row in share]
    runs = [
        len(list(run)) for key in range(size) for held, run in itertools.groupby(key in one for one in sets) if held
    ]
    track = [int(row.argmax()) for row in share]
    places = np.linspace(0, 1, size)
    both = [(t, f) for t, f in zip(track, front, strict=True) if f == f]
    moves = len({t for t, _ in both}) > 1 and len({f for _, f in both}) > 1
    return {
        "slope": stats.theilslopes(track, numbers).slope,
        "jaccard": np.mean([overlap(a, b) for a, b in itertools.pairwise(sets)]),
        "lifetime": np.mean(runs),
        "distinct": len(set().union(*sets)),
        "entropy": np.mean([stats.entropy(row) / np.log(size) for row in share]),
        "wasserstein": np.mean(
            [stats.wasserstein_distance(places, places, a, b) for a, b in itertools.pairwise(share)]
        ),
        "frontier": stats.pearsonr(*zip(*both, strict=True)).statistic if moves else np.nan,
    }


def top2(row):
    return {int(j) for j in np.argsort(-row)[:2]}


def overlap(a, b):
    return len(a & b) / len(a | b)


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
    assert float(found.group().estimate("entropy").mean) == pytest.approx(1, abs=1e-6)


def test_one_step_has_no_motion():
    found = drift(build(random_attention(3, 1, 2, 2, 15, causal=False), causal=False), rule="top1")
    for name in ("slope", "jaccard", "wasserstein", "frontier"):
        assert np.isnan(found.group().estimate(name).mean)
        assert np.isnan(found.group().estimate(f"{name}_by_layer").mean).all()
    assert float(found.group().estimate("distinct").mean) == 1


def test_the_group_of_queries_is_the_one_asked_for():
    """The answer looks at key 3, then 5; everybody else at key 0 all the time."""
    attention = np.zeros((2, 1, 1, 20, 20))
    attention[:, 0, 0, :18, 0] = 1
    attention[0, 0, 0, 18:, 3] = attention[1, 0, 0, 18:, 5] = 1
    trace = build(attention, causal=False, regions=["question"] * 18 + ["answer"] * 2)
    assert float(drift(trace, rule="top1").group().estimate("slope").mean) == 0
    assert float(drift(trace, rule="top1", group="answer").group().estimate("slope").mean) == 2
    by_sums = drift(trace, rule="rulli(3)", group="answer")  # two queries cannot make a sum above 3
    assert (
        float(by_sums.group().estimate("distinct").mean)
        == float(by_sums.group().estimate("distinct_by_layer").mean[0])
        == 0
    )
    assert float(drift(trace, rule="rulli(1.5)", group="answer").group().estimate("distinct").mean) == 2


def test_where_the_anchor_is_was_said_by_the_builder():
    found = drift(ready("moving", causal=True), rule="zscore")
    assert float(found.group().estimate("distinct").mean) == len({anchor_at("moving", step) for step in range(8)})
