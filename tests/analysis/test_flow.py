"""Flow: lifts of deciding rows by hand, regions against dense loops, token rollout, groups by the place of the gold."""

from __future__ import annotations

import numpy as np
import pytest

from floatlens.analysis import analyse, flow, token_rollout
from floatlens.analysis.flow import documents_of, gold_of
from floatlens.core.errors import FloatlensError
from shared.synthetic import EOS, MASK, build, random_attention, ready, samples, spread

REGIONS = [
    "bos",
    "question",
    "question",
    "doc1",
    "doc1",
    "doc2",
    "doc2",
    "doc2",
    "doc3",
    "answer",
    "answer",
    "template",
]
NAMES = ["bos", "question", "doc1", "doc2", "doc3", "answer", "template"]


def by_hand(rows, **more):
    """A trace over five positions, one per region: bos, doc1, doc2, doc3, answer, with these rows in every layer."""
    attention = np.asarray(rows, dtype=float)[None, :, None]
    given = {"regions": ["bos", "doc1", "doc2", "doc3", "answer"], "gold": 1} | more
    return build(attention, causal=False, **given)


def rolled(layers):
    """The rollout by its definition: identity added, rows divided by 2, later layers from the left."""
    made = np.eye(len(layers[0]))
    for layer in layers:
        made = (layer + np.eye(len(layer))) / 2 @ made
    return made


def mean(found, name):
    return found.group().estimate(name).mean


# -- deciding rows ----------------------------------------------------------------------------------------------------

WRITTEN = {"mask_id": MASK, "committed": [(4, 0)]}


def test_lift_and_share_of_the_deciding_row_by_hand():
    """One layer, one token. Its row gives 0.1 0.2 0.4 0.1 0.2: gold (document 2) 0.4, the others (0.2 + 0.1) / 2."""
    rows = np.eye(5)
    rows[4] = [0.1, 0.2, 0.4, 0.1, 0.2]
    found = flow(by_hand([rows], **WRITTEN))
    for name in ("direct_lift", "direct_lift_over_uniform", "rollout_lift", "region_rollout_lift"):
        assert mean(found, name) == pytest.approx(0.4 / 0.15, rel=1e-5), name
    assert mean(found, "lift_by_layer").tolist() == [pytest.approx(0.4 / 0.15, rel=1e-5)]
    assert mean(found, "direct_share") == pytest.approx(0.4)
    assert mean(found, "direct_share_over_uniform") == pytest.approx(0.4 / 0.2)
    for gold, lift in ((0, 0.2 / 0.25), (2, 0.1 / 0.3)):
        assert mean(flow(by_hand([rows], gold=gold, **WRITTEN)), "direct_lift") == pytest.approx(lift, rel=1e-5)


def test_attention_is_averaged_over_layers_and_the_rollout_follows_every_path():
    """In layer 0 document 1 takes everything from the gold one; in layer 1 the answer looks at document 1."""
    first, second = np.eye(5), np.eye(5)
    first[1] = [0, 0, 1, 0, 0]
    first[4] = [0.2] * 5
    second[4] = [0, 0.5, 0.2, 0.1, 0.2]
    found = flow(by_hand([first, second], **WRITTEN))
    assert mean(found, "direct_lift") == pytest.approx((0.2 + 0.2) / ((0.2 + 0.5 + 0.2 + 0.1) / 2), rel=1e-5)
    assert mean(found, "direct_share") == pytest.approx(0.2)
    assert mean(found, "lift_by_layer").tolist() == pytest.approx([1, 0.2 / 0.3], rel=1e-5)
    row = rolled([first, second])[4]
    assert mean(found, "rollout_lift") == pytest.approx(row[2] / ((row[1] + row[3]) / 2), rel=1e-5)


def test_each_token_counts_with_the_row_and_the_pass_that_decided_it():
    """Two answer positions. Position 4 is decided in pass 0, position 5 in pass 1; what their rows show in the other
    pass, and what other rows show, is not looked at. Masses are averaged before they are divided."""
    attention = np.tile(np.eye(6), (2, 1, 1, 1, 1))
    attention[0, 0, 0, 4] = [0, 0.1, 0.8, 0.1, 0, 0]
    attention[1, 0, 0, 5] = [0, 0.3, 0.2, 0.1, 0.2, 0.2]
    regions = ["bos", "doc1", "doc2", "doc3", "answer", "answer"]
    given = {"causal": False, "regions": regions, "gold": 1, "mask_id": MASK}
    found = flow(build(attention, committed=[(4, 0), (5, 1)], **given))
    assert mean(found, "direct_lift") == pytest.approx((0.8 + 0.2) / ((0.1 + 0.1 + 0.3 + 0.1) / 2), rel=1e-5)
    assert mean(found, "direct_share") == pytest.approx(0.5)
    shifted = flow(build(attention, committed=[(5, 0)], shift=True, **given))  # decided by the row before it
    assert mean(shifted, "direct_lift") == pytest.approx(8, rel=1e-5)


def test_eos_and_what_follows_it_are_no_part_of_the_answer():
    attention = np.tile(np.eye(7), (1, 1, 1, 1, 1))
    attention[0, 0, 0, 4] = [0, 0.1, 0.8, 0.1, 0, 0, 0]
    attention[0, 0, 0, 5] = attention[0, 0, 0, 6] = [0, 0.5, 0.1, 0.4, 0, 0, 0]
    regions = ["bos", "doc1", "doc2", "doc3", "answer", "answer", "answer"]
    given = {"causal": False, "regions": regions, "gold": 1, "mask_id": MASK, "committed": [(6, 0), (4, 0), (5, 0)]}
    ends = flow(build(attention, final=[10, 11, 12, 13, 14, EOS, 15], **given))
    assert mean(ends, "direct_lift") == pytest.approx(8, rel=1e-5)
    assert mean(ends, "rollout_lift") == pytest.approx(8, rel=1e-5)
    goes_on = flow(build(attention, **given))
    assert mean(goes_on, "direct_lift") == pytest.approx((0.8 + 0.2) / (0.2 + 1.8) * 2, rel=1e-5)
    silent = flow(build(attention, final=[10, 11, 12, 13, EOS, 14, 15], **given))
    for name in ("direct_lift", "direct_share", "rollout_lift_over_uniform"):
        assert np.isnan(mean(silent, name)), name


def test_the_first_word_of_an_autoregressive_model_is_decided_by_the_last_row_of_the_prompt():
    """Its row gives the gold document 3 times as much, the row of the first word 5 times, for the second word."""
    regions = ["doc1", "doc2", "template", "answer", "answer"]
    attention = spread(np.tile(np.eye(5), (2, 1, 1, 1, 1)) + 1e-12, causal=True, lengths=[3, 4])
    attention[:, 0, 0, 2, :3] = [0.2, 0.6, 0.2]
    attention[1, 0, 0, 3, :4] = [0.1, 0.5, 0.2, 0.2]
    given = {"causal": True, "regions": regions, "gold": 1, "committed": [(3, 0), (4, 1)]}
    found = flow(build(attention, **given))
    assert mean(found, "direct_lift") == pytest.approx(1.1 / 0.3, rel=1e-5)
    first = flow(build(attention, final=[10, 11, 12, 13, EOS], **given))
    assert mean(first, "direct_lift") == pytest.approx(3, rel=1e-5)


@pytest.mark.parametrize("mask", ["full", "causal", "block"])
def test_uniform_attention_has_a_lift_of_one_under_every_mask(mask):
    """Documents of 2, 3 and 1 tokens: raw lifts differ from 1, lifts over uniform do not."""
    answer = [place for place, name in enumerate(REGIONS) if name == "answer"]
    seen = np.tril(np.ones((12, 12))) if mask != "full" else np.ones((12, 12))
    if mask == "block":
        seen[np.ix_(answer, answer)] = 1
    attention = np.broadcast_to(seen / seen.sum(axis=1, keepdims=True), (1, 3, 2, 12, 12))
    for gold, length in ((0, 2), (1, 3), (2, 1)):
        trace = build(
            attention,
            causal=mask == "causal",
            regions=REGIONS,
            gold=gold,
            mask_id=MASK,
            committed=[(place, 0) for place in answer],
            shift=gold == 1,
        )
        trace.data.attrs["attention"] = mask
        found = flow(trace)
        assert mean(found, "direct_lift") == pytest.approx(length / ((6 - length) / 2), rel=1e-5)
        for name in ("direct_lift", "direct_share", "rollout_lift", "region_rollout_lift"):
            assert mean(found, f"{name}_over_uniform") == pytest.approx(1, rel=1e-5), (name, gold)
        assert np.allclose(mean(found, "lift_by_layer"), 1)
        through = rolled([attention[0, 0, 0]] * 3)[[place - (gold == 1) for place in answer]].mean(axis=0)
        mass = [sum(through[place] for place in range(12) if REGIONS[place] == f"doc{d}") for d in (1, 2, 3)]
        expected = mass[gold] / ((sum(mass) - mass[gold]) / 2)
        assert mean(found, "rollout_lift_uniform") == pytest.approx(expected, rel=1e-6)


def test_uniform_attention_of_a_sequence_that_grows():
    attention = spread(np.ones((2, 2, 1, 6, 6)), causal=True, lengths=[4, 5])
    given = {"causal": True, "regions": ["bos", "doc1", "doc2", "doc2", "answer", "answer"], "gold": 1}
    found = flow(build(attention, committed=[(4, 0), (5, 1)], **given))
    for name in ("direct_lift", "direct_share", "rollout_lift"):
        assert mean(found, f"{name}_over_uniform") == pytest.approx(1, rel=1e-5), name


def test_tokens_whose_pass_was_not_recorded_do_not_count():
    attention = np.tile(np.eye(6), (2, 1, 1, 1, 1))
    attention[0, 0, 0, 4] = [0, 0.1, 0.8, 0.1, 0, 0]
    attention[1, 0, 0, 5] = [0, 0.3, 0.2, 0.1, 0.2, 0.2]
    regions = ["bos", "doc1", "doc2", "doc3", "answer", "answer"]
    whole = build(attention, causal=False, regions=regions, gold=1, mask_id=MASK, committed=[(4, 0), (5, 1)])
    data = whole.data.isel(step=[1]).copy(deep=True)
    for name in ("answer_flow", "answer_rollout"):
        data[name][0] = np.nan
    assert mean(flow(type(whole)(data)), "direct_lift") == pytest.approx(1, rel=1e-5)


@pytest.mark.parametrize(("variable", "probe"), [("answer_flow", "answer_rows"), ("answer_rollout", "rollout")])
def test_a_trace_of_before_says_which_probe_is_missing(variable, probe):
    trace = ready("uniform", causal=False)
    old = type(trace)(trace.data.drop_vars(variable))
    with pytest.raises(FloatlensError, match=f'holds no "{variable}"; trace again with the probe "{probe}" on'):
        flow(old)


# -- regions ----------------------------------------------------------------------------------------------------------


def test_attention_between_regions_is_that_of_the_dense_matrix():
    attention = random_attention(4, 3, 2, 2, 12, causal=False)
    found = flow(build(attention, causal=False, regions=REGIONS, gold=0)).group()
    assert found.coordinate("region_attention", "region") == NAMES
    last = attention[-1].mean(axis=1)  # the last pass, mean over heads
    where = [[place for place, name in enumerate(REGIONS) if name == region] for region in NAMES]
    layers = np.array([[[layer[np.ix_(a, b)].sum() / len(a) for b in where] for a in where] for layer in last])
    assert np.allclose(found.estimate("region_attention").mean, layers.mean(axis=0), atol=1e-6)
    assert np.allclose(found.estimate("region_rollout").mean, rolled(layers), atol=1e-6)
    assert np.allclose(found.estimate("region_rollout").mean.sum(axis=-1), 1, atol=1e-6)
    row = rolled(layers)[NAMES.index("answer")]
    lift = row[2] / ((row[3] + row[4]) / 2)
    assert float(found.estimate("region_rollout_lift").mean) == pytest.approx(lift, rel=1e-5)


def test_traces_are_grouped_by_model_documents_and_place_of_the_gold():
    traces = [ready("uniform", causal=causal, gold=gold) for causal in (False, True) for gold in (0, 0, 2)]
    found = flow(traces)
    assert [dict(group.keys) for group in found] == [
        {"model": "uniform-mdm", "documents": 3, "gold": 1},
        {"model": "uniform-mdm", "documents": 3, "gold": 3},
        {"model": "uniform-arm", "documents": 3, "gold": 1},
        {"model": "uniform-arm", "documents": 3, "gold": 3},
    ]
    assert [group.n for group in found] == [2, 1, 2, 1]
    assert found.group("uniform-arm", gold=3).label == "uniform-arm, documents 3, gold 3"
    assert float(found.group("uniform-mdm", gold=1).estimate("direct_lift").mean) == pytest.approx(1, abs=0.02)


def test_documents_and_gold_are_named_by_the_prompt():
    trace = ready("uniform", causal=False)
    assert documents_of(trace) == ["doc1", "doc2", "doc3"]
    assert gold_of(trace) == 2
    assert gold_of(ready("uniform", causal=False, gold=None)) is None
    assert gold_of(ready("uniform", causal=False, gold=7)) is None  # cut off to fit


def test_without_a_gold_or_another_document_there_is_no_lift():
    rows = np.full((5, 5), 0.2)
    for more in ({"gold": None}, {"regions": ["bos", "doc1", "question", "template", "answer"], "gold": 0}):
        found = flow(by_hand([rows], **WRITTEN, **more))
        for name in ("direct_lift", "rollout_lift", "region_rollout_lift"):
            assert np.isnan(mean(found, name))
        assert np.allclose(mean(found, "region_attention"), 0.2)
    with pytest.raises(FloatlensError, match="no answer region"):
        flow(by_hand([rows], regions=["bos", "doc1", "doc2", "doc3", "question"]))


def test_the_last_pass_counts_for_regions():
    one = random_attention(1, 1, 2, 2, 12, causal=False)
    two = np.concatenate([random_attention(2, 1, 2, 2, 12, causal=False), one])
    given = {"causal": False, "regions": REGIONS, "gold": 0}
    a, b = (flow(build(x, **given)).group().estimate("region_rollout").mean for x in (one, two))
    assert np.allclose(a, b)


def test_a_part_of_the_layers_is_refused_since_its_rollout_is_not_the_models():
    trace = ready("uniform", causal=False, layers=4)
    part = type(trace)(trace.data.isel(layer=[0, 3]))  # as `floatlens trace --layers 0,-1` keeps them
    with pytest.raises(FloatlensError, match=r"flow of 2 of 4 layers; .* so trace again with all layers") as said:
        flow(part)
    assert "\n" not in str(said.value)
    skipped = {}
    assert list(analyse(part, ["flow", "drift"], skipped=skipped)) == ["drift"]


def test_samples_of_one_group_have_intervals():
    found = flow(samples("uniform", causal=False, n=4)).group()
    assert found.n == 4
    lift = found.estimate("direct_lift")
    assert lift.low <= lift.mean <= lift.high


# -- over tokens ------------------------------------------------------------------------------------------------------


def test_token_rollout_is_the_rollout_of_dense_attention():
    attention = random_attention(6, 2, 3, 2, 9, causal=True)
    trace = build(attention, causal=True, matrices=True)
    for step in (0, 1, -1):
        found = token_rollout(trace, step)
        assert found.dims == ("query", "key")
        assert np.allclose(found.values, rolled(attention[step].mean(axis=1)), atol=1e-6)
        assert np.allclose(found.values.sum(axis=-1), 1, atol=1e-6)
        assert not np.triu(found.values, 1).any()


def test_token_rollout_of_a_sequence_that_grows_keeps_to_what_stands():
    attention = random_attention(7, 2, 2, 2, 6, causal=True, lengths=[4, 5])
    found = token_rollout(build(attention, causal=True, matrices=True, committed=[(4, 0), (5, 1)]), 0).values
    assert np.allclose(found[:4, :4], rolled(attention[0, :, :, :4, :4].mean(axis=1)), atol=1e-6)
    assert not found[:4, 4:].any()
    assert np.allclose(found.sum(axis=-1), 1)


@pytest.mark.parametrize("what", ["layer", "head"])
def test_token_rollout_refuses_a_part_of_the_layers_or_heads(what):
    trace = build(random_attention(6, 1, 3, 2, 5, causal=False), causal=False, matrices=True, mask_id=MASK)
    part = type(trace)(trace.data.isel({f"matrix_{what}": [0]}))
    with pytest.raises(FloatlensError, match=f"matrices of 1 of . {what}s; a rollout needs all of them"):
        token_rollout(part)


def test_token_rollout_says_which_probe_it_needs():
    with pytest.raises(FloatlensError, match='holds no "matrix"; trace again with the probe "matrix" on'):
        token_rollout(ready("uniform", causal=False))
