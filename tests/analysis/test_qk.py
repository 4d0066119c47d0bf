"""Advantages in q·k: head by head against loops over queries and keys, grouped heads, exact parts."""

from __future__ import annotations

import numpy as np
import pytest

from floatlens.analysis import qk
from floatlens.analysis.qk import key_norm_by_head
from shared.synthetic import build, ready, spread

HEADS, KV_HEADS, SIZE, DIM = 4, 2, 14, 3


def peaked(steps=2, layers=2, anchor=3, *, causal, heads=HEADS, size=SIZE):
    """Attention with one anchor in all heads."""
    weights = np.full((steps, layers, heads, size, size), 0.01)
    weights[..., anchor] = 1
    return spread(weights, causal=causal)


def heads_and_keys(seed, steps=2, layers=2):
    random = np.random.default_rng(seed)
    q = random.normal(size=(steps, layers, HEADS, SIZE, DIM))
    k = random.normal(size=(steps, layers, KV_HEADS, SIZE, DIM)) * random.uniform(0.5, 3, (1, 1, KV_HEADS, SIZE, 1))
    return q, k


@pytest.mark.parametrize("causal", [True, False])
def test_every_number_against_loops_over_queries_and_pairs_of_keys(causal):
    q, k = heads_and_keys(0)
    found = qk(build(peaked(causal=causal), causal=causal, q=q, k=k), rule="top1").group()
    for layer in range(2):
        for head in range(HEADS):
            rows = [by_loops(q[s, layer, head], k[s, layer, head // 2], 3, causal) for s in range(2)]
            for name in rows[0]:
                expected = np.mean([row[name] for row in rows])
                assert found.estimate(name).mean[layer, head] == pytest.approx(expected, rel=1e-4, abs=1e-4), name


def by_loops(q, k, anchor, causal):
    """Differences of one head at one step."""
    dots, cosines, norms = [], [], []
    for j in range(SIZE):
        rows = range(j if causal else 0, SIZE)
        dots.append(np.mean([q[i] @ k[j] for i in rows]))
        cosines.append(np.mean([q[i] @ k[j] / np.linalg.norm(q[i]) / np.linalg.norm(k[j]) for i in rows]))
        norms.append(np.linalg.norm(k[j]))
    others = [j for j in range(SIZE) if j != anchor]
    made = {}
    for name, values in (("dot", dots), ("cos", cosines), ("key_norm", norms)):
        rest = np.array([values[j] for j in others])
        made[name] = values[anchor] - rest.mean()
        made[f"{name}_effect"] = made[name] / rest.std()
    direction = [d / n for d, n in zip(dots, norms, strict=True)]
    made["norm_part"] = np.mean([(norms[anchor] - norms[o]) * (direction[anchor] + direction[o]) / 2 for o in others])
    made["angle_part"] = np.mean([(direction[anchor] - direction[o]) * (norms[anchor] + norms[o]) / 2 for o in others])
    return made


@pytest.mark.parametrize("pattern", ["fixed", "moving"])
@pytest.mark.parametrize("causal", [True, False])
def test_the_parts_sum_to_the_whole(pattern, causal):
    found = qk(ready(pattern, causal=causal)).group()
    whole = found.estimate("dot").mean
    assert np.isfinite(whole).all()
    assert np.abs(found.estimate("norm_part").mean + found.estimate("angle_part").mean - whole).max() < 1e-6
    assert (whole > 1).all()  # as the pattern was made: its key is longer and better aligned
    assert (found.estimate("cos").mean > 0).all()
    assert (found.estimate("key_norm").mean > 0).all()


def test_grouped_heads_read_their_own_key_head():
    """Four heads over two key heads: 0 and 1 read the first, whose anchor is long, 2 and 3 the second, where it is
    short. By h % 2 heads 1 and 2 would change places."""
    q = np.ones((1, 1, HEADS, SIZE, 1))
    k = np.ones((1, 1, KV_HEADS, SIZE, 1))
    k[0, 0, 0, 3], k[0, 0, 1, 3] = 5, 0.5
    trace = build(peaked(1, 1, causal=False), causal=False, q=q, k=k)
    assert key_norm_by_head(trace)[0, 0, :, 3].tolist() == [5, 5, 0.5, 0.5]
    found = qk(trace, rule="top1").group()
    assert np.allclose(found.estimate("key_norm").mean, [[4, 4, -0.5, -0.5]])
    assert np.allclose(found.estimate("dot").mean, [[4, 4, -0.5, -0.5]])
    assert np.allclose(found.estimate("norm_part").mean, [[4, 4, -0.5, -0.5]])
    assert np.allclose(found.estimate("angle_part").mean, 0)


def test_chosen_heads_read_their_own_key_head_and_keep_their_numbers():
    """Of the same four heads 1 and 3 were kept: 1 reads the first key head and 3 the second."""
    q = np.ones((1, 1, HEADS, SIZE, 1))
    k = np.ones((1, 1, KV_HEADS, SIZE, 1))
    k[0, 0, 0, 3], k[0, 0, 1, 3] = 5, 0.5
    whole = build(peaked(1, 1, causal=False), causal=False, q=q, k=k)
    for kept, norms in (([1, 3], [5, 0.5]), ([2, 3], [0.5, 0.5]), ([0], [5]), ([0, 1, 3], [5, 5, 0.5])):
        part = type(whole)(whole.data.isel(head=kept))
        assert key_norm_by_head(part)[0, 0, :, 3].tolist() == norms
        found = qk(part, rule="top1").group()
        assert found.coordinate("dot", "head") == kept
        assert np.allclose(found.estimate("norm_part").mean, [[norm - 1 for norm in norms]])
        assert np.allclose(found.estimate("angle_part").mean, 0)


def test_the_wrong_grouping_would_break_the_split_and_ours_does_not():
    """Same directions in every key head, other lengths: only with the right |k| is the angle's part zero."""
    q = np.ones((1, 1, HEADS, SIZE, 1))
    k = np.random.default_rng(1).uniform(0.5, 4, (1, 1, KV_HEADS, SIZE, 1))
    found = qk(build(peaked(1, 1, causal=False), causal=False, q=q, k=k), rule="top1").group()
    assert np.allclose(found.estimate("angle_part").mean, 0, atol=1e-6)
    assert np.allclose(found.estimate("norm_part").mean, found.estimate("key_norm").mean, atol=1e-6)


def test_steps_without_anchors_are_left_out():
    """At step 1 attention is flat: the numbers are those of step 0 alone."""
    q, k = heads_and_keys(2)
    attention = peaked(causal=False)
    attention[1] = 1 / SIZE
    both = qk(build(attention, causal=False, q=q, k=k)).group()
    first = qk(build(attention[:1], causal=False, q=q[:1], k=k[:1])).group()
    for name in ("dot", "cos", "key_norm", "norm_part", "angle_part"):
        assert np.allclose(both.estimate(name).mean, first.estimate(name).mean)
    flat = qk(build(attention[1:], causal=False, q=q[1:], k=k[1:])).group()
    assert np.isnan(flat.estimate("dot").mean).all()


def test_keys_that_are_not_there_yet_do_not_count_as_others():
    """A sequence that grows from 12 to 13 keys, against the same run cut to what stood at each step."""
    lengths = [12, 13]
    weights = np.full((2, 1, 1, SIZE, SIZE), 0.001)
    weights[..., 3] = 1
    random = np.random.default_rng(3)
    q, k = random.normal(size=(2, 1, 1, SIZE, DIM)), random.normal(size=(2, 1, 1, SIZE, DIM))
    attention = spread(weights, causal=True, lengths=lengths)
    grown = qk(build(attention, causal=True, committed=[(12, 0), (13, 1)], q=q, k=k), rule="top1").group()
    cut = []
    for step, n in enumerate(lengths):
        part = (slice(step, step + 1), slice(None), slice(None), slice(n))
        trace = build(attention[part][..., :n], causal=True, q=q[part], k=k[part])
        cut.append(qk(trace, rule="top1").group().estimate("dot").mean)
    assert np.allclose(grown.estimate("dot").mean, np.mean(cut, axis=0))


def test_a_rule_that_looks_at_heads_has_an_anchor_per_head():
    """Head 0 attends to key 3, head 1 to key 5: each is compared at its own anchor."""
    weights = np.full((1, 1, 2, SIZE, SIZE), 0.001)
    weights[0, 0, 0, :, 3] = weights[0, 0, 1, :, 5] = 1
    q, k = np.ones((1, 1, 2, SIZE, 1)), np.ones((1, 1, 2, SIZE, 1))
    k[0, 0, 0, 3], k[0, 0, 1, 5] = 7, 4
    found = qk(build(spread(weights, causal=False), causal=False, q=q, k=k), rule="gu(0.5)").group()
    assert np.allclose(found.estimate("dot").mean, [[6, 3]])
    assert found.coordinate("dot", "head") == [0, 1]
