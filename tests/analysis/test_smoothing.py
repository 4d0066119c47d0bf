"""Over-smoothing: means over steps, rank relative to the tokens there are, and a figure."""

from __future__ import annotations

import numpy as np
import pytest

import floatlens as fl
from floatlens.analysis import smoothing
from floatlens.traces import Trace
from shared.synthetic import build, spread

TOKENS = 6


def made():
    """Two steps, two layers, two heads; values differ by step, so that means can be told from single ones."""
    trace = build(spread(np.ones((2, 2, 2, TOKENS, TOKENS)), causal=False), causal=False)
    values = {
        "state_cosine": [[0.1, 0.5], [0.3, 0.9]],
        "masked_cosine": [[0.8, 0.4], [np.nan, np.nan]],
        "effective_rank": [[6.0, 3.0], [4.0, 2.0]],
        "row_distance": [[[0.2, 0.4], [0.1, 0.1]], [[0.6, 0.8], [0.1, 0.3]]],
    }
    dims = {name: ("step", "layer", "head")[: np.ndim(value)] for name, value in values.items()}
    return Trace(trace.data.assign({n: (dims[n], np.array(v, dtype=np.float32)) for n, v in values.items()}))


def test_means_over_steps_and_heads():
    group = smoothing(made()).group()
    assert group.estimate("cosine").mean.tolist() == pytest.approx([0.2, 0.7])
    assert group.estimate("masked_cosine").mean.tolist() == pytest.approx([0.8, 0.4])  # steps without masks say nothing
    assert group.estimate("rank").mean.tolist() == pytest.approx([5, 2.5])
    assert group.estimate("rank_share").mean.tolist() == pytest.approx([5 / 6, 2.5 / 6])
    assert group.estimate("row_distance").mean.tolist() == pytest.approx([0.5, 0.15])


def test_from_a_model_to_a_figure():
    model = fl.load("scale:llada")
    seen = fl.trace(model, question="What does Ada Frost play ?", gen_length=4, probes=["smoothing"])
    found = fl.smoothing(seen)
    assert found.group().estimate("rank_share").mean.shape == (model.num_layers,)
    figure = fl.plot_smoothing(found)
    assert len(figure.axes) >= 4
    assert "smoothing" in str(found).lower() or "rank" in str(found)
