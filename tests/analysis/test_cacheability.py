"""Cacheability: means by what a position holds, recall by hand, refreshes, and a figure."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import floatlens as fl
from floatlens.analysis import cacheability
from floatlens.analysis.cacheability import KINDS, recall
from floatlens.core.errors import FloatlensError
from floatlens.traces import Trace
from shared.synthetic import build, spread

TOKENS, MASK = 6, 99


def made(received=None):
    """Prompt: keys 0 to 3; key 4 is committed in step 0, key 5 in step 2. Three steps, one layer, one head."""
    trace = build(
        spread(np.ones((3, 1, 1, TOKENS, TOKENS)), causal=False),
        causal=False,
        committed=[(4, 0), (5, 2)],
        mask_id=MASK,
        regions=["question"] * 4 + ["answer"] * 2,
    )
    reuse = np.full((3, 1, TOKENS), np.nan)
    reuse[1, 0] = [0.9, 0.9, 0.9, 0.9, 0.2, 0.6]  # key 4 is fresh, key 5 masked
    reuse[2, 0] = [1.0, 1.0, 1.0, 1.0, 0.7, 0.8]  # key 4 committed earlier, key 5 masked
    masked = np.full((3, 1, 1, TOKENS), 1 / TOKENS) if received is None else received
    values = {
        **{f"{name}_reuse": reuse for name in ("key", "value", "state")},
        "top_reuse": np.array([[np.nan], [0.95], [0.85]]),
        "mass_ahead": np.tile(np.arange(7.0), (3, 1, 1)),
        **{f"keys_{share}": np.full((3, 1, 1), float(share)) for share in (90, 95, 99)},
        "received_masked": masked,
    }
    dims = {"top_reuse": ("step", "layer"), "mass_ahead": ("step", "layer", "distance")}
    dims |= dict.fromkeys(("key_reuse", "value_reuse", "state_reuse"), ("step", "layer", "key"))
    dims |= {f"keys_{share}": ("step", "layer", "head") for share in (90, 95, 99)}
    dims["received_masked"] = ("step", "layer", "head", "key")
    return Trace(trace.data.assign({n: (dims[n], np.array(v, dtype=np.float32)) for n, v in values.items()}))


def test_means_by_what_a_position_holds():
    group = cacheability(made()).group()
    found = dict(zip(KINDS, group.estimate("key").mean[:, 0].tolist(), strict=True))
    assert found == pytest.approx({"prompt": 0.95, "committed": 0.7, "fresh": 0.2, "masked": 0.7})
    assert group.estimate("top").mean.tolist() == pytest.approx([0.9])
    assert group.estimate("refresh").mean.tolist() == [pytest.approx(0.5)]
    assert group.estimate("keys_95").mean.tolist() == [pytest.approx(95)]
    assert group.estimate("ahead").mean[0].tolist() == pytest.approx(list(range(7)))


def test_recall_of_the_first_step():
    """The two most attended keys are 0 and 1 at first, then 1 and 2, then 4 and 5: half of them, and none."""
    received = np.zeros((3, 1, 1, TOKENS))
    received[0, 0, 0, [0, 1]] = received[1, 0, 0, [1, 2]] = received[2, 0, 0, [4, 5]] = 0.5
    group = cacheability(made(received), k=2).group()
    assert group.estimate("recall").mean.tolist() == [pytest.approx(0.25)]
    assert float(group.estimate("chance").mean) == pytest.approx(2 / 6)
    assert np.isnan(cacheability(made(received), k=6).group().estimate("recall").mean).all()  # no choice, no recall


@given(st.integers(0, 2**16), st.integers(2, 12), st.data())
def test_recall_equals_that_of_sets(seed, keys, data):
    k = data.draw(st.integers(1, keys))
    first, later = np.random.default_rng(seed).random((2, keys))
    sets = [set(np.argsort(-one)[:k].tolist()) for one in (first, later)]
    assert recall(first, later, k) == pytest.approx(len(sets[0] & sets[1]) / k)
    assert recall(first, first, k) == 1


def test_settings_are_checked():
    with pytest.raises(FloatlensError, match="k=0: give a number of keys"):
        cacheability(made(), k=0)
    with pytest.raises(FloatlensError, match="below=0: give a cosine"):
        cacheability(made(), below=0)


def test_from_a_model_to_a_figure():
    probes = ["received", "cacheability"]
    traces = [
        fl.trace(fl.load(f"scale:{name}"), question="What does Ada Frost play ?", gen_length=4, probes=probes)
        for name in ("llada", "llama")
    ]
    found = fl.cacheability(traces, k=4)
    assert 0 < float(found.group("scale:llada").estimate("key").mean[0].min()) <= 1
    figure = fl.plot_cacheability(found)
    assert len(figure.axes) >= 6


def test_the_turn_of_known_positions_by_hand():
    """The prompt turns by arccos 0.9 and then not at all, a committed token by arccos 0.7; fresh and masks are out."""
    group = cacheability(made()).group()
    angles = [np.degrees(np.arccos(x)) for x in (*[0.9] * 4, *[1.0] * 4, 0.7)]
    assert group.estimate("turn").mean.tolist() == pytest.approx([np.mean(angles)], abs=0.05)
    assert float(group.estimate("steps").mean) == 3
