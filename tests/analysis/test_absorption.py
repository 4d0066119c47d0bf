"""Absorption in both views, with null and excess, against sums by hand."""

from __future__ import annotations

import numpy as np
import pytest

from floatlens.analysis import absorption
from shared.synthetic import MASK, PROMPT, build, random_attention, ready, samples, spread


def by_view(result, name):
    estimate = result.group().estimate(name)
    return {"fixed": estimate.mean[0], "floating": estimate.mean[1]}


@pytest.mark.parametrize("causal", [True, False])
def test_both_views_against_sums_over_keys(causal):
    lengths = [5, 6, 7] if causal else None
    attention = random_attention(2, 3, 2, 2, 8, causal=causal, lengths=lengths)
    committed = [(5, 0), (6, 1), (7, 2)]
    trace = build(attention, causal=causal, mask_id=None if causal else MASK, committed=committed)
    found = absorption(trace, rule="topk(2)")
    for layer in range(2):
        expected = {"fixed": [], "floating": []}
        null = {"fixed": [], "floating": []}
        for step in range(3):
            length = lengths[step] if causal else 8
            share = sum(attention[step, layer, h, i] for h in range(2) for i in range(length)) / (2 * length)
            even = [
                sum(1 / (i + 1 if causal else length) for i in range(j if causal else 0, length)) / length
                for j in range(8)
            ]
            top = np.argsort(-share)[:2]
            expected["fixed"].append(100 * share[0])
            expected["floating"].append(100 * share[top].sum())
            null["fixed"].append(100 * even[0])
            null["floating"].append(100 * sum(even[j] for j in top))
        for view in ("fixed", "floating"):
            absorbed, free = np.mean(expected[view]), np.mean(null[view])
            assert by_view(found, "absorbed")[view][layer] == pytest.approx(absorbed, abs=1e-4)
            assert by_view(found, "uniform")[view][layer] == pytest.approx(free, abs=1e-4)
            assert by_view(found, "excess")[view][layer] == pytest.approx(absorbed - free, abs=1e-4)
    assert by_view(found, "anchors")["fixed"].tolist() == [1, 1]
    assert by_view(found, "anchors")["floating"].tolist() == [2, 2]


def test_a_fixed_sink_is_the_same_in_both_views_and_a_moving_one_is_not():
    fixed, moving = absorption(ready("fixed", causal=False)), absorption(ready("moving", causal=False))
    assert np.allclose(by_view(fixed, "absorbed")["fixed"], by_view(fixed, "absorbed")["floating"])
    assert (by_view(fixed, "absorbed")["fixed"] > 90).all()
    assert (by_view(moving, "absorbed")["fixed"] < 1).all()
    assert (by_view(moving, "absorbed")["floating"] > 90).all()


def test_what_a_causal_mask_gives_for_nothing_is_no_excess():
    """Uniform attention: the first key of a causal model takes much, and none of it in excess of the null."""
    flat = spread(np.ones((1, 1, 1, 20, 20)), causal=True)
    found = absorption(build(flat, causal=True))
    expected = 100 * sum(1 / (i + 1) for i in range(20)) / 20
    assert by_view(found, "absorbed")["fixed"][0] == pytest.approx(expected, abs=1e-3)
    assert np.allclose(found.group().estimate("excess").mean, 0, atol=1e-4)
    both = absorption(build(spread(np.ones((1, 1, 1, 20, 20)), causal=False), causal=False))
    assert by_view(both, "absorbed")["fixed"][0] == pytest.approx(5, abs=1e-4)
    assert np.allclose(both.group().estimate("excess").mean, 0, atol=1e-4)


def test_an_empty_set_of_anchors_absorbs_nothing():
    found = absorption(ready("uniform", causal=False, noise=0), rule="zscore")
    assert by_view(found, "absorbed")["floating"].tolist() == [0] * 4
    assert by_view(found, "anchors")["floating"].tolist() == [0] * 4
    assert by_view(found, "excess")["floating"].tolist() == [0] * 4


def test_steps_at_which_nobody_asked_are_left_out_of_both_views():
    """The answer of an autoregressive model asks from the second pass on: the mean is over seven passes of eight."""
    trace = ready("fixed", causal=True)
    found = absorption(trace, group="answer")
    rows = trace.data["received_answer"].values[1:, :, :, 0].astype(float).mean(axis=(0, 2)) * 100
    assert np.allclose(by_view(found, "absorbed")["fixed"], rows)
    assert np.allclose(by_view(found, "absorbed")["floating"], rows)
    assert by_view(found, "anchors")["floating"].tolist() == [1] * 4
    nulls = []
    for step in range(1, 8):
        answer = range(PROMPT, PROMPT + step)
        nulls.append(100 * np.mean([1 / (i + 1) for i in answer]))
    assert np.allclose(by_view(found, "uniform")["fixed"], np.mean(nulls))


def test_a_group_that_never_asks_has_no_number():
    found = absorption(ready("fixed", causal=True), group="masked")
    assert np.isnan(found.group().estimate("absorbed").mean).all()
    assert (found.group().estimate("absorbed").n == 0).all()


def test_a_rule_that_looks_at_heads_is_averaged_over_them():
    """Head 0 has 0.7 on key 0, head 1 0.7 on key 2; the rest is even. Fixed: (70 + 10) / 2, floating 70."""
    weights = np.full((1, 1, 2, 4, 4), 0.1)
    weights[0, 0, 0, :, 0] = weights[0, 0, 1, :, 2] = 0.7
    found = absorption(build(weights, causal=False), rule="gu(0.6)")
    assert by_view(found, "absorbed")["fixed"][0] == pytest.approx(40, abs=1e-4)
    assert by_view(found, "absorbed")["floating"][0] == pytest.approx(70, abs=1e-4)
    assert by_view(found, "uniform")["floating"][0] == pytest.approx(25, abs=1e-4)


def test_mean_and_deviation_are_over_samples():
    traces = samples("moving", causal=True, n=3)
    found = absorption(traces).group().estimate("absorbed")
    singles = np.array([absorption(trace).group().estimate("absorbed").mean for trace in traces])
    assert found.mean.shape == (2, 4)
    assert (found.n == 3).all()
    assert np.allclose(found.mean, singles.mean(axis=0))
    assert np.allclose(found.std, singles.std(axis=0, ddof=1))
