"""The uniform null: shares and counts against a loop over every query and key."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from floatlens.analysis.kernels import null_share, seen_by, uniform_flow


def by_loops(queries, present, causal, together=()):
    """(share, seen) of one step, query by query; positions in `together` see all of each other."""
    size = len(present)
    share, seen = np.zeros(size), np.zeros(size)
    asking = [i for i in range(size) if queries[i]]
    for i in asking:
        joined = [j for j in range(size) if i in together and j in together]
        visible = [j for j in range(size) if present[j] and (j <= i or not causal or j in joined)]
        for j in visible:
            share[j] += 1 / len(visible) / len(asking)
            seen[j] += 1
    return (share if asking else np.full(size, np.nan)), seen


@st.composite
def asking(draw):
    """Present keys (a prefix, as sequences grow, or with holes) and some of them asking."""
    size = draw(st.integers(1, 12))
    present = draw(st.lists(st.booleans(), min_size=size, max_size=size))
    queries = [here and draw(st.booleans()) for here in present]
    return np.array(queries), np.array(present)


@given(asking(), st.booleans())
def test_null_and_counts_equal_a_loop_over_queries_and_keys(given_, causal):
    queries, present = given_
    share, seen = by_loops(queries, present, causal)
    found = null_share(queries, present, causal=causal)
    assert np.allclose(found, share, equal_nan=True)
    assert np.array_equal(seen_by(queries, present, causal=causal), seen)
    if queries.any():
        assert found.sum() == pytest.approx(1)
        assert not found[~present].any()


@given(asking(), st.sets(st.integers(0, 11)))
def test_under_block_attention_what_is_written_together_sees_all_of_itself(given_, together):
    queries, present = given_
    marked = np.isin(np.arange(len(present)), list(together))
    share, seen = by_loops(queries, present, True, together)
    assert np.allclose(null_share(queries, present, causal=True, together=marked), share, equal_nan=True)
    assert np.array_equal(seen_by(queries, present, causal=True, together=marked), seen)


@given(asking(), st.sets(st.integers(0, 11)))
def test_uniform_flow_under_block_attention_equals_a_loop(given_, together):
    _, present = given_
    size = len(present)
    marked = np.isin(np.arange(size), list(together))
    region_of = np.arange(size) % 3
    found = uniform_flow(region_of, present, 3, causal=True, together=marked)
    for of in range(3):
        asking_ = present & (region_of == of)
        if asking_.any():
            share, _ = by_loops(asking_, present, True, together)
            for to in range(3):
                assert found[of, to] == pytest.approx(share[region_of == to].sum())


@st.composite
def blocked(draw):
    """Present keys, some of them asking, and a block number for each position."""
    queries, present = draw(asking())
    steps = draw(st.lists(st.integers(0, 2), min_size=len(present), max_size=len(present)))
    return queries, present, np.cumsum(steps)


def densely(queries, present, blocks):
    """(share, seen) from the (query, key) matrix of a block-causal mask."""
    mask = (blocks[None, :] <= blocks[:, None]) & present[None, :]
    rows = mask[queries] / np.maximum(mask[queries].sum(1, keepdims=True), 1)
    share = rows.mean(0) if queries.any() else np.full(len(present), np.nan)
    return share, mask[queries].sum(0)


@given(blocked())
def test_under_a_block_causal_mask_null_and_counts_equal_a_dense_count(given_):
    queries, present, blocks = given_
    share, seen = densely(queries, present, blocks)
    for causal in (True, False):
        found = null_share(queries, present, causal=causal, blocks=blocks)
        assert np.allclose(found, share, equal_nan=True)
        assert np.array_equal(seen_by(queries, present, causal=causal, blocks=blocks), seen)
    region_of = np.arange(len(present)) % 3
    flow = uniform_flow(region_of, present, 3, causal=False, blocks=blocks)
    for of in range(3):
        rows = present & (region_of == of)
        if rows.any():
            from_here, _ = densely(rows, present, blocks)
            assert flow[of] == pytest.approx([from_here[region_of == to].sum() for to in range(3)])


def test_one_block_is_full_attention_and_a_block_per_position_is_causal():
    present, queries = np.array([[True] * 5 + [False]]), np.array([[False, True, True, False, True, False]])
    for blocks, causal in ((np.zeros(6, dtype=int), False), (np.arange(6), True)):
        given_ = null_share(queries, present, causal=causal, blocks=blocks[None])
        assert np.array_equal(given_, null_share(queries, present, causal=causal))


def test_steps_are_worked_out_one_by_one():
    present = np.array([[True] * 4 + [False] * 2, [True] * 6, [True] * 6])
    queries = np.array([[True] * 4 + [False] * 2, [False] * 4 + [True] * 2, [False] * 6])
    for causal in (True, False):
        found, seen = null_share(queries, present, causal=causal), seen_by(queries, present, causal=causal)
        for step in range(3):
            share, count = by_loops(queries[step], present[step], causal)
            assert np.allclose(found[step], share, equal_nan=True)
            assert np.array_equal(seen[step], count)


def test_the_formulas_of_the_methods():
    """1/T each when bidirectional; (1/T)·Σ_{i≥j} 1/(i+1) when causal; key j is seen by T − j queries."""
    T = 7
    everyone = np.ones(T, dtype=bool)
    assert np.allclose(null_share(everyone, everyone, causal=False), 1 / T)
    harmonic = [sum(1 / (i + 1) for i in range(j, T)) / T for j in range(T)]
    assert np.allclose(null_share(everyone, everyone, causal=True), harmonic)
    assert seen_by(everyone, everyone, causal=True).tolist() == [7, 6, 5, 4, 3, 2, 1]
    assert seen_by(everyone, everyone, causal=False).tolist() == [7] * 7


def test_by_hand_three_keys_and_a_group_of_queries():
    """Queries 1 and 2 of 3: under a causal mask they see two and three keys."""
    queries, present = np.array([False, True, True]), np.ones(3, dtype=bool)
    assert np.allclose(null_share(queries, present, causal=True), [(1 / 2 + 1 / 3) / 2, (1 / 2 + 1 / 3) / 2, 1 / 6])
    assert seen_by(queries, present, causal=True).tolist() == [2, 2, 1]
    assert seen_by(queries, present, causal=False).tolist() == [2, 2, 2]


@pytest.mark.parametrize("causal", [True, False])
def test_uniform_flow_between_regions_by_a_plain_loop(causal):
    region_of = np.array([0, 1, 1, 2, 1, 2, 2, 3])
    here = np.array([True] * 7 + [False])  # the last position, the only one of its region, holds nothing yet
    found = uniform_flow(region_of, here, 4, causal=causal)
    for asker in range(3):
        rows = [i for i in range(7) if region_of[i] == asker]
        for asked in range(4):
            shares = []
            for i in rows:
                keys = range(i + 1) if causal else range(7)
                shares.append(sum(region_of[j] == asked for j in keys) / len(keys))
            assert found[asker, asked] == pytest.approx(np.mean(shares))
    assert np.isnan(found[3]).all()
