"""What is asked, what is seen, and the loss, each against a plain loop."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from floatlens.adaptation import Recipe
from floatlens.adaptation.objective import Asked, draw, score, visible
from floatlens.adaptation.rows import ANSWER, CONTEXT, END, FILL, PADDING, TEXT, Rows
from floatlens.models import load

ASKED = Rows(
    ids=np.array([[2, 10, 11, 12, 13, 14, 3, 3, 0]]),
    part=np.array([[CONTEXT, CONTEXT, ANSWER, CONTEXT, ANSWER, ANSWER, END, FILL, PADDING]]),
    block=np.array([[-1, -1, 0, -1, 1, 1, 1, 1, -1]]),
)
PLAIN = Rows(np.arange(10, 74)[None], np.full((1, 64), TEXT), (np.arange(64) // 32)[None])


def sees(rows, attention, query, key):
    """The rule in words, for one pair."""
    if query == key:
        return True
    if rows.part[0, key] == PADDING:
        return False
    if attention == "full" or key < query:
        return True
    return attention == "block" and rows.block[0, query] == rows.block[0, key] >= 0


@pytest.mark.parametrize("attention", ["full", "block", "causal"])
@pytest.mark.parametrize("rows", [ASKED, PLAIN], ids=["asked", "plain"])
def test_visibility_follows_the_rule(rows, attention):
    found = visible(rows, attention)[0, 0]
    width = rows.ids.shape[1]
    assert found.tolist() == [[bool(sees(rows, attention, q, k)) for k in range(width)] for q in range(width)]


def test_annealing_goes_from_causal_to_full():
    def shown(share):
        return visible(PLAIN, "full", share, np.random.default_rng(0))[0, 0].numpy()

    causal, full = visible(PLAIN, "causal")[0, 0].numpy(), visible(PLAIN, "full")[0, 0].numpy()
    assert np.array_equal(shown(0.0), causal)
    assert np.array_equal(shown(1.0), full)
    later = ~causal
    assert shown(0.5)[later].mean() == pytest.approx(0.5, abs=0.05)
    assert shown(0.5)[causal].all()


def test_the_same_tokens_are_asked_for_by_both_objectives():
    for rows in (ASKED, PLAIN):
        mdm = draw(np.random.default_rng(5), rows, Recipe())
        arm = draw(np.random.default_rng(5), rows, Recipe(to="autoregressive"))
        assert np.array_equal(mdm.where, arm.where)
        assert np.array_equal(mdm.weight, arm.weight)


def test_what_is_drawn_keeps_to_the_recipe():
    recipe = Recipe(whole_answer=0.5, context_mask=0.2, largest_weight=4.0)
    whole, context = [], []
    for seed in range(400):
        asked = draw(np.random.default_rng(seed), ASKED, recipe)
        assert not asked.where[0, 0]
        assert not asked.where[ASKED.part == PADDING].any()
        assert (asked.weight[~asked.where] == 0).all()
        assert asked.where.any()
        whole.append(asked.ratio[0, 4] == 1)
        context.append(asked.where[0, 3])
        weights = asked.weight[(ASKED.part == ANSWER) & asked.where]
        assert ((weights >= 1) & (weights <= 4)).all()
    assert np.mean(whole) == pytest.approx(0.5, abs=0.08)
    assert np.mean(context) == pytest.approx(0.1, abs=0.05)


def test_block_attention_asks_for_no_context_and_leaves_blocks_whole():
    ratios = []
    for seed in range(100):
        assert not draw(np.random.default_rng(seed), ASKED, Recipe(mask="block")).where[0, [1, 3]].any()
        plain = draw(np.random.default_rng(seed), PLAIN, Recipe(mask="block")).ratio[0]
        ratios.append((plain[0], plain[32]))
        assert len(set(plain[:32])) == 1
    first, second = np.array(ratios).T
    assert 0.3 < (first == 0).mean() < 0.7
    assert ((first == 0) & (second > 0)).any()


@pytest.mark.parametrize("attention", ["full", "causal"])
def test_the_loss_is_the_weighted_cross_entropy_of_shifted_logits(base, attention):
    module = load(base).module
    where = np.zeros((1, 9), dtype=bool)
    where[0, [2, 4, 6]] = True
    weight = np.where(where, [[0, 0, 1.0, 0, 2.0, 0, 0.5, 0, 0]], 0).astype(np.float32)
    asked = Asked(where, weight, np.where(where, 0.5, 0).astype(np.float32))
    hidden = 4 if attention == "full" else None
    found = score(module, ASKED, asked, visible(ASKED, attention), hidden)
    ids = ASKED.ids[0].tolist()
    shown = [4 if attention == "full" and where[0, i] else token for i, token in enumerate(ids)][:8]
    module.config.is_causal = attention == "causal"
    logits = module(torch.tensor([shown])).logits[0].log_softmax(-1)
    expected = sum(-logits[i - 1, ids[i]] * weight[0, i] for i in (2, 4, 6)) / 3.5
    assert float(found.loss) == pytest.approx(float(expected), rel=1e-4)
    answers = [-float(logits[i - 1, ids[i]]) for i in (2, 4)]
    assert found.sums["answer_loss"] == (pytest.approx(sum(answers), rel=1e-4), 2)
    module.config.is_causal = True


def test_distillation_mixes_in_the_divergence_from_the_teacher(base):
    module = load(base).module
    asked = draw(np.random.default_rng(1), ASKED, Recipe())
    count = int(asked.where.sum())
    teacher = torch.randn(count, 485, generator=torch.Generator().manual_seed(0))
    mask = visible(ASKED, "full")
    plain, mixed, only = (
        float(score(module, ASKED, asked, mask, 4, teacher, share).loss) for share in (0.0, 0.25, 1.0)
    )
    assert mixed == pytest.approx(0.75 * plain + 0.25 * only, rel=1e-5)
    where = torch.from_numpy(asked.where)
    seen = torch.from_numpy(ASKED.ids).masked_fill(where, 4)[:, :8]
    module.config.is_causal = False
    own = module(seen).logits.log_softmax(-1)[0][where[0].roll(-1)[:8]]
    module.config.is_causal = True
    weight = torch.from_numpy(asked.weight)[where]
    target = teacher.log_softmax(-1)
    apart = (target.exp() * (target - own)).sum(-1)
    assert only == pytest.approx(float((apart * weight).sum() / weight.sum()), rel=1e-4)
