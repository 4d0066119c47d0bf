"""Dropped keys hold nothing, the others share what is left, and the keys are those that stood out one step before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from floatlens import Select
from floatlens.edits import DropAnchors, DropRandom

MODELS = ["llada", "dream", "llama", "mistral"]
HOW: dict[str, dict[str, Any]] = {"llada": {"steps": 4}, "dream": {"steps": 4}, "llama": {}, "mistral": {}}


def renormalised(row: np.ndarray, without: list[int]) -> np.ndarray:
    kept = np.array([0.0 if j in without else w for j, w in enumerate(row)])
    return kept / kept.sum()


@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize("name", MODELS)
def test_the_anchors_of_the_last_step_are_gone(
    name: str, k: int, decoded: Any, received: Any, largest: Any, tiny_model: Callable[[str], Any]
) -> None:
    model = tiny_model(name)
    edit = DropAnchors(k=k)
    seen = decoded(model, [edit], cut=(4, 1), **HOW[name])
    causal = model.kind == "arm"
    held: dict[tuple[int, int], list[float]] = {}
    for step in range(seen.steps):
        for layer in range(seen.layers):
            before, after = seen.new(step, layer)
            if step == 0:
                assert np.abs(before - after).max() <= 1e-5
                continue
            for sample in range(2):
                if not seen.positions[step].real[sample, -1]:
                    continue  # this sample has ended
                rows = seen.real(step, sample) if not causal else [before.shape[2] - 1]
                for head in range(before.shape[1]):
                    share = received(seen, step - 1, layer, sample, head, causal)
                    among = [j for j in seen.real(step - 1, sample) if name != "mistral" or share[j] > 0]
                    if name == "mistral":  # its last row sees four keys, one of which may have been dropped
                        last = seen.real(step - 1, sample)[-1]
                        among = [j for j in seen.real(step - 1, sample) if j > last - 4]
                    gone = largest(share, among, k)
                    for i in rows:
                        row = before[sample, head, i]
                        assert (after[sample, head, i, gone] == 0).all()
                        assert np.abs(after[sample, head, i] - renormalised(row, gone)).max() <= 1e-5
                        mass = row[gone].sum()
                        held.setdefault((step, layer), []).append(mass)
    report = {(c.step, c.layer): c for c in edit.report()}
    assert report.keys() == held.keys()
    for at, masses in held.items():
        assert report[at].rows == sum(m > 0 for m in masses)
        assert report[at].mass == pytest.approx(sum(masses), abs=1e-4)
        assert report[at].mean == pytest.approx(np.mean([m for m in masses if m > 0]), abs=1e-5)


def test_unedited_anchors_stay_dropped(decoded: Any, received: Any, largest: Any, tiny_model: Any) -> None:
    """`of="unedited"` looks at what step s − 1 would have been without the drop."""
    seen = decoded(tiny_model("llada"), [DropAnchors(k=2, of="unedited")], steps=4)
    for step in range(1, seen.steps):
        for layer in range(seen.layers):
            for sample in range(2):
                share = received(seen, step - 1, layer, sample, 1, False, of="plain")
                gone = largest(share, seen.real(step - 1, sample), 2)
                zero = np.flatnonzero((seen.weights[step, layer][sample, 1][seen.real(step, sample)] == 0).all(0))
                assert sorted(gone) == [j for j in zero if j in seen.real(step, sample)]


@pytest.mark.parametrize("name", ["llada", "llama"])
def test_strength_takes_a_share(name: str, decoded: Any, received: Any, largest: Any, tiny_model: Any) -> None:
    """Half of a dropped key's exponential is left; the report says what went to the others."""
    edit = DropAnchors(k=1, strength=0.5)
    seen = decoded(tiny_model(name), [edit], [PROMPT], **HOW[name])
    moved = 0.0
    for layer in range(seen.layers):
        before, after = seen.new(1, layer)
        for head in range(before.shape[1]):
            share = received(seen, 0, layer, 0, head, name == "llama")
            (gone,) = largest(share, seen.real(0, 0), 1)
            for i in range(before.shape[2]):
                expected = before[0, head, i].copy()
                expected[gone] /= 2
                assert np.abs(after[0, head, i] - expected / expected.sum()).max() <= 1e-5
                moved += before[0, head, i, gone] - after[0, head, i, gone]
    assert sum(c.mass for c in edit.report() if c.step == 1) == pytest.approx(moved, abs=1e-3)


PROMPT = [5, 9, 12, 33, 21, 8, 30]


@pytest.mark.parametrize("name", ["llada", "llama"])
def test_the_control_drops_as_many_others(
    name: str, decoded: Any, received: Any, largest: Any, tiny_model: Callable[[str], Any]
) -> None:
    model = tiny_model(name)
    seen = decoded(model, [DropAnchors(k=2).control(seed=3)], **HOW[name])
    chosen = set()
    for step in range(1, seen.steps):
        for layer in range(seen.layers):
            before, after = seen.new(step, layer)
            for sample in range(2):
                for head in range(before.shape[1]):
                    if not seen.positions[step].real[sample, -1]:
                        continue
                    share = received(seen, step - 1, layer, sample, head, model.kind == "arm")
                    anchors = largest(share, seen.real(step - 1, sample), 2)
                    rows = (
                        after[sample, head][-1:]
                        if model.kind == "arm"
                        else after[sample, head][seen.real(step, sample)]
                    )
                    gone = [j for j in seen.real(step, sample) if (rows[:, j] == 0).all()]
                    assert len(gone) == 2
                    assert not set(gone) & set(anchors)
                    chosen.add((sample, *gone))
    assert len(chosen) > 8  # drawn anew for heads, layers and steps
    again = decoded(model, [DropRandom(k=2, seed=3)], **HOW[name])
    other = decoded(model, [DropRandom(k=2, seed=4)], **HOW[name])
    assert all(np.array_equal(again.weights[at], seen.weights[at]) for at in seen.weights)
    assert any(not np.array_equal(other.weights[at], seen.weights[at]) for at in seen.weights)


def test_zscore_may_find_nothing(decoded: Any, tiny_model: Any) -> None:
    """None of n keys can lie further than √(n − 1) deviations above their mean, here 3.61 and 3.17 of 14 and 11 keys.

    An empty set stays empty.
    """
    edit = DropAnchors(rule="zscore(3.7)")
    plain, seen = (decoded(tiny_model("llada"), edits, steps=4) for edits in ([], [edit]))
    assert seen.tokens == plain.tokens
    assert sum(c.rows for c in edit.report()) == 0
    edit = DropAnchors(rule="zscore(1)", select=Select(steps=[1]))
    decoded(tiny_model("llada"), [edit], steps=4)
    assert sum(c.rows for c in edit.report()) > 0
    assert {c.step for c in edit.report()} == {1}
