"""Anchors of a trace: whose attention counts, how it is normalised, and what uniform attention would give."""

from __future__ import annotations

import numpy as np
import pytest

from floatlens.analysis import anchors
from floatlens.core.errors import FloatlensError
from shared.synthetic import MASK, build, random_attention, ready, spread

REGIONS = ["bos", *["question"] * 3, *["doc1"] * 4, *["answer"] * 4]
COMMITTED = [(9, 0), (8, 1), (11, 2), (10, 3)]


@pytest.fixture(scope="module")
def attention():
    return random_attention(1, 4, 2, 3, 12, causal=False)


@pytest.fixture(scope="module")
def trace(attention):
    return build(attention, causal=False, mask_id=MASK, committed=COMMITTED, regions=REGIONS)


def asking(step):
    """Positions of each group at a step of `trace`."""
    masked = [position for position, when in COMMITTED if when >= step]
    return {
        "all": range(12),
        "masked": masked,
        "committed": [i for i in range(12) if i not in masked],
        "answer": range(8, 12),
    }


@pytest.mark.parametrize("group", ["all", "masked", "committed", "answer"])
def test_shares_are_means_over_the_queries_of_the_group_and_over_heads(group, attention, trace):
    found = anchors(trace, group=group, rule="top1")
    assert found.share.dims == ("step", "layer", "key")
    for step in range(4):
        rows = list(asking(step)[group])
        for layer in range(2):
            expected = np.mean([[attention[step, layer, h, i] for i in rows] for h in range(3)], axis=(0, 1))
            assert np.allclose(found.share.values[step, layer], expected, atol=1e-6)
            assert np.flatnonzero(found.is_anchor.values[step, layer]).tolist() == [int(expected.argmax())]
    assert np.allclose(found.null.values, 1 / 12)


@pytest.mark.parametrize("group", ["all", "answer"])
def test_null_and_visible_shares_of_a_sequence_that_grows(group):
    """The null of every step against uniform attention itself, given to the builder; `visible` is then flat per row."""
    lengths = [9, 10, 11]
    weights = spread(np.ones((3, 1, 1, 12, 12)), causal=True, lengths=lengths)
    trace = build(weights, causal=True, committed=[(9, 0), (10, 1), (11, 2)], regions=REGIONS)
    found = anchors(trace, group=group, normalise="visible", rule="top1")
    for step, length in enumerate(lengths):
        rows = [i for i in range(length) if group == "all" or i >= 8]
        for j in range(length):
            seeing = [i for i in rows if i >= j]
            total = sum(1 / (i + 1) for i in seeing)
            assert found.null.values[step, j] == pytest.approx(total / len(rows))
            assert found.share.values[step, 0, j] == pytest.approx(total / len(rows), abs=1e-6)
            assert found.received.values[step, 0, j] == pytest.approx(total / len(seeing), abs=1e-6)
        assert not found.is_anchor.values[step, 0, length:].any()
    assert np.isnan(found.received.values[0, 0, 9:]).all()


def test_visible_normalisation_changes_who_is_the_anchor():
    """Causal, four keys: key 0 gets most in all, but key 3 gets all of the one query that sees it."""
    rows = np.array([[1, 0, 0, 0], [0.7, 0.3, 0, 0], [0.7, 0.1, 0.2, 0], [0, 0, 0.05, 0.95]])
    trace = build(rows[None, None, None], causal=True)
    assert anchors(trace, rule="top1").is_anchor.values[0, 0].tolist() == [True, False, False, False]
    visible = anchors(trace, rule="top1", normalise="visible")
    assert np.allclose(visible.received.values[0, 0], [2.4 / 4, 0.4 / 3, 0.25 / 2, 0.95])
    assert visible.is_anchor.values[0, 0].tolist() == [False, False, False, True]
    assert np.allclose(visible.share.values[0, 0], rows.mean(axis=0))


def test_rules_that_look_at_heads_and_those_that_look_at_layers():
    """Head 0 has its anchor on key 0, head 1 on key 2; their mean stays below 0.6 on both."""
    weights = np.full((1, 1, 2, 4, 4), 0.1)
    weights[0, 0, 0, :, 0] = weights[0, 0, 1, :, 2] = 0.7
    trace = build(weights, causal=False)
    each = anchors(trace, rule="gu(0.6)")
    assert each.is_anchor.dims == ("step", "layer", "head", "key")
    assert np.argwhere(each.is_anchor.values).tolist() == [[0, 0, 0, 0], [0, 0, 1, 2]]
    assert each.by_layer().values[0, 0].tolist() == [True, False, True, False]
    mean = anchors(trace, rule="gu(0.6)", heads="mean")
    assert mean.is_anchor.dims == ("step", "layer", "key")
    assert not mean.is_anchor.values.any()
    assert anchors(trace, rule="top1", heads="each").is_anchor.values[0, 0, 1].tolist() == [False, False, True, False]


def test_gu_divides_by_the_queries_that_see_a_key():
    """As the rule was published: under a causal mask the last key can be an anchor of the one query that sees it."""
    rows = np.array([[1, 0, 0], [0.9, 0.1, 0], [0.2, 0.2, 0.6]])
    found = anchors(build(rows[None, None, None], causal=True), rule="gu(0.5)")
    assert found.is_anchor.values[0, 0, 0].tolist() == [True, False, True]  # 2.1/3, 0.3/2, 0.6/1


def test_a_step_without_queries_has_no_anchors_and_no_null():
    trace = ready("fixed", causal=True)
    found = anchors(trace, group="answer", rule="zscore or top1")
    assert not found.is_anchor.values[0].any()
    assert np.isnan(found.null.values[0]).all()
    assert found.is_anchor.values[1:, :, 0].all()


def test_sums_of_columns_are_over_the_queries_of_the_group():
    """Everybody looks at key 0: its sum is 12 over all, 8 over the committed and 4 over the masked at step 0."""
    attention = np.tile(np.eye(12)[[0] * 12], (4, 1, 1, 1, 1))
    trace = build(attention, causal=False, mask_id=MASK, committed=COMMITTED, regions=REGIONS)
    for group, total in (("all", 12), ("committed", 8), ("masked", 4), ("answer", 4)):
        for less, expected in ((0.5, True), (-0.5, False)):
            found = anchors(trace, group=group, rule=f"rulli({total - less})")
            assert found.is_anchor.values[0, 0, 0] == expected, group


def test_one_row_per_anchor_in_the_frame():
    trace = ready("moving", causal=False)
    frame = anchors(trace, rule="zscore").to_frame()
    assert list(frame.columns) == ["step", "layer", "key", "token", "region", "received", "share", "null"]
    assert len(frame) == 8 * 4
    first, last = frame.iloc[0], frame.iloc[-1]
    assert (first["step"], first["layer"], first["key"], first["token"], first["region"]) == (0, 0, 2, ":", "template")
    assert (last["step"], last["layer"], last["key"], last["token"], last["region"]) == (7, 3, 16, "bird", "doc3")
    assert first["share"] == pytest.approx(trace.data["received"].values[0, 0, :, 2].mean())
    assert first["null"] == pytest.approx(1 / 30)


def test_labels_are_those_of_the_trace_and_ids_stand_in_for_texts():
    attention = spread(np.eye(12)[[3] * 12] + np.full((2, 3, 1, 12, 12), 1e-4), causal=False)
    trace = build(attention, causal=False, step_numbers=[4, 9], layer_numbers=[0, 5, 7])
    frame = anchors(trace, rule="gu").to_frame()
    assert frame["step"].unique().tolist() == [4, 9]
    assert frame["layer"].unique().tolist() == [0, 5, 7]
    assert frame["head"].unique().tolist() == [0]
    assert frame["token"].unique().tolist() == [13]


def test_provenance_carries_the_whole_name_of_the_rule():
    found = anchors(ready("uniform", causal=False), rule="zscore(2)", or_top1=True, group="answer", normalise="visible")
    assert found.provenance == {
        "model": "uniform-mdm",
        "rule": "zscore(ε=2) or top1",
        "group": "answer",
        "normalise": "visible",
        "measure": "attention",
    }


def test_traces_of_mean_heads_serve_layers_and_refuse_heads(attention):
    whole = build(attention, causal=False)
    mean = build(attention, causal=False, heads="mean")
    assert np.allclose(anchors(mean).share.values, anchors(whole).share.values, atol=1e-6)
    with pytest.raises(FloatlensError, match='made with heads="mean"; trace again with heads="all"'):
        anchors(mean, rule="gu")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"group": "anwser"}, r'group="anwser"; did you mean "answer"\?; give all, masked, committed, answer'),
        ({"normalise": "sum"}, 'normalise="sum"; give "share" or "visible"'),
        ({"heads": "all"}, 'heads="all"; give "mean" or "each"'),
        ({"rule": "best"}, 'no anchor rule "best"'),
    ],
)
def test_wrong_settings_are_refused_with_what_to_give(given, message, trace):
    with pytest.raises(FloatlensError, match=message):
        anchors(trace, **given)
