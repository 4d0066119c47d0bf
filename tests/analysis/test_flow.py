"""Region flow and rollouts: pooled attention against dense loops, lift by hand, groups by the place of the gold."""

from __future__ import annotations

import numpy as np
import pytest

from floatlens.analysis import analyse, flow, token_rollout
from floatlens.analysis.flow import documents_of, gold_of
from floatlens.core.errors import FloatlensError
from shared.synthetic import MASK, build, random_attention, ready, samples, spread

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


def test_attention_between_regions_is_that_of_the_dense_matrix():
    attention = random_attention(4, 3, 2, 2, 12, causal=False)
    found = flow(build(attention, causal=False, regions=REGIONS, gold=0)).group()
    assert found.coordinate("attention", "region") == NAMES
    last = attention[-1].mean(axis=1)  # the last pass, mean over heads
    where = [[place for place, name in enumerate(REGIONS) if name == region] for region in NAMES]
    layers = np.array([[[layer[np.ix_(a, b)].sum() / len(a) for b in where] for a in where] for layer in last])
    assert np.allclose(found.estimate("attention").mean, layers.mean(axis=0), atol=1e-6)
    assert np.allclose(found.estimate("rollout").mean, rolled(layers), atol=1e-6)
    assert np.allclose(found.estimate("rollout").mean.sum(axis=-1), 1, atol=1e-6)


def test_gold_lift_by_hand():
    """One layer. The answer gives 0.1 0.2 0.4 0.1 0.2: gold (document 2) 0.4, the others (0.2 + 0.1) / 2."""
    rows = np.eye(5)
    rows[4] = [0.1, 0.2, 0.4, 0.1, 0.2]
    found = flow(by_hand([rows]))
    assert float(found.group().estimate("gold_lift").mean) == pytest.approx(0.4 / 0.15, rel=1e-5)
    assert found.group().estimate("lift_by_layer").mean.tolist() == [pytest.approx(0.4 / 0.15, rel=1e-5)]
    assert float(flow(by_hand([rows], gold=0)).group().estimate("gold_lift").mean) == pytest.approx(
        0.2 / 0.25, rel=1e-5
    )
    assert float(flow(by_hand([rows], gold=2)).group().estimate("gold_lift").mean) == pytest.approx(0.1 / 0.3, rel=1e-5)


def test_lift_goes_through_all_layers_in_the_rollout_and_layer_by_layer_without():
    """In layer 0 document 1 takes everything from the gold one; in layer 1 the answer looks at document 1."""
    first, second = np.eye(5), np.eye(5)
    first[1] = [0, 0, 1, 0, 0]
    first[4] = [0.2] * 5
    second[4] = [0, 0.5, 0.2, 0.1, 0.2]
    found = flow(by_hand([first, second]))
    row = rolled([first, second])[4]
    assert float(found.group().estimate("gold_lift").mean) == pytest.approx(row[2] / ((row[1] + row[3]) / 2), rel=1e-5)
    assert np.allclose(found.group().estimate("lift_by_layer").mean, [1, 0.2 / 0.3], atol=1e-5)


def test_lift_over_the_run_at_ten_moments():
    """Ten passes; in pass s the answer gives s + 1 times as much to the gold document as to each other one."""
    rows = np.tile(np.eye(5), (10, 1, 1, 1, 1))
    for step in range(10):
        rows[step, 0, 0, 4] = np.array([1, 1, step + 1, 1, 1]) / (step + 5)
    trace = build(rows, causal=False, regions=["bos", "doc1", "doc2", "doc3", "answer"], gold=1)
    found = flow(trace)
    assert np.allclose(found.group().estimate("lift_by_step").mean, np.arange(1, 11), rtol=1e-4)
    assert float(found.group().estimate("gold_lift").mean) == pytest.approx(10, rel=1e-4)
    assert found.group().coordinate("lift_by_step", "moment")[::9] == [0, 1]


def test_before_an_autoregressive_model_writes_the_template_text_asks():
    """Pass 0 has no answer query: its lift is that of the template text, 3; in pass 1 the answer's, 5."""
    regions = ["doc1", "doc2", "template", "answer", "answer"]
    attention = spread(np.tile(np.eye(5), (2, 1, 1, 1, 1)) + 1e-12, causal=True, lengths=[3, 4])
    attention[:, 0, 0, 2, :3] = [0.2, 0.6, 0.2]
    attention[1, 0, 0, 3, :4] = [0.1, 0.5, 0.2, 0.2]
    found = flow(build(attention, causal=True, regions=regions, gold=1, committed=[(3, 0), (4, 1)]))
    assert np.allclose(found.group().estimate("lift_by_step").mean, [3] * 5 + [5] * 5, rtol=1e-4)


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
    assert float(found.group("uniform-mdm", gold=1).estimate("gold_lift").mean) == pytest.approx(1, abs=0.02)


def test_documents_and_gold_are_named_by_the_prompt():
    trace = ready("uniform", causal=False)
    assert documents_of(trace) == ["doc1", "doc2", "doc3"]
    assert gold_of(trace) == 2
    assert gold_of(ready("uniform", causal=False, gold=None)) is None
    assert gold_of(ready("uniform", causal=False, gold=7)) is None  # cut off to fit


def test_without_a_gold_or_another_document_there_is_no_lift():
    rows = np.full((5, 5), 0.2)
    for more in ({"gold": None}, {"regions": ["bos", "doc1", "question", "template", "answer"], "gold": 0}):
        found = flow(by_hand([rows], **more))
        assert np.isnan(found.group().estimate("gold_lift").mean)
        assert np.allclose(found.group().estimate("attention").mean, 0.2)
    with pytest.raises(FloatlensError, match="no answer region"):
        flow(by_hand([rows], regions=["bos", "doc1", "doc2", "doc3", "question"]))


def test_the_last_pass_counts():
    one = random_attention(1, 1, 2, 2, 12, causal=False)
    two = np.concatenate([random_attention(2, 1, 2, 2, 12, causal=False), one])
    given = {"causal": False, "regions": REGIONS, "gold": 0}
    a, b = (flow(build(x, **given)).group().estimate("rollout").mean for x in (one, two))
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
    lift = found.estimate("gold_lift")
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
