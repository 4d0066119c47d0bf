"""Autoregressive decoding: against a plain loop, transformers' own generate, with and without the cache."""

from __future__ import annotations

import dataclasses
import math
from itertools import accumulate

import pytest
import torch

from floatlens.decoding import decode, decode_steps

SAMPLED = {"temperature": 3.0}  # hot, so that a tiny model does not repeat itself


def reference(model, prompt, *, gen_length, temperature=0.0, top_p=None, seed=0):
    x, random = list(prompt), torch.Generator().manual_seed(seed)
    for _ in range(gen_length):
        row = model.forward(torch.tensor([x]))[0, -1].tolist()
        token = max(range(len(row)), key=row.__getitem__)
        if temperature:
            weights = [math.exp(value / temperature) for value in row]
            if top_p is not None:
                total, taken = sum(weights), 0.0
                for v in sorted(range(len(row)), key=lambda v: -row[v]):
                    share, kept = weights[v] / total, taken <= top_p
                    weights[v] *= kept
                    taken += share
            u = torch.rand(1, generator=random, dtype=torch.float64).item() * sum(weights)
            token = next(v for v, heap in enumerate(accumulate(weights)) if u < heap)
        x.append(token)
        if token in model.eos_ids:
            break
    return x


@pytest.mark.parametrize("use_cache", [True, False])
@pytest.mark.parametrize(
    "options",
    [{}, {"temperature": 0.9, "seed": 1}, {"temperature": 1.5, "top_p": 0.7, "seed": 2}],
    ids=["greedy", "sampled", "nucleus"],
)
def test_equals_the_plain_reading(arm, prompts, use_cache, options):
    prompt = prompts(6)[0]
    decoded = decode(arm, prompt, gen_length=12, use_cache=use_cache, **options)
    assert decoded.sequence[0].tolist() == reference(arm, prompt, gen_length=12, **options)
    assert decoded.forward_passes == len(decoded.steps) == 12


def test_equals_generate(arm, prompts):
    prompt = torch.tensor(prompts(6))
    theirs = arm.module.generate(prompt, max_new_tokens=12, do_sample=False, use_cache=True)
    assert decode(arm, prompt, gen_length=12).sequence.tolist() == theirs.tolist()


def test_top_p_alone_changes_nothing_at_temperature_0(arm, prompts):
    plain = decode(arm, prompts(6)[0], gen_length=6)
    assert decode(arm, prompts(6)[0], gen_length=6, top_p=0.3).sequence.tolist() == plain.sequence.tolist()


@pytest.fixture
def stopping(arm, prompts):
    """The model with an EOS that the first prompt reaches at its third token and the second not within six."""
    several = prompts(5, 8)
    plain = dataclasses.replace(arm, eos_ids=())
    first, second = decode(plain, several, gen_length=6, **SAMPLED, seed=[1, 2]).answers()
    assert first[2] not in first[:2] + second
    return dataclasses.replace(arm, eos_ids=(first[2],), pad_id=0), several


@pytest.mark.parametrize("use_cache", [True, False])
@pytest.mark.parametrize("padding", ["left", "right"])
def test_stops_at_eos_sample_by_sample(stopping, padding, use_cache):
    model, several = stopping
    alone = [decode(model, prompt, gen_length=6, **SAMPLED, seed=seed) for seed, prompt in enumerate(several, 1)]
    assert [one.sequence.shape[1] for one in alone] == [5 + 3, 8 + 6]
    decoded = decode(model, several, gen_length=6, padding=padding, use_cache=use_cache, **SAMPLED, seed=[1, 2])
    assert decoded.answers() == [one.answers()[0] for one in alone]
    assert [len(answer) for answer in decoded.answers()] == [2, 6]  # EOS itself is not part of the answer
    assert [step.unfinished.tolist() for step in decoded.steps] == [[True, True]] * 3 + [[False, True]] * 3
    assert [step.sample.tolist() for step in decoded.steps] == [[0, 1]] * 3 + [[1]] * 3
    assert decoded.sequence[0, -3:].tolist() == [model.pad_id] * 3


def test_nobody_sees_what_follows_an_end(stopping):
    class Masks:
        def __init__(self):
            self.last = None

        def begin(self, info):
            self.last = info.attention_mask

        def end(self):
            pass

    model, several = stopping
    watched = dataclasses.replace(model, observers=[Masks()])
    decode(watched, several, gen_length=6, **SAMPLED, seed=[1, 2])
    # of the 13 keys of the last pass: the prompt of 5 padded to 8, three tokens with EOS, then nothing
    expected = [[False] * 3 + [True] * 8 + [False] * 2, [True] * 13]
    assert watched.observers[0].last.bool().tolist() == expected


def test_the_sequence_grows_and_the_passes_hold_what_is_new(arm, prompts):
    class Watch:
        def __init__(self):
            self.seen = []

        def begin(self, info):
            keys = None if info.attention_mask is None else info.attention_mask.shape[1]
            self.seen.append((info.ids.shape[1], info.offset, keys))

        def end(self):
            pass

    several = prompts(3, 5)
    for use_cache, expected in (
        (True, [(5, 0, 5), (1, 5, 6), (1, 6, 7)]),
        (False, [(5, 0, 5), (6, 0, 6), (7, 0, 7)]),
    ):
        model = dataclasses.replace(arm, observers=[Watch()])
        steps = list(decode_steps(model, several, gen_length=3, use_cache=use_cache))
        assert model.observers[0].seen == expected
        assert [step.sequence.shape[1] for step in steps] == [5, 6, 7]
        assert [step.position.tolist() for step in steps] == [[5, 5], [6, 6], [7, 7]]
        assert [step.row.tolist() for step in steps] == [[4, 4], [5, 5], [6, 6]]


def test_rows_reach_over_padding_on_the_right(arm, prompts):
    steps = list(decode_steps(arm, prompts(3, 5), gen_length=2, padding="right"))
    assert [step.row.tolist() for step in steps] == [[2, 4], [5, 5]]
    assert [step.position.tolist() for step in steps] == [[5, 5], [6, 6]]


def test_confidence_is_the_probability(arm, prompts):
    step = next(decode_steps(arm, prompts(6)[0], gen_length=1))
    row = arm.forward(step.sequence)[0, -1].tolist()
    assert step.confidence.item() == pytest.approx(math.exp(max(row)) / sum(map(math.exp, row)), rel=1e-5)
