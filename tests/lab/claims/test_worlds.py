"""Traces with a known truth: attention sums to one, and anchors are where the world puts them."""

from __future__ import annotations

import numpy as np
import pytest

from floatlens_lab.claims.worlds import LAYERS, PROMPT, WORLDS, make_trace

STEPS = 8


def received(world: str, kind: str = "mdm", group: str = "received_answer", sample: int = 0) -> np.ndarray:
    trace = make_trace(WORLDS[world], kind=kind, steps=STEPS, sample=sample, ref="m")
    return trace.data[group].values.astype(np.float64)


@pytest.mark.parametrize("kind", ["mdm", "arm"])
@pytest.mark.parametrize("world", WORLDS)
def test_the_attention_of_all_rows_sums_to_one(world: str, kind: str) -> None:
    total = np.nansum(received(world, kind, "received"), axis=-1)
    assert total.shape == (STEPS, LAYERS)
    np.testing.assert_allclose(total, 1, atol=1e-5)


@pytest.mark.parametrize("world", WORLDS)
def test_a_trace_depends_on_its_sample_alone(world: str) -> None:
    np.testing.assert_array_equal(received(world), received(world))
    assert not np.array_equal(received(world), received(world, sample=1))


def test_a_sink_holds_its_share_at_the_first_position() -> None:
    """60 %, give or take a tenth of it, and the background's hundredth or so."""
    first = received("sink")[..., 0]
    assert ((first > 0.53) & (first < 0.69)).all()
    assert (received("weak-sink")[..., 0] < 0.15).all()


def test_floating_anchors_follow_the_frontier_and_those_to_the_left_go_back() -> None:
    """Four tokens are written per step; the strongest key is at most 8 before and 2 behind the first of them."""
    right, left = (received(world).argmax(axis=-1) for world in ("llada", "left"))
    frontier = PROMPT + 4 * np.arange(STEPS)
    assert (np.abs(right - frontier[:, None]) <= 8).all()
    assert (np.diff(right[1:], axis=0) == 4).all()
    assert (np.diff(left[:-1], axis=0) == -4).all()


def test_held_anchors_stay_and_flickering_ones_are_the_same_few() -> None:
    held, flicker, jump = (received(world) > 0.08 for world in ("held", "flicker", "jump"))
    assert (held.sum(axis=-1) == 3).all()
    assert (held == held[:1]).all()
    assert (flicker.sum(axis=-1) == 2).all()
    assert (flicker.any(axis=0).sum(axis=-1) <= 5).all()
    assert (jump.any(axis=0).sum(axis=-1) >= STEPS - 2).all()


def test_prompt_rows_may_have_anchors_of_their_own() -> None:
    """In "answer" they hold three words, so the mean over all rows hardly moves."""
    whole = received("answer", group="received")
    strongest = np.sort(np.argsort(whole, axis=-1)[..., -3:], axis=-1)
    assert (strongest == strongest[:1]).mean() > 0.9
    assert (strongest < PROMPT).mean() > 0.9


def test_worlds_without_anchors() -> None:
    for world in ("noise", "shuffled"):
        assert received(world).max() < 0.1
