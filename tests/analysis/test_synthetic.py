"""The builder of synthetic traces keeps to the schema and to what attention is."""

from __future__ import annotations

import numpy as np
import pytest

from floatlens.traces import open_trace
from shared.synthetic import MASK, PATTERNS, PROMPT, anchor_at, build, random_attention, ready, spread


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("causal", [True, False])
def test_ready_made_traces_are_whole_and_come_back_from_a_file(pattern, causal, tmp_path):
    trace = ready(pattern, causal=causal)
    again = open_trace(trace.save(tmp_path / "a"))
    assert again.data.attrs == trace.data.attrs
    for name in trace.data.data_vars:
        assert np.array_equal(
            again.data[name].values, trace.data[name].values, equal_nan=trace.data[name].dtype.kind == "f"
        )
    assert np.allclose(np.nansum(trace.data["received"].values, axis=-1), 1, atol=1e-6)
    assert np.allclose(np.nansum(trace.data["flow"].values[-1], axis=-1), 1, atol=1e-6)
    assert ((trace.data["sequence"].values < 0).sum(axis=1) == (8 - np.arange(8) if causal else 0)).all()
    assert (trace.masked.sum(axis=1) == (0 if causal else 8 - np.arange(8))).all()


def test_samples_differ_and_are_the_same_each_time():
    one, again, two = (ready("fixed", causal=True, sample=s).data["received"].values for s in (0, 0, 1))
    assert np.array_equal(one, again, equal_nan=True)
    assert not np.array_equal(one, two, equal_nan=True)


@pytest.mark.parametrize("pattern", ["fixed", "moving"])
@pytest.mark.parametrize("causal", [True, False])
def test_the_anchor_holds_most_of_what_can_be_given_to_it(pattern, causal):
    received = ready(pattern, causal=causal).data["received"].values
    for step in range(8):
        anchor = anchor_at(pattern, step)
        length = PROMPT + step if causal else 30
        seen = (length - anchor) / length if causal else 1
        assert (received[step, :, :, anchor] > 0.9 * seen).all()
        assert (np.nanargmax(received[step], axis=-1) == anchor).all()


def test_statistics_of_a_case_worked_out_by_hand():
    """Two steps over three positions of a diffusion model, the last a mask until step 1; one layer, one head."""
    attention = np.array([[[0.5, 0.3, 0.2], [0.1, 0.8, 0.1], [0.0, 0.4, 0.6]]] * 2)[:, None, None]
    trace = build(
        attention,
        causal=False,
        mask_id=MASK,
        final=[1, 7, 8],
        committed=[(2, 0)],
        regions=["bos", "question", "answer"],
        evidence=[1],
    )
    data = trace.data
    assert data["sequence"].values.tolist() == [[1, 7, MASK], [1, 7, 8]]
    assert np.allclose(data["received"].values[0, 0, 0], [0.2, 0.5, 0.3])
    assert np.allclose(data["received_masked"].values[0, 0, 0], [0, 0.4, 0.6])
    assert np.isnan(data["received_masked"].values[1]).all()
    assert np.allclose(data["received_committed"].values[0, 0, 0], [0.3, 0.55, 0.15])
    assert np.allclose(data["received_answer"].values[1, 0, 0], [0, 0.4, 0.6])
    assert np.allclose(data["flow"].values[0, 0], attention[0, 0, 0])
    assert np.allclose(data["question_flow"].values[0, 0, 0], [0.1, 0.8, 0.1])
    assert data["answer_argmax"].values.tolist() == [[[2]]]
    assert np.allclose(data["answer_peak"].values, 0.6)
    assert np.allclose(data["answer_evidence"].values, 0.4)
    assert data["entropy"].values[0, 0, 0, 2] == pytest.approx(-(0.4 * np.log(0.4) + 0.6 * np.log(0.6)))


def test_an_autoregressive_trace_grows_and_its_rows_are_shifted():
    attention = spread(np.ones((2, 1, 1, 4, 4)), causal=True, lengths=[2, 3])
    trace = build(attention, causal=True, committed=[(2, 0), (3, 1)])
    assert trace.data["sequence"].values.tolist() == [[10, 11, -1, -1], [10, 11, 12, -1]]
    assert trace.data["token_row"].values.tolist() == [1, 2]
    assert np.allclose(trace.data["received"].values[0, 0, 0, :2], [0.75, 0.25])
    assert np.isnan(trace.data["received"].values[0, 0, 0, 2:]).all()


def test_what_no_model_can_do_is_refused():
    attention = random_attention(0, 1, 1, 1, 4, causal=False)
    with pytest.raises(AssertionError, match="cannot look ahead"):
        build(attention, causal=True)
    with pytest.raises(AssertionError, match="sum to 1"):
        build(attention / 2, causal=False)
    with pytest.raises(AssertionError, match="not there"):
        build(attention, causal=False, committed=[(3, 0)])
