"""Retrieval heads: every score worked out by hand on a small answer, and their summaries over depth."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr
from scipy import stats

from floatlens.analysis import Group, retrieval_heads
from floatlens.analysis.retrieval import depth_correlation, share_above
from floatlens.core.errors import FloatlensError
from shared.synthetic import EOS, MASK, build, ready

# 0 bos | 1 2 question | 3 4 5 6 document 1, the gold one, evidence 4 5 6 | 7 document 2 | 8 … 11 answer
REGIONS = ["bos", "question", "question", *["doc1"] * 4, "doc2", *["answer"] * 4]
A, B, C = 20, 21, 22
FINAL = [1, 10, 11, 12, A, B, C, A, A, B, 30, EOS]
EVIDENCE = (4, 5, 6)
ANSWER = [(8, 0), (9, 1), (10, 2), (11, 3)]
"""The model writes A, B, something else, and EOS."""


def looking(*keys_by_head, peak=0.7, final=FINAL, **more):
    """A trace of one layer: head h, in the row and pass that decide token t, gives `peak` to keys_by_head[h][t]."""
    size, heads = len(final), len(keys_by_head)
    attention = np.full((4, 1, heads, size, size), 1 / size)
    for head, keys in enumerate(keys_by_head):
        for (position, step), key in zip(ANSWER, keys, strict=True):
            attention[step, 0, head, position] = (1 - peak) / (size - 1)
            attention[step, 0, head, position, key] = peak
    given = {"regions": REGIONS, "gold": 0, "evidence": EVIDENCE, "committed": ANSWER, "mask_id": MASK} | more
    return build(attention, causal=False, final=final, **given)


def scores(trace, name):
    return retrieval_heads(trace).group().estimate(name).mean[0].tolist()


def test_copy_counts_distinct_tokens_copied_out_of_the_evidence():
    """Evidence A B C. Head 0 copies A and B; head 1 looks at B while writing A and the other way round; head 2 copies A
    from outside the evidence; head 3 copies A, and looks at the evidence for the rest."""
    trace = looking([4, 5, 0, 0], [5, 4, 0, 0], [7, 0, 0, 0], [4, 6, 6, 6])
    assert scores(trace, "copy") == [pytest.approx(2 / 3), 0, 0, pytest.approx(1 / 3)]


def test_focus_is_the_share_of_answer_tokens_that_look_at_the_evidence():
    """Three tokens count: what follows from EOS does not."""
    trace = looking([4, 5, 0, 0], [5, 4, 6, 0], [7, 0, 0, 4], [4, 6, 6, 6])
    assert scores(trace, "focus") == [pytest.approx(2 / 3), 1, 0, 1]


def test_mass_is_the_mean_attention_on_the_evidence():
    trace = looking([4, 5, 0, 0], [0, 0, 0, 0])
    elsewhere = 0.3 / 11
    assert scores(trace, "mass") == [
        pytest.approx((2 * (0.7 + 2 * elsewhere) + 3 * elsewhere) / 3),
        pytest.approx(3 * elsewhere),
    ]


def test_copy_code_adds_one_over_length_per_hit_where_the_answer_covers_the_evidence():
    """A B of A B C are covered, 2/3 > 0.5. Heads with two hits, one hit and none."""
    trace = looking([4, 5, 0, 0], [4, 0, 0, 0], [5, 4, 0, 0])
    assert scores(trace, "copy_code") == [pytest.approx(2 / 3), pytest.approx(1 / 3), 0]


def test_copy_code_counts_a_token_that_is_written_twice_twice_and_copy_once():
    final = [*FINAL[:8], A, A, B, EOS]
    trace = looking([4, 4, 5, 0], final=final)
    assert scores(trace, "copy_code") == [1]
    assert scores(trace, "copy") == [pytest.approx(2 / 3)]


def test_copy_code_leaves_out_answers_that_cover_half_or_less():
    """ROUGE-1 recall counts a word once per use: of A A B, an answer with one A and one B covers two thirds, of A A C
    one third, and of A B exactly half when it says A only."""
    twice = [*FINAL[:4], A, A, B, *FINAL[7:]]
    assert scores(looking([4, 6, 0, 0], final=twice), "copy_code") == [pytest.approx(2 / 3)]
    third = [*FINAL[:4], A, A, C, *FINAL[7:]]
    assert np.isnan(scores(looking([4, 4, 0, 0], final=third), "copy_code"))
    half = [*FINAL[:8], A, 30, 31, EOS]
    assert np.isnan(scores(looking([4, 4, 0, 0], final=half, evidence=(4, 5)), "copy_code"))


def test_qr_is_the_mass_of_the_question_on_the_gold_document_in_the_first_pass():
    """Question rows 1 and 2 of head 0 give 0.5 and 0.3 to document 1 in pass 0; later passes do not count."""
    size = len(FINAL)
    attention = np.full((4, 1, 2, size, size), 1 / size)
    attention[0, 0, 0, 1:3] = 0
    attention[0, 0, 0, 1, [3, 6, 0]] = 0.25, 0.25, 0.5
    attention[0, 0, 0, 2, [4, 7]] = 0.3, 0.7
    given = {"final": FINAL, "regions": REGIONS, "evidence": EVIDENCE, "committed": ANSWER, "mask_id": MASK}
    assert scores(build(attention, causal=False, gold=0, **given), "qr") == [pytest.approx(0.4), pytest.approx(4 / 12)]
    assert scores(build(attention, causal=False, gold=1, **given), "qr") == [pytest.approx(0.35), pytest.approx(1 / 12)]
    assert np.isnan(scores(build(attention, causal=False, gold=None, **given), "qr")).all()
    mean = build(attention, causal=False, gold=0, heads="mean", **given)
    assert np.isnan(scores(mean, "qr")).all()  # the mean over heads is no head


def test_rows_of_shifted_models_are_those_that_decided_the_token():
    """The same attention; the model is one whose logits are those of the next position."""
    size = len(FINAL)
    attention = np.full((4, 1, 1, size, size), 1 / size)
    attention[0, 0, 0, 7] = np.eye(size)[4]  # the row before the first answer token looks at A
    given = {"final": FINAL, "regions": REGIONS, "gold": 0, "evidence": EVIDENCE, "committed": ANSWER, "mask_id": MASK}
    assert scores(build(attention, causal=False, shift=True, **given), "copy") == [pytest.approx(1 / 3)]
    assert scores(build(attention, causal=False, shift=False, **given), "copy") == [0]


def test_the_order_in_which_tokens_were_committed_does_not_matter():
    """EOS is committed first, as diffusion models do, and still only what stands after it is left out."""
    trace = looking([4, 5, 0, 0])
    backwards = [(position, 3 - step) for position, step in ANSWER][::-1]
    size = len(FINAL)
    attention = np.full((4, 1, 1, size, size), 1 / size)
    for (position, step), key in zip(backwards, (0, 0, 5, 4), strict=True):
        attention[step, 0, 0, position] = 0.3 / (size - 1)
        attention[step, 0, 0, position, key] = 0.7
    given = {"final": FINAL, "regions": REGIONS, "gold": 0, "evidence": EVIDENCE, "mask_id": MASK}
    again = build(attention, causal=False, committed=backwards, **given)
    for name in ("copy", "copy_code", "focus", "mass"):
        assert scores(again, name) == pytest.approx(scores(trace, name))


def test_without_evidence_or_without_an_answer_nothing_is_defined():
    without = retrieval_heads(looking([4, 5, 0, 0], evidence=()))
    for name in ("copy", "copy_code", "focus", "mass"):
        assert np.isnan(without.group().estimate(name).mean).all(), name
        assert (without.group().estimate(name).n == 0).all()
    silent = retrieval_heads(looking([4, 5, 0, 0], final=[*FINAL[:8], EOS, EOS, EOS, EOS]))
    assert np.isnan(silent.group().estimate("focus").mean).all()
    assert np.isnan(silent.group().estimate("mass").mean).all()
    assert silent.group().estimate("copy").mean.tolist() == [[0]]  # nothing was copied


def unrecorded(trace, *tokens):
    """The trace as if the passes of these tokens had not been among the chosen steps."""
    data = trace.data.copy(deep=True)
    data["answer_argmax"][list(tokens)] = -1
    data["answer_evidence"][list(tokens)] = np.nan
    return type(trace)(data)


def test_tokens_that_were_not_recorded_are_no_misses():
    """The answer is A B and one more, then EOS; evidence A B C. The head copies A, and B was not recorded:
    of the two tokens that were, one looks at the evidence; of A and C, which can be judged, A is copied."""
    whole = looking([4, 0, 0, 0])
    part = unrecorded(whole, 1)
    assert not part.data["evidence"].values[-1]  # what -1 would have looked up
    tokens = len([t for t in whole.data["token_id"].values if t != EOS])
    assert scores(whole, "focus") == [pytest.approx(1 / tokens)]
    assert scores(part, "focus") == [pytest.approx(1 / (tokens - 1))]
    assert scores(whole, "copy") == [pytest.approx(1 / 3)]
    assert scores(part, "copy") == [pytest.approx(1 / 2)]
    assert np.isnan(scores(part, "copy_code")).all()
    nothing = unrecorded(whole, *range(len(whole.data["token_id"])))
    assert np.isnan([*scores(nothing, "focus"), *scores(nothing, "mass")]).all()


def test_layers_and_heads_keep_their_numbers():
    trace = ready("fixed", causal=False)
    part = type(trace)(trace.data.isel(head=[1, 3], layer=[0, 2]))
    found = retrieval_heads(part).group()
    assert (found.coordinate("copy", "layer"), found.coordinate("copy", "head")) == ([0, 2], [1, 3])


def test_one_score_alone():
    found = retrieval_heads(looking([4, 5, 0, 0]), score="focus")
    assert list(found.group().samples.data_vars) == ["focus"]
    with pytest.raises(
        FloatlensError, match=r'score="copi"; did you mean "copy"\?; give copy, copy_code, focus, mass, qr or all'
    ):
        retrieval_heads(looking([4, 5, 0, 0]), score="copi")


# -- over depth -------------------------------------------------------------------------------------------------------


def group_of(values):
    """(sample, layer, head) of a score."""
    return Group(
        {"model": "m"}, {}, xr.Dataset({"copy": (("sample", "layer", "head"), np.asarray(values, dtype=float))})
    )


def test_depth_correlation_is_spearmans_of_mean_scores_and_layers():
    values = np.random.default_rng(0).uniform(size=(6, 4, 3)) + np.linspace(0, 1, 4)[:, None]
    found = depth_correlation(group_of(values))
    mean = values.mean(axis=0)
    expected = stats.spearmanr(mean.ravel(), [layer for layer in range(4) for _ in range(3)]).statistic
    assert float(found.mean) == pytest.approx(expected)
    assert found.low <= found.mean <= found.high
    assert int(found.n) == 6
    deeper = np.tile(np.arange(4.0)[:, None], (5, 1, 3))
    assert float(depth_correlation(group_of(deeper)).mean) == pytest.approx(1)
    assert float(depth_correlation(group_of(-deeper)).mean) == pytest.approx(-1)
    assert np.isnan(depth_correlation(group_of(np.zeros((5, 4, 3)))).mean)
    assert np.isnan(depth_correlation(group_of(np.full((5, 4, 3), np.nan))).mean)


def test_share_above_by_half_of_the_layers():
    scores = np.array([[[0, 0.2], [0.05, 0], [0.6, 0.05], [0.9, 0.2]]] * 3)
    group = group_of(scores)
    assert float(share_above(group, "shallow").mean) == 0.25
    assert float(share_above(group, "deep").mean) == 0.75
    assert float(share_above(group, "deep", above=0.5).mean) == 0.5


def test_the_interval_of_a_share_of_heads_holds_what_single_heads_leave_open():
    """Of 4 heads, 2 are at 0.9 and 0 in all of 40 questions, one is at 0.11 and one at 0.09: both may be either."""
    scores = np.zeros((40, 2, 4))
    scores[:, 1, 0] = 0.9
    scores[:, 1, 2] = np.linspace(0, 0.22, 40)
    scores[:, 1, 3] = np.linspace(0, 0.18, 40)
    found = share_above(group_of(scores), "deep")
    assert (float(found.low), float(found.mean), float(found.high), int(found.n)) == (0.25, 0.5, 0.75, 40)
    assert np.isnan(share_above(group_of(scores[:1]), "deep").low)  # of one question there is none
    clear = np.where(scores > 0.5, 1.0, 0.0)
    assert float(share_above(group_of(clear), "deep").low) == float(share_above(group_of(clear), "deep").high) == 0.25


def test_tables_hold_the_share_of_retrieval_heads_by_half_and_the_trend():
    """Two heads of one layer: head 0 copies two thirds of the evidence, head 1 nothing; the shallow half is empty."""
    result = retrieval_heads(looking([4, 5, 0, 0], [0, 0, 0, 0]))
    rows = result.to_frame()
    heads = rows[rows.variable == "copy_heads"]
    told = list(zip(heads["half"], heads["above"], heads["mean"], strict=True))
    assert told[1] == ("deep", 0.1, 0.5)
    assert told[3] == ("deep", 0.5, 0.5)
    assert [one[:2] for one in told] == [("shallow", 0.1), ("deep", 0.1), ("shallow", 0.5), ("deep", 0.5)]
    assert np.isnan([told[0][2], told[2][2]]).all()
    assert (rows.variable == "copy_depth").sum() == 1
    assert list(rows.columns[-5:]) == ["mean", "std", "low", "high", "n"]
    alone = retrieval_heads(looking([4, 5, 0, 0]), score="focus").to_frame()
    assert set(alone.variable) == {"focus", "focus_heads", "focus_depth"}


def test_share_above_of_scores_that_are_not_defined_is_not_zero():
    assert np.isnan(share_above(group_of(np.full((4, 4, 2), np.nan)), "deep").mean)
    half = np.full((2, 2, 1), np.nan)
    half[0, 1] = 0.9
    assert float(share_above(group_of(half), "deep").mean) == 1
