"""Commit order by hand: rank correlations with ties, and the map of steps and positions."""

from __future__ import annotations

import numpy as np
import pytest

from floatlens.analysis import order
from floatlens.analysis.order import TENTHS
from floatlens.traces import Trace
from shared.synthetic import EOS, MASK, build, random_attention

SIZE = 24


def written(committed, *, confidence=None, final=None, steps=None):
    """A diffusion model that commits (position, step) in this order."""
    steps = steps or max(step for _, step in committed) + 1
    attention = random_attention(0, steps, 1, 1, SIZE, causal=False)
    trace = build(attention, causal=False, committed=committed, mask_id=MASK, final=final)
    if confidence is not None:
        trace.data["token_confidence"] = ("token", np.array(confidence, dtype=np.float32))
    return trace


def value(trace, name, tokens="all"):
    return float(order(trace)[name].sel(tokens=tokens).mean.item())


def tau_b(x, y):
    """(concordant - discordant) ÷ √((pairs without ties in x) (pairs without ties in y)), pair by pair."""
    signs = [np.sign(x[i] - x[j]) * np.sign(y[i] - y[j]) for i in range(len(x)) for j in range(i)]
    untied = [sum(z[i] != z[j] for i in range(len(z)) for j in range(i)) for z in (x, y)]
    return sum(signs) / np.sqrt(untied[0] * untied[1])


def test_left_to_right_and_right_to_left():
    assert value(written([(10 + i, i) for i in range(6)]), "position_tau") == pytest.approx(1)
    assert value(written([(20 - i, i) for i in range(6)]), "position_tau") == pytest.approx(-1)


def test_ties_are_corrected():
    """Two tokens a step, from left to right: of 6 pairs 4 are in different steps, all concordant: 4 ÷ √(4 · 6)."""
    trace = written([(10, 0), (11, 0), (12, 1), (13, 1)])
    assert value(trace, "position_tau") == pytest.approx(4 / np.sqrt(24))
    random = np.random.default_rng(3)
    step, place = np.sort(random.integers(0, 4, 10)), random.permutation(10) + 8
    step -= step.min()
    trace = written(list(zip(place.tolist(), step.tolist(), strict=True)), steps=4)
    assert value(trace, "position_tau") == pytest.approx(tau_b(step, place))


def test_confidence():
    steps = [(12, 0), (10, 1), (11, 2)]
    assert value(written(steps, confidence=[0.9, 0.5, 0.2]), "confidence_tau") == pytest.approx(-1)
    assert value(written(steps, confidence=[0.9, 0.2, 0.5]), "confidence_tau") == pytest.approx(-1 / 3)


def test_text_is_what_is_before_the_first_eos():
    """Written EOS first, from the right; the two words from left to right."""
    final = np.arange(10, 10 + SIZE)
    final[12:16] = EOS
    trace = written([(15, 0), (14, 1), (13, 2), (12, 3), (10, 4), (11, 5)], final=final)
    assert value(trace, "position_tau", "text") == pytest.approx(1)
    assert value(trace, "position_tau") == pytest.approx(tau_b(range(6), [15, 14, 13, 12, 10, 11]))


def test_undefined_in_one_pass_and_without_the_lens():
    trace = written([(10, 0), (11, 0)])
    assert np.isnan(value(trace, "position_tau"))
    assert np.isnan(order(trace).commits.mean).all()
    assert np.isnan(value(written([(10, 0), (11, 1)]), "first_confidence_tau"))
    assert float(order(trace).tokens_per_step) == 2


def test_confidence_in_the_first_pass_comes_from_the_lens():
    """Tokens committed at steps 0, 1, 2: their first pass is 0, 1 and 2 steps before. Layer 1 is the last."""
    trace = build(
        random_attention(0, 3, 2, 1, SIZE, causal=False),
        causal=False,
        committed=[(10, 0), (11, 1), (12, 2)],
        mask_id=MASK,
    )
    peak = np.full((3, 3, 2), 0.5, dtype=np.float32)
    peak[[0, 1, 2], [0, 1, 2], 1] = 0.9, 0.7, 0.8
    data = trace.data.assign(lens_peak=(("lens_before", "token", "layer"), peak))
    assert value(Trace(data), "first_confidence_tau") == pytest.approx(-1 / 3)
    short = Trace(data.isel(lens_before=slice(0, 1)))  # as for an autoregressive model
    assert np.isnan(value(short, "first_confidence_tau"))


def test_the_map_of_ten_tokens_is_their_order():
    """Ten tokens in ten passes: each fills one cell."""
    place = np.random.default_rng(1).permutation(10)
    trace = written([(int(p) + 8, step) for step, p in enumerate(place)])
    expected = np.zeros((TENTHS, TENTHS))
    expected[np.arange(10), place] = 1
    np.testing.assert_allclose(order(trace).commits.mean.values[0], expected, atol=1e-12)


def test_the_map_of_fewer_tokens_spreads_each_over_its_part():
    """Two tokens in two passes, the right one first: two quarters of the map, each cell a fifth."""
    found = order(written([(11, 0), (10, 1)])).commits.mean.values[0]
    np.testing.assert_allclose(found[:5, 5:], 0.2)
    np.testing.assert_allclose(found[5:, :5], 0.2)
    assert not found[:5, :5].any()
    assert not found[5:, 5:].any()


def test_every_place_of_the_map_sums_to_one():
    found = order(written([(10, 0), (13, 0), (11, 1), (9, 1), (15, 2), (14, 2), (20, 2)])).commits.mean.values[0]
    np.testing.assert_allclose(found.sum(axis=0), 1)
