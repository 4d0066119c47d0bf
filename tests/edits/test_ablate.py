"""Ablated heads: zero, mean and uniform against plain loops; which heads; and the random ones in their place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from floatlens import Select, edit
from floatlens.attention.softmax import Workspace
from floatlens.core.errors import FloatlensError
from floatlens.edits import AblateHeads

slow = pytest.mark.slow

HEADS = [(0, 1), (1, 0), (1, 3)]
HOW: dict[str, dict[str, Any]] = {"llada": {"steps": 4}, "llama": {}, "mistral": {}}


def expected(seen: Any, step: int, layer: int, sample: int, head: int, mode: str, name: str) -> dict[int, np.ndarray]:
    """Rows that the head should have, by index among the rows of the pass, real ones only."""
    before, _ = seen.new(step, layer)
    first = seen.positions[step].real.shape[1] - before.shape[2]
    real = seen.real(step, sample)
    rows = {}
    for i in [i for i in real if i >= first]:
        row = before[sample, head, i - first]
        if mode == "zero":
            rows[i - first] = np.zeros_like(row)
        elif mode == "uniform":
            low = i - 3 if name == "mistral" else 0
            seen_keys = [j for j in real if name == "llada" or low <= j <= i]
            rows[i - first] = np.array([1 / len(seen_keys) if j in seen_keys else 0.0 for j in range(len(row))])
        elif name == "llada":
            rows[i] = np.mean([before[sample, head, r] for r in real], axis=0)
        else:  # over this and all earlier rows, those of earlier passes included
            total, number = np.zeros(len(row)), 0
            for at in range(step + 1):
                then, start = seen.plain[at, layer], seen.positions[at].real.shape[1] - seen.plain[at, layer].shape[2]
                for r in range(then.shape[2]):
                    if start + r <= i and start + r in seen.real(at, sample):
                        total[: then.shape[3]] += then[sample, head, r]
                        number += 1
            rows[i - first] = total / number
    return rows


@slow
@pytest.mark.parametrize("mode", ["zero", "mean", "uniform"])
@pytest.mark.parametrize("name", ["llada", "llama", "mistral"])
def test_ablated_rows(name: str, mode: Any, decoded: Any, tiny_model: Any) -> None:
    ablated = AblateHeads(HEADS, mode=mode)
    seen = decoded(tiny_model(name), [ablated], cut=(4, 1), **HOW[name])
    moved: dict[tuple[int, int], list[float]] = {}
    for step in range(seen.steps):
        for layer in range(seen.layers):
            before, after = seen.new(step, layer)
            for head in range(before.shape[1]):
                for sample in range(2):
                    if (layer, head) not in HEADS:
                        assert np.abs(before - after)[sample, head].max() <= 1e-5
                        continue
                    for i, row in expected(seen, step, layer, sample, head, mode, name).items():
                        assert np.abs(after[sample, head, i] - row).max() <= 1e-5
                        change = np.abs(row - before[sample, head, i]).sum() / (1 if mode == "zero" else 2)
                        moved.setdefault((step, layer), []).append(change)
    for c in ablated.report():
        assert c.mass == pytest.approx(sum(moved[c.step, c.layer]), abs=1e-3)
    assert {(c.step, c.layer) for c in ablated.report()} == set(moved)


def test_zero_is_no_output(tiny_model: Any) -> None:
    """Zeroed weights are what a zeroed slice of the output projection gives."""
    model, ids = tiny_model("llada"), torch.tensor([[5, 9, 12, 33, 21, 8]])
    projection = model.module.model.layers[1].self_attn.o_proj.weight
    width = projection.shape[1] // model.num_heads
    kept = projection.detach().clone()
    with torch.no_grad():
        projection[:, 2 * width : 3 * width] = 0
    try:
        silenced = model.forward(ids)
    finally:
        with torch.no_grad():
            projection.copy_(kept)
    with edit(model, AblateHeads([(1, 2)]), workspace=Workspace(kernel="torch")):
        ablated = model.forward(ids)
    assert (silenced - ablated).abs().max() <= 1e-4 * silenced.abs().max()
    assert (ablated - model.forward(ids)).abs().max() > 1e-2


@slow
@pytest.mark.parametrize(("name", "how"), [("llada", {"steps": 1}), ("llama", {})])
def test_strength_mixes(name: str, how: Any, decoded: Any, tiny_model: Any) -> None:
    for mode in ("zero", "mean", "uniform"):
        full, part = (
            decoded(tiny_model(name), [AblateHeads([(0, 1)], mode=mode, strength=a)], **how) for a in (1, 0.25)
        )
        before, all_of_it = full.new(0, 0)
        _, some = part.new(0, 0)
        assert np.abs(some - (0.75 * before + 0.25 * all_of_it)).max() <= 1e-5


@slow
def test_mean_runs_on_over_steps_that_are_not_changed(decoded: Any, tiny_model: Any) -> None:
    """Only step 2 is changed, yet its mean is over all rows so far."""
    seen = decoded(tiny_model("llama"), [AblateHeads([(0, 1)], mode="mean", select=Select(steps=2))])
    for step in range(seen.steps):
        before, after = seen.new(step, 0)
        if step != 2:
            assert np.abs(before - after).max() <= 1e-6
            continue
        for sample in range(2):
            for i, row in expected(seen, 2, 0, sample, 1, "mean", "llama").items():
                assert np.abs(after[sample, 1, i] - row).max() <= 1e-5


def test_heads_by_score() -> None:
    scores = [[0.1, 0.9, np.nan], [0.9, 0.2, 0.3]]
    assert AblateHeads(scores=scores, top=2).heads == ((0, 1), (1, 0))
    assert AblateHeads(scores=scores, top=3).heads == ((0, 1), (1, 0), (1, 2))
    assert not AblateHeads(scores=scores, top=0).active
    with pytest.raises(FloatlensError, match="5 heads have a score"):
        AblateHeads(scores=scores, top=6)
    assert AblateHeads("retrieval", scores=scores, top=2).heads == ((0, 1), (1, 0))
    assert AblateHeads("retrieval", scores=scores, top=2).needs == frozenset()


def test_heads_that_are_not_known_yet(tiny_model: Any) -> None:
    """It says what it needs, and does not run without it."""
    waiting = AblateHeads("retrieval", top=2, mode="mean")
    assert waiting.needs == {"retrieval scores"}
    assert repr(waiting) == "AblateHeads(heads='retrieval', top=2, mode='mean')"
    assert waiting.control(3).matched_random
    with pytest.raises(FloatlensError, match=r"the retrieval heads of .* are not known; give scores"):
        edit(tiny_model("llada"), waiting).__enter__()


@slow
def test_random_heads_in_the_same_layers(tiny_model: Any) -> None:
    model = tiny_model("llada")  # 4 heads per layer
    found = set()
    for seed in range(6):
        control = AblateHeads(HEADS, mode="uniform").control(seed)
        assert control.mode == "uniform"
        with edit(model, control):
            pass
        assert not set(control.chosen) & set(HEADS)
        assert [layer for layer, _ in control.chosen] == [0, 1, 1]
        found.add(control.chosen)
    assert len(found) > 1
    full = AblateHeads(
        [(0, h) for h in range(4)], matched_random=True
    )  # its layer has no other head: the rest anywhere
    with edit(model, full):
        pass
    assert len(full.chosen) == 4
    assert all(layer > 0 for layer, _ in full.chosen)


def test_random_heads_are_drawn_where_the_edit_may_act(tiny_model: Any) -> None:
    """Of three heads one is selected, so that one other is drawn, among the selected."""
    chosen = Select(heads=[1, 2], layers=[0, 1])
    for seed in range(6):
        control = AblateHeads([(0, 1), (0, 3), (2, 1)], select=chosen).control(seed)
        with edit(tiny_model("llada"), control):
            pass
        assert control.chosen == ((0, 2),)
    with pytest.raises(FloatlensError, match="is itself a control"):
        control.control()
    crowded = AblateHeads([(0, 1), (0, 2)], select=Select(heads=[1, 2], layers=[0]), matched_random=True)
    with pytest.raises(FloatlensError, match="2 of 2 heads leave too few for a random control"):
        edit(tiny_model("llada"), crowded).__enter__()


def test_what_cannot_be(tiny_model: Any) -> None:
    model = tiny_model("llada")
    for wrong, message in (
        (lambda: AblateHeads([(0, 1)], mode="zeros"), 'unknown mode "zeros"; did you mean "zero"'),
        (lambda: AblateHeads(), 'give heads=.* or "retrieval" with scores and top=N'),
        (lambda: AblateHeads("retrieval"), "with scores and top=N"),
        (lambda: AblateHeads("retreival", top=2), 'did you mean "retrieval"'),
        (lambda: AblateHeads([(0, 1)], top=2), "with scores and top=N"),
        (lambda: AblateHeads([3]), r"a list of \(layer, head\)"),
        (lambda: AblateHeads([(0.7, 1)]), r"a list of \(layer, head\)"),
        (lambda: AblateHeads([(0, 1)], matched_random=True, seed=-1), r"AblateHeads\(seed=-1\): give a whole number"),
        (lambda: edit(model, AblateHeads([(9, 0)])).__enter__(), r"there is no head \(9, 0\)"),
        (lambda: edit(model, AblateHeads(scores=[[1.0]], top=1)).__enter__(), "layers × 4 heads"),
    ):
        with pytest.raises(FloatlensError, match=message) as error:
            wrong()
        assert "\n" not in str(error.value)


def test_a_name_keeps_its_heads_beside_those_selected() -> None:
    """Reports are told apart by it."""
    limited = AblateHeads([(0, 1), (2, 3)], select=Select(heads=[1], steps=[2]))
    assert repr(limited) == "AblateHeads(heads=[(0, 1), (2, 3)], mode='zero', select.heads=[1], steps=[2])"
