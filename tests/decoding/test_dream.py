"""Dream's sampler against a plain-loop reading of its definition that computes every logit."""

from __future__ import annotations

import math
from itertools import accumulate

import pytest
import torch

from floatlens.decoding import decode, plan


def _filtered(row, top_p, top_k):
    """Temperature is applied already; the removed get -inf."""
    row = list(row)
    if top_p is not None:
        total, taken = sum(map(math.exp, row)), 0.0
        for token in sorted(range(len(row)), key=lambda v: -row[v]):
            share = math.exp(row[token]) / total
            if taken > top_p:
                row[token] = -math.inf
            taken += share
    if top_k is not None:
        kth = sorted(row, reverse=True)[top_k - 1]
        row = [-math.inf if value < kth else value for value in row]
    return row


def _share(row):
    total = sum(map(math.exp, row))
    return [math.exp(value) / total for value in row]


def reference(read, model, prompt, *, steps, gen_length, alg, temperature=0.0, eps=1e-3, seed=0, **options):
    top_p, top_k, alg_temp = (options.get(name) for name in ("top_p", "top_k", "alg_temp"))
    mask, random = model.mask_id, torch.Generator().manual_seed(seed)
    x = list(prompt) + [mask] * gen_length
    times = torch.linspace(1, eps, steps + 1)
    log = []
    for turn in range(steps):
        table = read(model, x)
        open_ = [column for column in range(len(x)) if x[column] == mask]
        draws = torch.rand(len(open_), generator=random, dtype=torch.float64).tolist() if temperature else None
        token, confidence = {}, {}
        for place, column in enumerate(open_):
            row = [value / temperature for value in table[column]] if temperature else table[column]
            allowed = [value if v != mask else -math.inf for v, value in enumerate(row)]
            if temperature:
                heaps = list(accumulate(_share(_filtered(allowed, top_p, top_k))))
                token[column] = next(v for v, heap in enumerate(heaps) if draws[place] < heap)
            else:
                token[column] = max(range(len(row)), key=allowed.__getitem__)
            share = _share(_filtered(row, top_p, top_k))
            ranked = sorted(share, reverse=True)
            confidence[column] = {
                "topk_margin": ranked[0] - ranked[1],
                "entropy": sum(p * math.log(p + 1e-10) for p in share),
            }.get(alg, share[token[column]])
        last = turn == steps - 1
        fraction = 1 - times[turn + 1] / times[turn]
        if alg == "origin":
            reveal = torch.rand(len(open_), generator=random, dtype=torch.float64).tolist()
            chosen = [c for c, u in zip(open_, reveal, strict=True) if last or u < float(fraction)]
        else:
            order = confidence
            if alg_temp:
                noise = torch.rand(len(open_), generator=random, dtype=torch.float64).tolist()
                # the largest of weight / exponential is a draw by weight; the next largest, a draw from the rest
                order = {
                    c: math.exp(confidence[c] / alg_temp) / -math.log(u) for c, u in zip(open_, noise, strict=True)
                }
            count = len(open_) if last else int(torch.tensor(float(len(open_))) * fraction)
            chosen = sorted(open_, key=lambda column: -order[column])[:count]
        for column in sorted(chosen):
            x[column] = token[column]
            log.append((turn, column, token[column]))
    return log


def committed(decoded):
    return [
        (step.index, position, token)
        for step in decoded.steps
        for position, token in zip(step.position.tolist(), step.token.tolist(), strict=True)
    ]


@pytest.mark.parametrize("name", ["dream", "llada"])  # llada: the same sampler over unshifted logits
@pytest.mark.parametrize(
    "options",
    [
        {"alg": "maskgit_plus", "temperature": 0.8, "seed": 1},
        {"alg": "maskgit_plus", "alg_temp": 0.1, "seed": 2},
        {"alg": "maskgit_plus", "temperature": 1.0, "top_p": 0.5, "seed": 3},
        {"alg": "topk_margin", "temperature": 1.0, "top_k": 4, "seed": 4},
        {"alg": "topk_margin", "top_p": 0.9, "top_k": 7},
        {"alg": "entropy", "temperature": 0.5, "top_p": 0.8, "top_k": 9, "alg_temp": 0.3, "seed": 5},
        {"alg": "entropy", "eps": 0.2},
        {"alg": "origin", "seed": 6},
        {"alg": "origin", "temperature": 1.2, "seed": 7},
    ],
    ids=str,
)
def test_equals_the_plain_reading(request, prompts, shifted_logits, name, options):
    model, prompt = request.getfixturevalue(name), prompts(9)[0]
    chosen = {"steps": 5, "gen_length": 12} | options
    expected = reference(shifted_logits, model, prompt, **chosen)
    assert committed(decode(model, prompt, sampler="dream", **chosen)) == expected


@pytest.mark.parametrize("alg", ["origin", "maskgit_plus", "topk_margin", "entropy"])
@pytest.mark.parametrize("steps", [1, 3, 12, 20])
def test_every_mask_once_within_the_steps(dream, prompts, alg, steps):
    decoded = decode(dream, prompts(6)[0], alg=alg, steps=steps, gen_length=12)
    assert sorted(torch.cat([step.position for step in decoded.steps]).tolist()) == list(range(6, 18))
    assert len(decoded.steps) <= steps == decoded.canvas.max_steps
    if alg != "origin":
        assert len(decoded.steps) == steps


def test_the_defaults_are_those_of_the_readme(dream, prompts):
    settings = plan(dream, prompts(4)[0]).settings
    assert (settings.temperature, settings.top_p, settings.top_k, settings.alg_temp) == (0.0, None, None, 0.0)
    assert (settings.alg, settings.eps, settings.steps, settings.gen_length) == ("entropy", 1e-3, 32, 32)


def test_after_an_empty_prompt_row_0_decides_two_positions(dream, shifted_logits):
    decoded = decode(dream, [], alg="maskgit_plus", steps=1, gen_length=5)
    assert decoded.steps[0].row.tolist() == [0, 0, 1, 2, 3]
    expected = reference(shifted_logits, dream, [], alg="maskgit_plus", steps=1, gen_length=5)
    assert committed(decoded) == expected
    assert decoded.sequence[0, 0] == decoded.sequence[0, 1]


def test_prompt_masks_are_filled_too(dream, prompts):
    prompt = prompts(6)[0]
    prompt[0] = prompt[3] = dream.mask_id
    decoded = decode(dream, prompt, gen_length=0, steps=2)
    assert sorted(torch.cat([step.position for step in decoded.steps]).tolist()) == [0, 3]
    rows = {int(p): int(r) for step in decoded.steps for p, r in zip(step.position, step.row, strict=True)}
    assert rows == {0: 0, 3: 2}
