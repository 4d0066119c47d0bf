"""Extreme tokens: norms of anchors over those of the median token, and dormant heads, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from floatlens.analysis import extremes
from shared.synthetic import build, ready, spread

SIZE = 15


def trace_of(weights, *, value=None, residual=None, **more):
    steps, layers, heads, size, _ = weights.shape
    value = np.ones((steps, layers, heads, size)) if value is None else value
    residual = np.ones((steps, layers, size)) if residual is None else residual
    causal = more.pop("causal", False)
    attention = spread(weights, causal=causal, lengths=more.pop("lengths", None))
    return build(attention, causal=causal, value_norm=value, residual_norm=residual, **more)


def peaked(anchor, steps=1, layers=1, heads=1):
    weights = np.full((steps, layers, heads, SIZE, SIZE), 0.001)
    weights[..., anchor] = 1
    return weights


def test_ratios_are_of_anchors_to_the_median_token():
    """Fifteen tokens with values 1 … 15, the anchor (key 4) has 5: the median is 8."""
    value = np.arange(1.0, 16).reshape(1, 1, 1, SIZE)
    residual = 100 - np.arange(1.0, 16).reshape(1, 1, SIZE)
    found = extremes(trace_of(peaked(4), value=value, residual=residual))
    assert found.group().estimate("value_ratio").mean.tolist() == [pytest.approx(5 / 8)]
    assert found.group().estimate("residual_ratio").mean.tolist() == [pytest.approx(95 / 92)]


def test_value_ratios_are_averaged_over_key_heads_after_dividing():
    """Key head 0: anchor 1, median 2; key head 1: anchor 30, median 10. Ratios ½ and 3, not 31/12."""
    value = np.full((1, 1, 2, SIZE), 2.0)
    value[0, 0, 1] = 10
    value[0, 0, 0, 4], value[0, 0, 1, 4] = 1, 30
    found = extremes(trace_of(peaked(4, heads=2), value=value))
    assert found.group().estimate("value_ratio").mean.tolist() == [pytest.approx(1.75)]


def test_several_anchors_are_averaged():
    weights = peaked(4)
    weights[..., 9] = 1
    residual = np.full((1, 1, SIZE), 2.0)
    residual[0, 0, 4], residual[0, 0, 9] = 10, 30
    assert extremes(trace_of(weights, residual=residual), rule="topk(2)").group().estimate(
        "residual_ratio"
    ).mean.tolist() == [10]


def test_dormant_heads_have_more_than_so_much_on_the_anchors():
    """Four heads with 0.9, 0.6, 0.4 and 0.04 of their attention on key 2."""
    weights = np.empty((1, 1, 4, SIZE, SIZE))
    for head, mass in enumerate((0.9, 0.6, 0.4, 0.04)):
        weights[0, 0, head] = (1 - mass) / (SIZE - 1)
        weights[0, 0, head, :, 2] = mass
    trace = trace_of(weights)
    for above, share in ((0.5, 0.5), (0.3, 0.75), (0.95, 0), (0.01, 1)):
        assert extremes(trace, rule="top1", dormant_above=above).group().estimate("dormant").mean.tolist() == [share]


def test_dormant_heads_are_those_of_the_group_that_asks():
    """The answer looks at key 2; everybody else, twelve of fifteen, does not."""
    weights = np.full((1, 1, 1, SIZE, SIZE), 1.0)
    weights[0, 0, 0, 12:] = np.eye(SIZE)[2]
    trace = trace_of(weights, regions=["question"] * 12 + ["answer"] * 3)
    assert extremes(trace, rule="top1", group="answer").group().estimate("dormant").mean.tolist() == [1]
    assert extremes(trace, rule="top1").group().estimate("dormant").mean.tolist() == [0]


def test_steps_without_anchors_are_left_out():
    weights = peaked(4, steps=2)
    weights[1] = 1
    residual = np.full((2, 1, SIZE), 2.0)
    residual[0, 0, 4], residual[1, 0, 4] = 10, 1000
    found = extremes(trace_of(weights, residual=residual))
    assert found.group().estimate("residual_ratio").mean.tolist() == [5]
    assert found.group().estimate("dormant").mean.tolist() == [1]


def test_layers_are_apart_and_absent_keys_do_not_move_the_median():
    """Causal and growing: at step 0 thirteen tokens stand, with residuals 1 … 13 and a median of 7."""
    residual = np.tile(np.arange(1.0, 16), (2, 2, 1))
    residual[:, 1, 0] = 70
    weights = peaked(0, steps=2, layers=2)
    trace = trace_of(weights, residual=residual, causal=True, lengths=[13, 14], committed=[(13, 0), (14, 1)])
    found = extremes(trace).group().estimate("residual_ratio").mean
    assert found[0] == pytest.approx((1 / 7 + 1 / 7.5) / 2)
    assert found[1] == pytest.approx((70 / 8 + 70 / 8.5) / 2)


@pytest.mark.parametrize("pattern", ["fixed", "moving"])
@pytest.mark.parametrize("causal", [True, False])
def test_ready_made_anchors_are_drains_and_peaks(pattern, causal):
    found = extremes(ready(pattern, causal=causal))
    assert np.allclose(found.group().estimate("value_ratio").mean, 0.1, rtol=0.15)
    assert np.allclose(found.group().estimate("residual_ratio").mean, 20, rtol=0.15)
    assert (found.group().estimate("dormant").mean > (0.6 if pattern == "moving" and causal else 0.99)).all()
