"""Distances of anchors by token class between data sets, plain and cross-fitted: by hand, and by plain loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
import xarray as xr
from scipy import stats

from floatlens.analysis import Group
from floatlens.analysis.class_distance import SPLITS, anchor_shares, between, class_distance, crossed, halves

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


def test_signs_come_from_one_half_and_differences_from_the_other():
    """By hand: in the first half a has 0.1 more, in the second 0.3 less, so they disagree; and the reverse."""
    a, b = shares([0.6], [0.2]), shares([0.5], [0.5])
    first = np.array([[True, False]])
    assert crossed([a, b], [first, first]) == pytest.approx((-0.3 - 0.1) / 2)
    agreeing = shares([0.6], [0.9])
    assert crossed([agreeing, b], [first, first]) == pytest.approx((0.4 + 0.1) / 2)


def test_the_crossed_distance_is_that_of_a_plain_loop():
    sets = [drawn(4, 11), drawn(5, 8), drawn(6, 9)]
    random = np.random.default_rng(7)
    first = [halves(len(values), random) for values in sets]
    found = []
    for a, b in ((0, 1), (0, 2), (1, 2)):
        for split in range(SPLITS):
            one, two = (
                loop_mean(sets[a][first[a][split] == side]) - loop_mean(sets[b][first[b][split] == side])
                for side in (True, False)
            )
            for signs, apart in ((one, two), (two, one)):
                by_layer = [
                    sum(math.copysign(1, signs[kind, layer]) * apart[kind, layer] for kind in range(len(signs))) / 2
                    for layer in range(signs.shape[1])
                    if not np.isnan(signs[:, layer] * apart[:, layer]).any()
                ]
                found.append(sum(by_layer) / len(by_layer))
    assert crossed(sets, first) == pytest.approx(sum(found) / len(found))


def test_the_interval_reaches_from_below_the_crossed_to_above_the_plain_distance():
    """One layer and two classes: the plain distance is a difference of means, with the error of one."""
    random = np.random.default_rng(3)
    a, b = (shares(*random.uniform(low, low + 0.4, (count, 1))) for low, count in ((0.1, 12), (0.5, 9)))
    found = class_distance({"a": a, "b": b})
    error = math.sqrt(a[:, 0, 0].var(ddof=1) / 12 + b[:, 0, 0].var(ddof=1) / 9)
    assert float(found.std) == pytest.approx(error)
    reach = stats.t.ppf(0.975, 8) * error
    assert float(found.mean) == pytest.approx(between(a, b), abs=0.02)  # signs are clear in every half
    assert float(found.low) == pytest.approx(float(found.mean) - reach)
    assert float(found.high) == pytest.approx(max(between(a, b), float(found.mean)) + reach)
    assert int(found.n) == 9
    assert class_distance({"a": a, "b": b}) == found


def test_the_error_of_the_distance_is_that_of_leaving_out_questions():
    """The jackknife of the plain distance, where no sign turns; some questions have no anchors in a layer."""
    a, b = drawn(8, 30), drawn(9, 25)
    b[:, 0] = np.where(np.isnan(b[:, 0]), NAN, b[:, 0] + 2)  # far apart: signs are clear
    b[:, 1:] -= 2 / 3
    variance = 0.0
    for values, other in ((a, b), (b, a)):
        left = np.array([between(np.delete(values, i, axis=0), other) for i in range(len(values))])
        variance += (len(values) - 1) / len(values) * ((left - left.mean()) ** 2).sum()
    assert float(class_distance({"a": a, "b": b}).std) == pytest.approx(math.sqrt(variance), rel=0.05)


def test_sets_of_one_distribution_are_not_apart_and_the_interval_says_so():
    """Over 40 pairs of sets the mean is 0 and no interval begins above 0.05; the plain distance is 0.09."""
    found = [class_distance({"a": drawn(2 * i, 20), "b": drawn(2 * i + 1, 20)}) for i in range(40)]
    assert np.mean([float(one.mean) for one in found]) == pytest.approx(0, abs=0.01)
    assert max(float(one.low) for one in found) < 0.05
    assert np.mean([between(drawn(2 * i, 20), drawn(2 * i + 1, 20)) for i in range(40)]) > 0.08


def test_sets_that_do_not_vary_are_as_far_apart_as_they_are():
    """Every question of a set is alike, so nothing varies."""
    found = class_distance({"a": shares(*[[0.2, 0.2]] * 8), "b": shares(*[[0.5, 0.3]] * 9)})
    assert [float(x) for x in (found.mean, found.low, found.high)] == pytest.approx([0.2] * 3)
    assert int(found.n) == 8
    assert np.isnan(class_distance({"a": shares([0.2]), "b": shares([0.5], [0.6])}).low)


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
