"""The two objectives, against losses worked out one position at a time."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from floatlens.subjects.scale.tokenizer import vocabulary
from floatlens_lab.scale.blueprints import BLUEPRINTS, build_module
from floatlens_lab.scale.objectives import draw_mask, score
from floatlens_lab.scale.rows import ANSWER, CONTEXT, END, FILL, Rows

MASK = 4


@pytest.fixture(scope="module")
def rows() -> Rows:
    random = np.random.default_rng(0)
    ids = random.integers(5, len(vocabulary()), (3, 12))
    part = np.array([[CONTEXT] * 6 + [ANSWER] * 3 + [END] + [FILL] * 2] * 3, dtype=np.int8)
    return Rows(ids, part)


@pytest.mark.parametrize("name", list(BLUEPRINTS))
def test_the_loss_is_the_weighted_mean_over_what_is_asked(name, rows):
    plan = BLUEPRINTS[name]
    torch.manual_seed(1)
    module = build_module(plan).train(False)
    mask = np.random.default_rng(5).random(rows.ids.shape) < 0.5
    mask[:, 0] = False
    found = score(module, plan, rows, mask, MASK)
    seen = np.where(mask, MASK, rows.ids) if plan.kind == "mdm" else rows.ids
    with torch.no_grad():
        logits = module(torch.from_numpy(seen), use_cache=False).logits.double().log_softmax(-1)
    total = weights = 0.0
    hits, losses = [], []
    for row in range(3):
        for position in range(1, 12):
            kind = int(rows.part[row, position])
            weight = {CONTEXT: 0.1, ANSWER: 1.0, END: 1.0, FILL: 0.1}[kind]
            if plan.kind == "mdm":
                if not mask[row, position]:
                    continue
                weight = 0.5 if kind == CONTEXT else weight
            decided = logits[row, position - 1 if plan.shift else position]
            target = int(rows.ids[row, position])
            total -= weight * float(decided[target])
            weights += weight
            if kind == ANSWER:
                losses.append(-float(decided[target]))
                hits.append(int(decided.argmax()) == target)
    assert float(found.loss.detach()) == pytest.approx(total / weights, rel=1e-5)
    assert found.answer_loss == pytest.approx(np.mean(losses), rel=1e-5)
    assert found.accuracy == pytest.approx(np.mean(hits))


def test_a_diffusion_model_reads_both_ways_and_an_autoregressive_one_does_not(rows):
    for plan in BLUEPRINTS.values():
        torch.manual_seed(2)
        module = build_module(plan).train(False)
        changed = torch.from_numpy(rows.ids).clone()
        changed[:, -1] = 5
        with torch.no_grad():
            before, after = (module(ids, use_cache=False).logits[:, 0] for ids in (torch.from_numpy(rows.ids), changed))
        assert torch.equal(before, after) == (plan.kind == "arm")


def test_masks_hide_every_answer_of_most_rows():
    part = np.array([[CONTEXT] * 10 + [ANSWER] * 8 + [END, FILL]] * 4000, dtype=np.int8)
    rows = Rows(np.zeros_like(part, dtype=np.int64), part)
    mask = draw_mask(np.random.default_rng(0), rows, every_answer=0.75, context_mask=0.2)
    answers = mask[:, 10:]
    assert 0.73 < answers.all(axis=1).mean() < 0.86  # three quarters, and those of the rest that happen to be full
    assert 0.83 < answers.mean() < 0.92  # 0.75 + 0.25 / 2
    assert not mask[:, 0].any()
    assert 0.08 < mask[:, 1:10].mean() < 0.12  # half the rows, a fifth of their tokens
    full = draw_mask(np.random.default_rng(0), rows, every_answer=1.0, context_mask=0.0)
    assert np.array_equal(full, part != CONTEXT)


def test_all_have_the_same_number_of_weights_but_for_biases():
    counts = {}
    for name, plan in BLUEPRINTS.items():
        module = build_module(plan)
        counts[name] = sum(p.numel() for key, p in module.named_parameters() if not key.endswith(".bias"))
        assert 1_500_000 <= sum(p.numel() for p in module.parameters()) <= 4_000_000
    mamba = counts.pop("mamba")
    assert len(set(counts.values())) == 1
    assert abs(mamba / counts["llada"] - 1) < 0.01
