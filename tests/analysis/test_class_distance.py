"""Distances of anchors by token class between data sets and between halves of one: by hand, and by plain loops."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

from floatlens.analysis import Group
from floatlens.analysis.token_classes import SPLITS, anchor_shares, between, beyond_halves, halves, within

NAN = np.nan


def shares(*questions):
    """(question, class, layer) of two classes from the share of the first one by layer."""
    first = np.array(questions, dtype=float)
    return np.stack([first, 1 - first], axis=1)


def drawn(seed, count, layers=3, classes=4):
    """Shares of questions, some of which have no anchors in some layers."""
    random = np.random.default_rng(seed)
    values = random.dirichlet(np.ones(classes), size=(count, layers)).transpose(0, 2, 1)
    values[:, :, 1][random.uniform(size=count) < 0.3] = NAN
    return values


def loop_mean(values):
    """By class and layer, over the questions that have anchors there."""
    made = np.full(values.shape[1:], NAN)
    for place in np.ndindex(*made.shape):
        known = [one[place] for one in values if not np.isnan(one[place])]
        if known:
            made[place] = sum(known) / len(known)
    return made


def loop_distance(a, b):
    one, two = loop_mean(a), loop_mean(b)
    by_layer = []
    for layer in range(one.shape[1]):
        apart = sum(abs(one[kind, layer] - two[kind, layer]) for kind in range(len(one))) / 2
        if not np.isnan(apart):
            by_layer.append(apart)
    return sum(by_layer) / len(by_layer)


def group_of(values, questions, data_sets):
    data = {"anchors": (("sample", "class", "layer"), np.asarray(values))}
    coords = {"question": ("sample", questions), "data_set": ("sample", data_sets)}
    return Group({"model": "m"}, {"kind": "mdm"}, xr.Dataset(data, coords=coords))


def test_distance_between_sets_by_hand():
    """Layer 0: means 0.5 and 0.9, apart by 0.4. Layer 1: 0.2 (of the one that has anchors) and 0.4, apart by 0.2."""
    a, b = shares([0.4, 0.2], [0.6, NAN]), shares([0.9, 0.4])
    assert between(a, b) == pytest.approx(0.3)
    c = shares([0.5, NAN])  # no anchors in layer 1, so layer 0 alone is compared: 0 and 0.4
    assert between(a, b, c) == pytest.approx((0.3 + 0 + 0.4) / 3)
    assert between(a, a) == 0


def test_distance_between_sets_is_that_of_a_plain_loop():
    a, b, c = drawn(1, 9), drawn(2, 12), drawn(3, 7)
    expected = (loop_distance(a, b) + loop_distance(a, c) + loop_distance(b, c)) / 3
    assert between(a, b, c) == pytest.approx(expected)


def test_halves_are_halves_and_the_same_for_one_seed():
    for count in (8, 9):
        first = halves(count, np.random.default_rng(0))
        assert first.shape == (SPLITS, count)
        assert set(first.sum(axis=1)) == {count // 2}
        assert (first == halves(count, np.random.default_rng(0))).all()
        assert len({tuple(row) for row in first}) > 10
        assert first.mean(axis=0) == pytest.approx(np.full(count, 0.5), abs=0.25)  # no question is favoured


def test_distance_of_halves_by_hand_and_by_a_plain_loop():
    """Of shares 0, 0, 1 and 1 the halves are 0 and 1 apart, or both 0.5."""
    values = shares([0.0], [0.0], [1.0], [1.0])
    assert within(values, np.array([[True, True, False, False]])) == 1
    assert within(values, np.array([[True, False, True, False]])) == 0
    assert within(values, np.array([[True, True, False, False], [True, False, True, False]])) == 0.5
    some, first = drawn(4, 11), halves(11, np.random.default_rng(7))
    expected = [loop_distance(some[row], some[~row]) for row in first]
    assert within(some, first) == pytest.approx(np.mean(expected))


def test_what_halves_differ_by_is_taken_off():
    a, b = drawn(5, 10), drawn(6, 14)
    found = beyond_halves({"a": a, "b": b}, seed=3)
    random = np.random.default_rng(3)
    chance = []
    for values in (a, b):
        splits = halves(len(values), random)
        chance.append(np.mean([loop_distance(values[row], values[~row]) for row in splits]))
    assert float(found.mean) == pytest.approx(loop_distance(a, b) - np.mean(chance))
    assert int(found.n) == 10
    again = beyond_halves({"a": a, "b": b}, seed=3)
    assert (found.mean, found.low, found.high) == (again.mean, again.low, again.high)


def test_sets_that_do_not_vary_are_as_far_apart_as_they_are():
    """Every question of a set is alike: halves are the same, and whatever is drawn is too."""
    found = beyond_halves({"a": shares(*[[0.2, 0.2]] * 8), "b": shares(*[[0.5, 0.3]] * 9)})
    assert [float(x) for x in (found.mean, found.low, found.high)] == pytest.approx([0.2] * 3)
    assert int(found.n) == 8


def test_questions_are_samples_of_their_data_set():
    """ "a" has two traces in nq, one in trex; one trace does not say its set; one question has no anchors at all."""
    firsts = [[0.2], [0.4], [0.8], [1.0], [NAN]]
    group = group_of(shares(*firsts), ["a", "a", "a", "b", "c"], ["nq", "nq", "trex", "", "trex"])
    found = anchor_shares(group)
    assert list(found) == ["nq", "trex"]
    assert found["nq"][:, 0, 0].tolist() == [pytest.approx(0.3)]
    assert found["trex"][:, 0, 0].tolist() == [0.8]


def test_a_group_that_knows_no_data_sets_has_none():
    group = group_of(shares([0.2], [0.4]), ["a", "b"], ["", ""])
    assert anchor_shares(group) == {}
    bare = Group(group.keys, group.facts, group.samples.drop_vars("data_set"))
    assert bare.data_sets == ("", "")
    assert anchor_shares(bare) == {}
