"""The lens analysis by hand: classes of steps, shares of rank 1, decision depth, and how early tokens are settled."""

from __future__ import annotations

import numpy as np
import pytest

from floatlens.analysis import lens
from floatlens.analysis.lens import BEFORE
from floatlens.core.errors import FloatlensError
from floatlens.traces import Trace
from shared.synthetic import EOS, MASK, build, random_attention

SIZE = 12


def looked_at(rank, steps, *, eos=(), layers=None, logp=None):
    """`rank` (steps before, token, layer) of tokens committed at these steps; `eos` are tokens that are EOS."""
    rank = np.array(rank, dtype=np.int32)
    final = np.arange(20, 20 + SIZE)
    places = [4 + token for token in range(len(steps))]
    final[[places[token] for token in eos]] = EOS
    attention = random_attention(0, max(steps) + 1, rank.shape[-1], 1, SIZE, causal=False)
    committed = list(zip(places, steps, strict=True))
    trace = build(attention, causal=False, committed=committed, mask_id=MASK, final=final, layer_numbers=layers)
    dims = ("lens_before", "token", "layer")
    chances = np.where(rank > 0, -np.log(np.maximum(rank, 1)), np.nan) if logp is None else logp
    found = {"lens_rank": (dims, rank), "lens_logp": (dims, np.asarray(chances, dtype=np.float32))}
    return trace.data.assign(found)


def mean(data, name, **how):
    return lens(Trace(data), **how).group().estimate(name).mean


def test_classes_of_steps():
    assert BEFORE == ("0", "1", "2", "3–4", "5–8", "9–16", "17–32", "33+")


def test_by_layer_and_steps_before():
    """Two tokens, two layers: committed at steps 0 and 1."""
    data = looked_at([[[4, 1], [9, 1]], [[-1, -1], [3, 2]]], [0, 1])
    assert mean(data, "first")[:, 0].tolist() == [0, 1]
    assert mean(data, "first")[:, 1].tolist() == [0, 0]
    assert mean(data, "rank")[:, 0].tolist() == [6.5, 1]
    assert mean(data, "rank")[:, 1].tolist() == [3, 2]
    assert mean(data, "logp")[0, 0] == pytest.approx(-(np.log(4) + np.log(9)) / 2)
    assert np.isnan(mean(data, "first")[:, 2:]).all()


def test_steps_of_one_class_are_pooled():
    """Steps 3 and 4 before: three tokens have a pass 3 before, two have one 4 before."""
    rank = np.full((5, 3, 1), 7)
    rank[3, :, 0], rank[4, :, 0] = [1, 1, 5], [-1, 1, 8]
    data = looked_at(rank, [3, 4, 4])
    assert mean(data, "first")[0, 3] == pytest.approx(3 / 5)
    assert mean(data, "rank")[0, 3] == 1


def test_decision_depth():
    """Four layers. First from layer 1 on: ½; first in 0 and 3 only: 1; not first in the last: left out."""
    data = looked_at([[[9, 1, 1, 1], [1, 5, 5, 1], [1, 1, 1, 2]]], [0, 0, 0])
    assert mean(data, "depth")[0] == pytest.approx((0.5 + 1) / 2)
    data = looked_at([[[1, 1, 1, 1]]], [0])
    assert mean(data, "depth")[0] == 0.25


def test_settled():
    """Committed at step 3: first 1, 2 steps before, not 3: two of three. At step 2: not 1 before: none. At step 0: no
    pass before. A token whose pass was not recorded is left out."""
    rank = np.full((4, 4, 1), -1)
    rank[0] = 1
    rank[1:, 0, 0] = [1, 1, 6]
    rank[1:3, 1, 0] = [4, 1]
    rank[1:, 3, 0] = [1, -1, 1]
    assert mean(looked_at(rank, [3, 2, 0, 3]), "settled") == pytest.approx((2 / 3 + 0) / 2)


def test_autoregressive_models_have_no_earlier_pass():
    assert np.isnan(mean(looked_at([[[1], [1]]], [0, 1]), "settled"))


def test_tokens_from_the_first_eos_on_are_left_out_unless_asked_for():
    data = looked_at([[[5], [1], [1]]], [0, 0, 0], eos=(1,))
    assert mean(data, "first")[0, 0] == 0
    assert mean(data, "first", tokens="all")[0, 0] == pytest.approx(2 / 3)
    assert np.isnan(mean(looked_at([[[5], [1]]], [0, 0], eos=(0,)), "first")).all()
    with pytest.raises(FloatlensError, match='tokens="eos"; give "text"'):
        lens(Trace(data), tokens="eos")


def test_without_the_last_layer_nothing_is_decided():
    data = looked_at([[[1, 1]]], [0], layers=[0, 1])
    data.attrs["model"] = {**data.attrs["model"], "layers": 3}
    assert np.isnan(mean(data, "depth")).all()
    assert mean(data, "first")[:, 0].tolist() == [1, 1]


def test_a_trace_without_the_probe_is_refused():
    with pytest.raises(FloatlensError, match='trace again with the probe "lens" on'):
        lens(Trace(looked_at([[[1]]], [0]).drop_vars(["lens_rank"])))
