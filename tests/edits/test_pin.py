"""Pinned and swapped: totals and bystanders stay, and the same masses go from the same keys to other places."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from floatlens.edits import PinAnchors, SwapAnchors

slow = pytest.mark.slow
HOW: dict[str, dict[str, Any]] = {"llada": {"steps": 4}, "dream": {"steps": 4}, "llama": {}, "qwen2": {}}
PLACES = [("llada", "step0"), ("llada", "bos"), ("dream", "step0"), ("llama", "step0"), ("qwen2", "bos")]


def rows_of(seen: Any, step: int, sample: int, causal: bool, count: int) -> list[int]:
    """Indices of real rows among those that a pass computed."""
    first = seen.positions[step].real.shape[1] - count
    return [i - first for i in seen.real(step, sample) if i >= first]


@pytest.mark.parametrize(
    ("name", "to", "k"),
    [
        pytest.param(*place, k, marks=() if (place[0], k) in (("llada", 1), ("llama", 2)) else slow)
        for place in PLACES
        for k in (1, 2)
    ],
)
def test_pinned_rows(
    name: str, to: Any, k: int, decoded: Any, received: Any, largest: Any, tiny_model: Callable[[str], Any]
) -> None:
    model, edit = tiny_model(name), PinAnchors(to, k=k)
    causal = model.kind == "arm"
    seen = decoded(model, [edit], cut=(4, 1), **HOW[name])
    masses: dict[tuple[int, int], list[float]] = {}
    for step in range(seen.steps):
        for layer in range(seen.layers):
            before, after = seen.new(step, layer)
            if step == 0 and to == "step0":
                assert np.abs(before - after).max() <= 1e-5
                continue
            for sample in range(2):
                for head in range(before.shape[1]):
                    rows = rows_of(seen, step, sample, causal, before.shape[2])
                    home = received(seen, 0, layer, sample, head, causal, of="plain")
                    targets = largest(home, seen.real(0, sample), k) if to == "step0" else seen.real(0, sample)[:1]
                    shares = [home[j] for j in targets] if to == "step0" else [1.0]
                    now = received(seen, step, layer, sample, head, causal, of="plain")
                    anchors = largest(now, seen.real(step, sample), k)
                    for i in rows:
                        was, is_ = before[sample, head, i], after[sample, head, i]
                        moved = sum(was[j] for j in anchors if j not in targets)
                        expected = was.copy()
                        for j in anchors:
                            if j not in targets:
                                expected[j] = 0
                        for j, share in zip(targets, shares, strict=True):
                            expected[j] += moved * share / sum(shares)
                        assert np.abs(is_ - expected).max() <= 1e-5
                        assert is_.sum() == pytest.approx(1, abs=1e-5)
                        assert all(is_[j] == 0 for j in anchors if j not in targets)
                        masses.setdefault((step, layer), []).append(moved)
    report = {(c.step, c.layer): c for c in edit.report()}
    assert report.keys() == masses.keys()
    for at, moved_here in masses.items():
        assert report[at].mass == pytest.approx(sum(moved_here), abs=1e-4)
        assert report[at].rows == sum(m > 0 for m in moved_here)


def test_bystanders_keep_every_bit(decoded: Any, tiny_model: Any) -> None:
    """Layer 0 of step 1: both runs wrote the same token in step 0, so that only the moved weights may differ."""
    plain = decoded(tiny_model("llada"), [PinAnchors(k=1, strength=1e-30)], steps=4)  # the same path, nothing to see
    seen = decoded(tiny_model("llada"), [PinAnchors(k=1)], steps=4)
    a, b = plain.weights[1, 0], seen.weights[1, 0]
    for sample in range(2):
        for head in range(a.shape[1]):
            changed = np.flatnonzero((a[sample, head] != b[sample, head]).any(0))
            assert len(changed) in (0, 2)  # one source, one target, or the anchor stayed where it was


@slow
@pytest.mark.parametrize(("name", "like"), PLACES)
def test_swapped_rows(
    name: str, like: Any, decoded: Any, received: Any, largest: Any, tiny_model: Callable[[str], Any]
) -> None:
    """What leaves the anchors is what the pin takes from them; where it goes is no anchor, now or in step 0."""
    model, edit = tiny_model(name), PinAnchors(like, k=2).control(seed=5)
    assert repr(edit) == f"SwapAnchors(like='{like}', k=2, seed=5)"
    causal = model.kind == "arm"
    seen = decoded(model, [edit], **HOW[name])
    drawn = set()
    for step in range(1 if like == "step0" else 0, seen.steps):
        for layer in range(seen.layers):
            before, after = seen.new(step, layer)
            for sample in range(2):
                for head in range(before.shape[1]):
                    home = received(seen, 0, layer, sample, head, causal, of="plain")
                    old = largest(home, seen.real(0, sample), 2) if like == "step0" else seen.real(0, sample)[:1]
                    now = received(seen, step, layer, sample, head, causal, of="plain")
                    anchors = largest(now, seen.real(step, sample), 2)
                    shares = sorted(home[j] / sum(home[old]) for j in old) if like == "step0" else [1.0]
                    for i in rows_of(seen, step, sample, causal, before.shape[2]):
                        was, is_ = before[sample, head, i], after[sample, head, i]
                        moved = sum(was[j] for j in anchors if j not in old)
                        assert is_.sum() == pytest.approx(1, abs=1e-5)
                        gain = is_ - was
                        grown = np.flatnonzero(gain > 1e-5)
                        assert all(seen.plain[step, layer][sample, head, i, j] > 0 for j in grown)  # visible
                        if moved < 1e-3 or (causal and step == 0 and not len(grown)):
                            continue  # an early row of the prompt may see none of the random keys
                        assert not set(grown) & {*anchors, *old}
                        assert sorted(gain[grown] / moved)[-1] == pytest.approx(shares[-1], abs=1e-2)
                        assert gain[grown].sum() == pytest.approx(moved, abs=1e-4)
                        drawn.add((sample, head, *grown))
    assert len(drawn) > 8


@slow
def test_strength_moves_a_share(decoded: Any, tiny_model: Any) -> None:
    whole, half = PinAnchors(k=1), PinAnchors(k=1, strength=0.5)
    full, seen = decoded(tiny_model("llada"), [whole], steps=2), decoded(tiny_model("llada"), [half], steps=2)
    before, all_moved = full.new(1, 0)
    again, half_moved = seen.new(1, 0)
    assert np.abs(before - again).max() <= 1e-6  # layer 0 of step 1 has the same states in both
    assert np.abs((half_moved - before) - (all_moved - before) / 2).max() <= 1e-5
    first = [next(c for c in edit.report() if (c.step, c.layer) == (1, 0)) for edit in (whole, half)]
    assert first[1].mass == pytest.approx(first[0].mass / 2, rel=1e-4)


@slow
def test_no_anchor_in_step_0_moves_nothing(decoded: Any, tiny_model: Any) -> None:
    edit = SwapAnchors(rule="zscore(3.4)")
    seen, plain = (decoded(tiny_model("llada"), edits, steps=2) for edits in ([edit], []))
    assert seen.tokens == plain.tokens
    assert sum(c.rows for c in edit.report()) == 0


@slow
def test_a_window_that_shows_no_target_keeps_its_rows(decoded: Any, tiny_model: Any) -> None:
    """Mistral sees four keys: once the first token is out of sight, nothing can be moved to it."""
    edit = PinAnchors("bos", k=1)
    seen = decoded(tiny_model("mistral"), [edit], [[5, 9, 12, 33, 21, 8, 30]])
    for step in range(1, seen.steps):
        for layer in range(seen.layers):
            before, after = seen.new(step, layer)
            assert np.abs(before - after).max() <= 1e-5
    assert {c.step for c in edit.report() if c.rows} <= {0}
