"""Three ways in which the published scripts go wrong, each beside what is measured here.

(a) anchors are columns whose mean is above mean + 3.0, which no column can reach; (b) q and k are averaged over heads
before the product is taken; (c) autoregressive models are scored on BOS and diffusion models on the largest column.
"""

from __future__ import annotations

import numpy as np
import pytest

from floatlens.analysis import absorption, anchors, qk
from shared.synthetic import BOS, MASK, anchor_at, build, random_attention, ready, spread

# -- (a) ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("causal", [True, False])
def test_no_column_reaches_its_mean_plus_three_and_ours_finds_the_anchor(causal):
    trace = ready("moving", causal=causal)
    received = trace.data["received"].values.mean(axis=2)  # (step, layer, key)
    assert not (received > np.nanmean(received, axis=-1, keepdims=True) + 3.0).any()
    found = anchors(trace, rule="zscore(3)").is_anchor.values
    for step in range(8):
        for layer in range(4):
            assert np.flatnonzero(found[step, layer]).tolist() == [anchor_at("moving", step)]


def test_the_rule_of_sums_reaches_what_means_cannot():
    """All mass on one of 30 columns: its sum is about 30, its mean at most 1."""
    found = anchors(ready("fixed", causal=False), rule="rulli(3)").is_anchor.values
    assert found[..., 0].all()
    assert not found[..., 1:].any()


# -- (b) ------------------------------------------------------------------------------------------------------------


def two_heads(q, k, anchor=2, size=12):
    """A trace of two heads; q and k are (head, query or key, dim)."""
    weights = np.full((1, 1, 2, size, size), 0.001)
    weights[..., anchor] = 1
    return build(spread(weights, causal=False), causal=False, q=q[None, None], k=k[None, None])


def test_heads_that_cancel_have_a_mean_product_and_no_product_of_means():
    """Queries and the anchor's key are (1, 0) in head 0 and (−1, 0) in head 1: q·k is 1 in both. Means over heads are
    zero, so is their product."""
    sign = np.array([1.0, -1.0])[:, None, None]
    q = sign * np.tile([1.0, 0], (1, 12, 1))
    k = np.tile([0, 1.0], (2, 12, 1))
    k[:, 2] = [[1, 0], [-1, 0]]
    averaged = q.mean(axis=0) @ k.mean(axis=0).T
    assert not averaged.any()
    assert np.allclose(qk(two_heads(q, k), rule="top1").group().estimate("dot").mean, [[1, 1]])


def test_averaging_heads_first_can_turn_the_sign():
    """Head 0: q = 3, anchor 1, others 0. Head 1: q = −1, anchor −2, others 0. Products 3 and 2, mean 2.5; the mean
    query is 1 and the mean key −0.5, their product −0.5."""
    q = np.array([3.0, -1.0])[:, None, None] * np.ones((2, 12, 1))
    k = np.full((2, 12, 1), 1e-9)
    k[:, 2, 0] = [1, -2]
    assert (q.mean(axis=0) @ k.mean(axis=0).T)[:, 2] == pytest.approx(-0.5)
    found = qk(two_heads(q, k), rule="top1").group().estimate("dot").mean
    assert np.allclose(found, [[3, 2]], atol=1e-6)
    assert found.mean() == pytest.approx(2.5, abs=1e-6)


# -- (c) ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", [0, 5])
def test_the_same_attention_gets_the_same_number_whatever_the_kind_of_model(where):
    """A sink on BOS, or elsewhere: scored on BOS the one kind, on the largest column the other, these would differ."""
    attention = random_attention(3, 4, 3, 2, 16, causal=True) / 2
    attention[..., where:, where] += 0.5
    attention[..., :where, 0] += 0.5  # rows that cannot see the sink
    arm = build(attention, causal=True, final=[BOS, *range(20, 35)])
    mdm = build(attention, causal=False, final=[BOS, *range(20, 35)], mask_id=MASK)
    assert (arm.model["kind"], mdm.model["kind"]) == ("arm", "mdm")
    one, other = absorption(arm).group().estimate("absorbed").mean, absorption(mdm).group().estimate("absorbed").mean
    assert np.array_equal(one, other)
    share = attention.mean(axis=(2, 3))  # (step, layer, key)
    assert np.allclose(one[0], 100 * share[..., 0].mean(axis=0), atol=1e-4)
    assert np.allclose(one[1], 100 * share.max(axis=-1).mean(axis=0), atol=1e-4)
    if where:
        assert (np.abs(one[0] - one[1]) > 1).all()  # as the two would be set side by side


def test_what_differs_between_the_kinds_is_what_the_mask_gives_for_nothing():
    attention = random_attention(3, 1, 1, 1, 16, causal=True)
    arm = absorption(build(attention, causal=True))
    mdm = absorption(build(attention, causal=False, mask_id=MASK))
    assert arm.group().estimate("uniform").mean[0, 0] == pytest.approx(100 * np.mean([1 / (i + 1) for i in range(16)]))
    assert mdm.group().estimate("uniform").mean[0, 0] == pytest.approx(100 / 16)
    assert np.allclose(
        arm.group().estimate("excess").mean + arm.group().estimate("uniform").mean,
        mdm.group().estimate("excess").mean + mdm.group().estimate("uniform").mean,
    )
