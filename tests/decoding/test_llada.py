"""LLaDA's sampler against a plain-loop reading of its definition that computes every logit."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from floatlens.core.errors import FloatlensError
from floatlens.decoding import decode, decode_steps


def reference(read, model, prompt, *, steps, gen_length, block_length, temperature=0.0, seed=0, **options):
    """The definition, one position at a time: [(step, position, token)] in the order of commitment."""
    cfg_scale, eos, quiet = options.get("cfg_scale", 0.0), options.get("eos", ()), options.get("quiet", ())
    mask, random = model.mask_id, torch.Generator().manual_seed(seed)
    x = list(prompt) + [mask] * gen_length
    blocks = gen_length // block_length
    turns = steps // blocks
    log = []
    for block in range(blocks):
        columns = range(len(prompt) + block * block_length, len(prompt) + (block + 1) * block_length)
        for turn in range(turns):
            table = read(model, x)
            if cfg_scale:
                bare = read(model, [mask] * len(prompt) + x[len(prompt) :])
                for conditional, row in zip(table, bare, strict=True):
                    conditional[:] = [u + (cfg_scale + 1) * (c - u) for c, u in zip(conditional, row, strict=True)]
            candidates = [column for column in columns if x[column] == mask]
            token, confidence = {}, {}
            for column in candidates:
                row = [-math.inf if v in eos else value for v, value in enumerate(table[column])]
                score = row
                if temperature:
                    noise = torch.rand(len(row), generator=random, dtype=torch.float64).tolist()
                    score = [math.exp(v) / (-math.log(u)) ** temperature for v, u in zip(row, noise, strict=True)]
                token[column] = max((v for v in range(len(row)) if v != mask), key=score.__getitem__)
                rated = [-math.inf if v in quiet else value for v, value in enumerate(row)]
                confidence[column] = math.exp(rated[token[column]]) / sum(math.exp(value) for value in rated)
            if options.get("remasking") == "random":
                drawn = torch.rand(len(candidates), generator=random, dtype=torch.float64).tolist()
                confidence = dict(zip(candidates, drawn, strict=True))
            count = block_length // turns + (turn < block_length % turns)
            chosen = sorted(candidates, key=lambda column: -confidence[column])[:count]
            for column in sorted(chosen):
                x[column] = token[column]
                log.append((block * turns + turn, column, token[column]))
    return log


def committed(decoded):
    return [
        (step.index, position, token)
        for step in decoded.steps
        for position, token in zip(step.position.tolist(), step.token.tolist(), strict=True)
    ]


@pytest.mark.parametrize("name", ["llada", "dream"])  # dream: the same sampler over shifted logits
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"steps": 7, "block_length": 12},
        {"temperature": 0.7, "seed": 3},
        {"temperature": 1.0, "seed": 4, "remasking": "random"},
        {"remasking": "random", "seed": 5},
        {"cfg_scale": 0.8},
    ],
    ids=str,
)
def test_equals_the_plain_reading(request, prompts, shifted_logits, name, options):
    model, prompt = request.getfixturevalue(name), prompts(9)[0]
    chosen = {"steps": 6, "gen_length": 12, "block_length": 4} | options
    expected = reference(shifted_logits, model, prompt, **chosen)
    assert committed(decode(model, prompt, sampler="llada", **chosen)) == expected


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_blocks_in_order_quotas_kept_every_mask_once(llada, prompts, data):
    block = data.draw(st.integers(1, 6), "block_length")
    blocks = data.draw(st.integers(1, 3), "blocks")
    turns = data.draw(st.integers(1, block), "passes per block")
    prompt = prompts(data.draw(st.integers(0, 5), "prompt"))[0]
    decoded = decode(llada, prompt, gen_length=block * blocks, block_length=block, steps=blocks * turns)
    assert len(decoded.steps) == decoded.forward_passes == decoded.canvas.max_steps == blocks * turns
    positions = torch.cat([step.position for step in decoded.steps])
    assert sorted(positions.tolist()) == list(range(len(prompt), len(prompt) + block * blocks))
    for step in decoded.steps:
        here, turn = divmod(step.index, turns)
        assert len(step.position) == block // turns + (turn < block % turns)
        assert ((step.position - len(prompt)) // block == here).all()
        assert (step.sequence[0, step.position] == llada.mask_id).all()
    assert not (decoded.sequence == llada.mask_id).any()
    assert decoded.sequence[0, : len(prompt)].tolist() == prompt


def test_what_is_committed_stays(llada, prompts):
    decoded = decode(llada, prompts(5)[0], gen_length=8, steps=4)
    sequence = decoded.steps[0].sequence.clone()
    for step in decoded.steps:
        assert step.sequence.tolist() == sequence.tolist()
        sequence[step.sample, step.position] = step.token
    assert decoded.sequence.tolist() == sequence.tolist()


def test_passes_that_would_find_no_mask_are_not_run(llada, prompts):
    masked = prompts(5)[0] + [llada.mask_id] * 4
    one_each = decode(llada, masked, gen_length=0, steps=4)
    assert decode(llada, masked, gen_length=0, steps=9).forward_passes == 4
    assert committed(decode(llada, masked, gen_length=0, steps=9)) == committed(one_each)
    assert decode(llada, prompts(5)[0], target_ids=[7, 8, 9, 5], steps=9).forward_passes == 4


def test_more_steps_than_tokens_are_refused(llada, prompts):
    with pytest.raises(FloatlensError, match="steps=9 is more than the 4 tokens to write; use steps=4 or fewer"):
        decode(llada, prompts(5)[0], gen_length=4, steps=9)


def test_confidence_is_the_noise_free_probability(llada, prompts, shifted_logits):
    first = next(decode_steps(llada, prompts(6)[0], gen_length=4, steps=2, temperature=2.0, remasking="random", seed=1))
    table = shifted_logits(llada, first.sequence[0].tolist())
    for position, token, confidence in zip(first.position, first.token, first.confidence, strict=True):
        row = table[int(position)]
        assert float(confidence) == pytest.approx(math.exp(row[token]) / sum(map(math.exp, row)), rel=1e-5)


def test_guidance_hides_its_second_pass_from_observers(llada, prompts):
    class Count:
        passes = 0

        def begin(self, info):
            self.passes += 1

        def end(self):
            pass

    model = dataclasses.replace(llada, observers=[Count()])
    decoded = decode(model, prompts(6)[0], gen_length=4, steps=2, cfg_scale=1.0)
    assert (model.observers[0].passes, len(decoded.steps), decoded.forward_passes) == (2, 2, 2)


@pytest.fixture
def eager_to_end(llada, prompts):
    """LLaDA with, as EOS, the token that it writes first of all after this prompt; and the prompt."""
    prompt = prompts(8)[0]
    first = decode(llada, prompt, gen_length=6).steps[0].token.item()
    return dataclasses.replace(llada, eos_ids=(first,)), prompt


def test_logits_eos_inf_never_writes_eos(eager_to_end, shifted_logits):
    model, prompt = eager_to_end
    chosen = {"steps": 6, "gen_length": 6, "block_length": 6}
    assert model.eos_ids[0] in decode(model, prompt, **chosen).sequence[0, 8:]
    decoded = decode(model, prompt, **chosen, logits_eos_inf=True)
    assert model.eos_ids[0] not in decoded.sequence[0, 8:]
    assert committed(decoded) == reference(shifted_logits, model, prompt, **chosen, eos=model.eos_ids)


@pytest.mark.parametrize("temperature", [0.0, 0.6])
def test_confidence_eos_eot_inf_keeps_ends_for_last(eager_to_end, shifted_logits, temperature):
    model, prompt = eager_to_end
    chosen = {"steps": 6, "gen_length": 6, "block_length": 6, "temperature": temperature}
    decoded = decode(model, prompt, **chosen, confidence_eos_eot_inf=True)
    assert committed(decoded) == reference(shifted_logits, model, prompt, **chosen, quiet=model.eos_ids)
    is_end = [token in model.eos_ids for _, _, token in committed(decoded)]
    assert is_end == sorted(is_end)
    assert all((step.confidence == 0) == torch.isin(step.token, torch.tensor(model.eos_ids)) for step in decoded.steps)


def test_end_of_turn_counts_as_an_end(llada, prompts):
    """The end-of-turn token comes from the tokenizer; EOS alone is banned by logits_eos_inf."""

    class Tokenizer:
        def convert_tokens_to_ids(self, token):
            return turn if token == "<|eot_id|>" else 3

        def convert_ids_to_tokens(self, number):
            return {turn: "<|eot_id|>", 3: "<unk>"}[number]

    prompt = prompts(8)[0]
    turn = decode(llada, prompt, gen_length=6).steps[0].token.item()
    model = dataclasses.replace(llada, tokenizer=Tokenizer())
    assert decode(model, prompt, gen_length=6).canvas.end_ids == (1, turn)
    quiet = decode(model, prompt, gen_length=6, confidence_eos_eot_inf=True)
    assert quiet.steps[0].token.item() != turn
    assert turn in decode(model, prompt, gen_length=6, logits_eos_inf=True).sequence[0, 8:]
    plain = decode(model, prompt, gen_length=6)
    answer = plain.sequence[0, 8:].tolist()
    assert plain.answers() == [answer[: answer.index(turn)]]


def test_eos_options_need_an_eos(dream, prompts):
    with pytest.raises(FloatlensError, match=r"logits_eos_inf needs an EOS token, and .*dream-tiny names none"):
        decode(dream, prompts(4)[0], sampler="llada", logits_eos_inf=True)


def test_the_mask_is_never_written(llada, prompts):
    """A head that always prefers the mask: every position still gets another token, with the mask's share untouched."""

    class Preferring:
        def __getattr__(self, name):
            return getattr(llada, name)

        def forward(self, *args, **kwargs):
            logits = llada.forward(*args, **kwargs).clone()
            logits[:, llada.mask_id] = logits.amax(dim=-1) + 1
            return logits

    for options in (
        {},
        {"temperature": 0.5},
        {"sampler": "threshold"},
        {"sampler": "dream", "top_k": 1, "temperature": 1},
    ):
        decoded = decode(Preferring(), prompts(5)[0], gen_length=6, **options)
        assert not (decoded.sequence == llada.mask_id).any()
        assert sum(len(step.token) for step in decoded.steps) == 6


def test_prompt_masks_are_filled_with_the_first_block(llada, prompts):
    prompt = prompts(7)[0]
    prompt[2] = prompt[4] = llada.mask_id
    decoded = decode(llada, prompt, gen_length=4, block_length=2, steps=4)
    first = [position for step in decoded.steps[:2] for position in step.position.tolist()]
    assert sorted(first) == [2, 4, 7, 8]
    assert [len(step.position) for step in decoded.steps] == [2, 2, 1, 1]
    only = decode(llada, prompt, gen_length=0, steps=2)
    assert only.canvas.answer.nonzero()[:, 1].tolist() == [2, 4]
    assert only.answers() == [only.sequence[0, [2, 4]].tolist()]
    assert only.sequence.shape == (1, 7)


def test_logits_that_are_no_numbers_stop_it(llada, prompts):
    broken = dataclasses.replace(llada)

    class Broken:
        def __getattr__(self, name):
            return getattr(broken, name)

        def forward(self, *args, **kwargs):
            return broken.forward(*args, **kwargs) * math.nan

    with pytest.raises(FloatlensError, match="not finite at step 0"):
        decode(Broken(), prompts(4)[0], gen_length=2)
