"""Anchor rules: each on columns made by hand, their names, and what they say when a name is wrong."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from floatlens.analysis.rules import Columns, Rule, as_rule, find_anchors
from floatlens.core.errors import FloatlensError


def columns(share, *, present=None, seen=None, asking=None, null=None):
    """Columns of one row, or of several, of bidirectional attention unless said otherwise."""
    share = np.asarray(share, dtype=float)
    here = np.ones(share.shape, dtype=bool) if present is None else np.asarray(present)
    count = float(share.shape[-1]) if asking is None else float(asking)
    visible = np.full(share.shape, count) if seen is None else np.asarray(seen, dtype=float)
    even = np.where(here, 1 / np.maximum(here.sum(axis=-1, keepdims=True), 1), 0.0)
    uniform = even if null is None else np.broadcast_to(null, share.shape)
    return Columns(share, share, uniform, here, visible, np.full(share.shape[:-1], count))


def found(rule, share, **more):
    return np.flatnonzero(find_anchors(as_rule(rule), columns(share, **more))).tolist()


# -- each rule, by hand -----------------------------------------------------------------------------------------------


LOGS = [-0.3, -0.2, -0.1, 0.0, 0.1, 0.2, 0.3] * 6
"""Median 0; distances from it 0, .1, .1, .2, .2, .3, .3, six times: MAD 0.2, robust standard deviation 0.29652."""


def with_logs(*more):
    """Shares with these logarithms and more."""
    weights = np.exp([*LOGS, *more])
    return weights / weights.sum()


def test_robust_is_the_median_plus_robust_deviations_of_logarithms():
    """With one key at 1.1 and one at −5 the median stays 0, of 44 distances 18 are below 0.2 and 14 above it: MAD 0.2.
    1.1 is 3.7097 robust standard deviations above."""
    share = with_logs(1.1, -5.0)
    assert found("robust", share) == [42]
    assert found("robust(3.7)", share) == [42]
    assert found("robust(3.71)", share) == []
    assert find_anchors(as_rule("robust"), columns(np.stack([share, share[::-1]]))).nonzero()[1].tolist() == [42, 1]


def test_robust_asks_for_twice_the_median():
    """Of almost equal keys one is many deviations above the rest, but hardly larger than they are."""
    share = np.exp([-0.002, -0.001, 0.0, 0.0, 0.001, np.log(1.99)])
    assert found("robust", share) == []
    share[-1] = 2.01 * np.exp(0.0)
    assert found("robust", share) == [5]


def test_robust_asks_for_more_than_uniform_attention_gives():
    """Beside a sink of 96 % the others have next to nothing, and one with 2 % stands out; 3.3 % is uniform."""
    share = np.array([0.96, 0.02, *[0.02 / 28] * 28])
    assert found("robust", share) == [0]
    assert found("robust", share, null=[0.5, 0.019, *[0.481 / 28] * 28]) == [0, 1]


def test_robust_takes_a_tenth_of_the_attention_however_uneven_the_rest_is():
    """Logarithms −4, −3.9 … 4: median 0, MAD 2, so nothing is 3.5 · 2.97 above it; the largest key has 9.5 %.
    Twice as much for it is 17.4 %; uniform attention gives each of the 81 keys 1.2 %."""
    share = np.exp(np.linspace(-4, 4, 81))
    assert found("robust", share / share.sum()) == []
    share[-1] *= 2
    share /= share.sum()
    assert share[-1] == pytest.approx(0.174, abs=1e-3)
    assert found("robust", share) == [80]
    assert found("robust", share, null=[0.925 / 80] * 80 + [0.075]) == []  # 9.9 percentage points more than uniform


def test_robust_asks_for_one_percent_of_the_attention():
    """A late key under a causal mask: uniform attention would give it a hundredth of what it has."""
    share, null = np.full(50, 0.0202), np.full(50, 0.0202)
    share[-1], null[-1] = 0.0099, 0.000099
    assert found("robust", share, null=null) == []
    share[-1] = 0.0101
    assert found("robust", share, null=null) == [49]


@pytest.mark.parametrize("size", [30, 300, 1000])
def test_robust_finds_nothing_in_even_attention_under_a_causal_mask(size):
    """Key j has (1/T)·Σ_{i≥j} 1/(i+1); z-scores of these shares have anchors, as many as the mask is long."""
    share = np.cumsum(1 / np.arange(size, 0, -1))[::-1] / size
    assert share.sum() == pytest.approx(1)
    noisy = share * np.random.default_rng(0).uniform(0.9, 1.1, size=(50, size))
    assert found("robust", share, null=share) == []
    assert not find_anchors(as_rule("robust"), columns(noisy, null=share)).any()
    if size >= 300:
        assert len(found("zscore", share)) >= 6


def test_robust_sees_weak_anchors_beside_a_dominant_sink():
    """45 % on the first key, 3 % on each of three more, the rest even but for noise; z-scores see the sink alone."""
    share = np.random.default_rng(1).uniform(0.5, 1.5, size=300)
    share *= 0.46 / share[4:].sum()
    share[:4] = [0.45, 0.03, 0.03, 0.03]
    assert found("robust", share) == [0, 1, 2, 3]
    assert found("zscore", share) == [0]


@pytest.mark.parametrize("sigma", [0.5, 1.0])
def test_robust_finds_next_to_nothing_in_log_normal_noise(sigma):
    """Of 300 normal variables 0.07 lie 3.5 standard deviations above the mean, a few more above an estimate of it."""
    drawn = np.exp(sigma * np.random.default_rng(2).normal(size=(1000, 300)))
    sets = find_anchors(as_rule("robust"), columns(drawn / drawn.sum(axis=-1, keepdims=True)))
    assert 0.03 < sets.sum(axis=-1).mean() < 0.15


def test_robust_counts_keys_that_receive_nothing_but_not_those_that_nobody_sees():
    one = [0.0, 0.0, 1.0, 0.0, 0.0]
    assert found("robust", one) == [2]
    unseen = columns([0.3, 0.3, 0.4, 0.0, 0.0, 0.0, 0.0], null=np.array([1, 1, 1, 0, 0, 0, 0]) / 3)
    assert not find_anchors(as_rule("robust"), unseen).any()  # with four zeros as keys the median would be nothing


def test_zscore_is_mean_plus_deviations_over_the_keys():
    """Eleven keys of 0.05 and one of 0.45: mean 1/12, deviation √11·0.4/12, so z of the large one is √11 = 3.317."""
    share = [0.05] * 5 + [0.45] + [0.05] * 6
    assert found("zscore", share) == [5]
    assert found("zscore(3.3)", share) == [5]
    assert found("zscore(3.32)", share) == []


def test_zscore_counts_present_keys_only():
    """With 11 keys a single outlier reaches z = √10 = 3.16; absent ones must not raise or lower that."""
    share = [0.05] * 10 + [0.5] + [np.nan] * 3
    present = [True] * 11 + [False] * 3
    assert found("zscore(3.16)", share, present=present) == [10]
    assert found("zscore(3.17)", share, present=present) == []


@given(st.floats(1e-6, 1), st.integers(1, 40), st.floats(0.01, 5))
def test_zscore_of_constant_columns_is_empty(value, size, deviations):
    assert found(f"zscore({deviations!r})", [value] * size) == []


def test_rulli_compares_sums_of_columns_not_means():
    """Ten queries: sums are 10·share. 5.5 against 4.5/9 = 0.5 of the others: 5 more."""
    share = [0.55] + [0.05] * 9
    assert found("rulli(3)", share) == [0]
    assert found("rulli(4.99)", share) == [0]
    assert found("rulli(5.01)", share) == []
    assert found("rulli(3)", share, asking=5) == []  # of five queries the same shares are sums of 2.75 and 0.25


def test_gu_asks_for_the_mean_over_the_queries_that_see_a_key():
    """The last of four keys is seen by one query only: a share of 0.1 is 0.4 of what it can get."""
    share = [0.5, 0.2, 0.2, 0.1]
    assert found("gu", share, seen=[4, 3, 2, 1]) == [0, 2, 3]  # 0.5, 0.267, 0.4, 0.4
    assert found("gu(0.45)", share, seen=[4, 3, 2, 1]) == [0]
    assert found("gu", share) == [0]  # bidirectional: shares as they are


def test_topk_and_top1_take_the_largest_and_of_equals_the_earlier():
    share = [0.1, 0.3, 0.3, 0.2, 0.1]
    assert found("top1", share) == [1]
    assert found("topk(2)", share) == [1, 2]
    assert found("topk(4)", share) == [0, 1, 2, 3]
    assert found("topk", share) == [0, 1, 2, 3, 4]
    assert found("topk(9)", share) == [0, 1, 2, 3, 4]


def test_topk_never_takes_what_is_absent():
    assert found("topk(3)", [0.6, 0.4, np.nan, np.nan], present=[True, True, False, False]) == [0, 1]


def test_an_empty_set_stays_empty_unless_asked_for():
    flat = [0.2, 0.21, 0.2, 0.19, 0.2]
    for rule in ("robust", "zscore", "rulli", "gu"):
        assert found(rule, flat) == []
        assert found(f"{rule} or top1", flat) == [1]
    peaked = [0.05] * 5 + [0.45] + [0.05] * 6
    assert found("zscore or top1", peaked) == [5]  # nothing is added where something was found


@pytest.mark.parametrize(
    "rule", ["robust", "robust or top1", "zscore or top1", "rulli or top1", "gu or top1", "topk(2)", "top1"]
)
def test_where_nothing_was_measured_there_are_no_anchors(rule):
    assert found(rule, [np.nan] * 4) == []


def test_rows_are_looked_at_one_by_one():
    rows = np.full((2, 3, 12), 0.05)
    for place, key in zip(np.ndindex(2, 3), (4, 0, 11, 7, 7, 2), strict=True):
        rows[(*place, key)] = 0.45
    sets = find_anchors(as_rule("zscore"), columns(rows))
    assert sets.shape == rows.shape
    assert [np.flatnonzero(sets[place]).tolist() for place in np.ndindex(2, 3)] == [[4], [0], [11], [7], [7], [2]]


@given(
    st.lists(st.integers(1, 10**6), min_size=2, max_size=20, unique=True).flatmap(
        lambda values: st.tuples(st.just(values), st.permutations(range(len(values))))
    ),
    st.sampled_from(
        ["robust(1)", "zscore(1)", "zscore(2)", "rulli(1)", "gu(0.2)", "topk(3)", "top1", "zscore or top1"]
    ),
)
def test_permuting_keys_permutes_anchors(drawn, rule):
    values, order = drawn
    share = np.array(values) / sum(values)
    before = find_anchors(as_rule(rule), columns(share))
    after = find_anchors(as_rule(rule), columns(share[list(order)]))
    assert np.array_equal(after, before[list(order)])


# -- names ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "rule", "printed"),
    [
        ("robust", Rule("robust", 3.5), "robust(ε=3.5)"),
        ("robust(4)", Rule("robust", 4.0), "robust(ε=4)"),
        ("zscore", Rule("zscore", 3.0), "zscore(ε=3)"),
        ("zscore(2.5)", Rule("zscore", 2.5), "zscore(ε=2.5)"),
        ("zscore(ε=2.5)", Rule("zscore", 2.5), "zscore(ε=2.5)"),
        (" zscore( eps = 2 ) ", Rule("zscore", 2.0), "zscore(ε=2)"),
        ("rulli", Rule("rulli", 3.0), "rulli(ε=3)"),
        ("gu", Rule("gu", 0.3), "gu(ε=0.3)"),
        ("topk", Rule("topk", 5.0), "topk(k=5)"),
        ("topk(k=3)", Rule("topk", 3.0), "topk(k=3)"),
        ("top1", Rule("top1", 1.0), "top1"),
        ("zscore or top1", Rule("zscore", 3.0, True), "zscore(ε=3) or top1"),
        ("gu(0.5) or top1", Rule("gu", 0.5, True), "gu(ε=0.5) or top1"),
    ],
)
def test_names_are_read_and_printed_and_read_again(written, rule, printed):
    assert as_rule(written) == rule
    assert str(rule) == printed
    assert as_rule(printed) == rule


def test_the_fallback_can_be_asked_for_apart_and_is_recorded():
    assert str(as_rule("zscore", or_top1=True)) == "zscore(ε=3) or top1"
    assert as_rule(Rule("gu", 0.3), or_top1=True) == Rule("gu", 0.3, True)
    assert as_rule(Rule("gu", 0.3, True)) == Rule("gu", 0.3, True)


def test_gu_looks_at_heads_and_the_others_at_layers():
    assert {name: as_rule(name).unit for name in ("robust", "zscore", "rulli", "gu", "topk", "top1")} == {
        "robust": "layer",
        "zscore": "layer",
        "rulli": "layer",
        "gu": "head",
        "topk": "layer",
        "top1": "layer",
    }


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("zcsore", r'no anchor rule "zcsore"; did you mean "zscore"\?; give robust\(3.5\), zscore\(3\), rulli\(3\)'),
        ("zcsore(3)", r'no anchor rule "zcsore\(3\)"; did you mean "zscore"\?'),
        ("percentile", r"known: gu, robust, rulli, top1, topk, zscore; give .* topk\(5\) or top1$"),
        ("", 'no anchor rule ""'),
        ("zscore()", r'no anchor rule "zscore\(\)"; did you mean "zscore"'),
        ("zscore 3", 'no anchor rule "zscore 3"'),
        ("zscore or top10", 'no anchor rule "zscore or top10"'),
        ("zscore or top1 or top2", 'no anchor rule "zscore or top1 or top2"'),
        ("zscore(three)", r'anchor rule "zscore\(three\)": "three" is not a number$'),
        ("zscore(0)", r'anchor rule "zscore\(0\)": zscore takes a number above 0$'),
        ("zscore(nan)", "zscore takes a number above 0$"),
        ("gu(-1)", "gu takes a number between 0 and 1$"),
        ("rulli(-3)", "rulli takes a number above 0$"),
        ("topk(2.5)", r'anchor rule "topk\(2.5\)": topk takes a whole number from 1$'),
        ("topk(0)", "topk takes a whole number from 1$"),
        ("topk(inf)", "topk takes a whole number from 1$"),
        ("top1(2)", r'anchor rule "top1\(2\)": top1 takes no number$'),
    ],
)
def test_wrong_names_are_refused_in_one_line_that_says_what_to_give(written, message):
    with pytest.raises(FloatlensError, match=message) as caught:
        as_rule(written)
    assert "\n" not in str(caught.value)
