"""Sink rates by hand: which key, in how many steps, and what a sink follows when documents change places."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

from floatlens.analysis import sinks
from floatlens.analysis.sinks import KINDS
from floatlens.core.errors import FloatlensError
from shared.synthetic import BOS, EOS, MASK, build, ready, spread

SIZE = 40


def trace_of(keys, *, mass=0.5, causal=False, **more):
    """Every query gives `mass` to the key of its (step, layer, head), None for nowhere, and the rest evenly."""
    found = np.array(keys, dtype=object)
    weights = np.empty((*found.shape, SIZE, SIZE))
    for at in np.ndindex(found.shape):
        weights[at] = 1.0
        if found[at] is not None:
            others = SIZE - 1
            weights[(*at, slice(None), found[at])] = others * mass / (1 - mass)
    given = {"texts": ["w"] * SIZE, "mask_id": MASK} | more
    if causal:
        given["mask_id"] = None
    return build(spread(weights, causal=causal), causal=causal, **given)


def rate(result, kind="any"):
    return result.group().estimate("rate").mean[KINDS.index(kind)].tolist()


def test_rate_is_the_share_of_steps_by_layer_and_head():
    """Two steps, two layers, two heads: a sink in both steps, in one, in none, and one that changes its key."""
    keys = [[[7, 7], [None, 3]], [[7, None], [None, 9]]]
    found = sinks(trace_of(keys))
    assert rate(found) == [[1.0, 0.5], [0.0, 1.0]]
    assert found.group().estimate("sink_heads").mean.tolist() == [0.5, 0, 0, 0, 0.5]  # a rate of 0.5 is not above it


def test_the_threshold_is_what_a_query_gives():
    assert rate(sinks(trace_of([[[7]]], mass=0.29))) == [[0.0]]
    assert rate(sinks(trace_of([[[7]]], mass=0.31))) == [[1.0]]
    assert rate(sinks(trace_of([[[7]]], mass=0.31), above=0.35)) == [[0.0]]
    with pytest.raises(FloatlensError, match=r"above=1\.5; give a number between 0 and 1"):
        sinks(trace_of([[[7]]]), above=1.5)


def test_kinds_of_the_strongest_sink():
    """First position (though it is BOS), EOS elsewhere, a position that is a mask at step 0 and a word at step 1."""
    final = np.arange(10, 10 + SIZE)
    final[0], final[5] = BOS, EOS
    keys = [[[0, 5, 20, 8]]] * 2
    found = sinks(trace_of(keys, final=final, committed=[(20, 0)]))
    assert rate(found, "first") == [[1, 0, 0, 0]]
    assert rate(found, "special") == [[0, 1, 0, 0]]
    assert rate(found, "mask") == [[0, 0, 0.5, 0]]
    assert rate(found, "other") == [[0, 0, 0.5, 1]]
    assert rate(found) == [[1, 1, 1, 1]]


def test_under_a_causal_mask_attention_is_that_of_the_queries_that_see_a_key():
    """Key 20 of 40 is seen by 20 queries, which give it 0.4 and more: its share of all attention is about 0.25."""
    trace = trace_of([[[20]]], mass=0.4, causal=True)
    assert trace.data["received"].values[0, 0, 0, 20] < 0.3
    assert rate(sinks(trace)) == [[1.0]]


@pytest.mark.parametrize(("key", "counts"), [(32, True), (33, False), (39, False)])
def test_keys_that_a_handful_of_queries_see_do_not_count(key, counts):
    """Key 33 is seen by 7 queries, one fewer than needed."""
    assert rate(sinks(trace_of([[[key]]], mass=0.6, causal=True))) == [[float(counts)]]


def test_a_share_of_the_queries_is_needed_too(monkeypatch):
    monkeypatch.setattr(importlib.import_module("floatlens.analysis.sinks"), "FEWEST_SHARE", 0.5)
    assert rate(sinks(trace_of([[[20]]], mass=0.6, causal=True))) == [[1.0]]  # 20 of 40
    assert rate(sinks(trace_of([[[21]]], mass=0.6, causal=True))) == [[0.0]]


def test_too_few_queries_of_a_group_are_undefined():
    regions = ["question"] * 30 + ["answer"] * 10
    trace = trace_of([[[7]]], regions=regions)
    assert rate(sinks(trace, group="answer")) == [[1.0]]
    few = trace_of([[[7]]], regions=["question"] * 35 + ["answer"] * 5)
    assert np.isnan(rate(sinks(few, group="answer"))).all()
    assert np.isnan(sinks(few, group="answer").group().estimate("sink_heads").mean).all()


def test_heads_are_needed():
    with pytest.raises(FloatlensError, match='made with heads="mean"'):
        sinks(trace_of([[[7]]], heads="mean"))


@pytest.mark.parametrize("causal", [True, False])
def test_ready_made_patterns(causal):
    fixed, uniform = sinks(ready("fixed", causal=causal)), sinks(ready("uniform", causal=causal))
    assert np.allclose(rate(fixed, "first"), 1)
    assert np.allclose(rate(uniform), 0)


# -- what a sink follows: three documents of 8, 8 and 4 tokens, after two tokens of template ---------------------------

DOCUMENTS = {"a": range(100, 108), "b": range(110, 118), "c": range(120, 124)}


def ordered(order, sink_keys, question="who?"):
    """The documents in this order; sinks of the heads of one layer at these positions."""
    final, regions = [50, 51], ["template", "template"]
    for number, name in enumerate(order, 1):
        final += DOCUMENTS[name]
        regions += [f"doc{number}"] * len(DOCUMENTS[name])
    final += range(60, 60 + SIZE - len(final))
    regions += ["question"] * (SIZE - len(regions))
    return trace_of([[list(sink_keys)]], final=final, regions=regions, question=question)


def identity(*traces):
    group = sinks(traces).group()
    names = ("follows_position", "follows_token", "position_beyond_chance", "token_beyond_chance", "moved_sinks")
    return [float(group.estimate(name).mean) for name in names]


def test_a_sink_that_follows_its_position():
    """abc and bac: position 5 holds a's fourth token, then b's. 16 keys moved; c did not."""
    position, token, beyond, _, count = identity(ordered("abc", [5]), ordered("bac", [5]))
    assert (position, token, count) == (1, 0, 2)
    assert beyond == 1  # no other key is a sink


def test_a_sink_that_follows_its_token():
    """a's fourth token is at 5, then at 13."""
    position, token, _, beyond, count = identity(ordered("abc", [5]), ordered("bac", [13]))
    assert (position, token, beyond, count) == (0, 1, 1, 2)


def test_chance_is_that_of_another_key_that_moved():
    """The sink goes from 5 to 9, which is neither: of the 15 other keys that moved one has its position, one its token,
    among the sinks of the other order."""
    position, token, by_position, by_token, _ = identity(ordered("abc", [5]), ordered("bac", [9]))
    assert (position, token) == (0, 0)
    assert by_position == pytest.approx(-1 / 15)
    assert by_token == pytest.approx(-1 / 15)


def test_heads_are_compared_with_themselves_and_each_sink_counts_alike():
    """Head 0 keeps its position, head 1 its token, head 2 is in the document that stays, head 3 in the template."""
    first, second = ordered("abc", [5, 5, 19, 0]), ordered("bac", [5, 13, 19, 0])
    assert identity(first, second)[:2] == [0.5, 0.5]
    assert identity(first, second)[4] == 4


def test_one_order_says_nothing():
    assert np.isnan(identity(ordered("abc", [5]))).all()
    assert np.isnan(identity(ordered("abc", [5]), ordered("abc", [5]))).all()


def test_without_a_sink_in_a_moved_document_there_is_nothing_to_follow():
    found = identity(ordered("abc", [0]), ordered("bac", [0]))
    assert np.isnan(found[:4]).all()
    assert found[4] == 0


def test_only_traces_of_one_question_are_compared_and_questions_count_alike():
    """One question follows its position, the other its token; a third was asked once."""
    traces = [ordered("abc", [5], "one?"), ordered("bac", [5], "one?")]
    traces += [ordered("abc", [5], "two?"), ordered("bac", [13], "two?"), ordered("cab", [9], "two?")]
    traces += [ordered("abc", [5], "three?")]
    found = sinks(traces).group()
    assert found.estimate("follows_position").mean == pytest.approx((1 + 0) / 2)
    assert found.estimate("follows_token").mean == pytest.approx((0 + 1) / 2)
    assert int(found.estimate("follows_token").n) == 2
    assert found.n == 3


def test_a_document_that_is_there_twice_is_left_out(monkeypatch):
    monkeypatch.setitem(DOCUMENTS, "b", DOCUMENTS["a"])
    assert np.isnan(identity(ordered("abc", [5]), ordered("cab", [9]))[0])
