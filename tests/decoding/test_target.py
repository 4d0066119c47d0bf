"""Forced decoding: the text says what, the sampler where; order and probabilities against plain forward passes."""

from __future__ import annotations

import math

import pytest
import torch

from floatlens.core.errors import FloatlensError
from floatlens.decoding import SAMPLERS, decode, decode_steps, plan
from floatlens.decoding.target import open_settings

FREE = [
    ("llada", {"gen_length": 12}),
    ("llada", {"gen_length": 12, "block_length": 4, "steps": 6}),
    ("llada", {"gen_length": 12, "block_length": 4, "temperature": 0.8}),
    ("llada", {"gen_length": 12, "steps": 5, "remasking": "random"}),
    ("llada", {"gen_length": 8, "steps": 4, "cfg_scale": 1.2, "temperature": 0.5}),
    ("llada", {"sampler": "threshold", "gen_length": 12, "block_length": 6, "threshold": 0.09}),
    ("llada", {"sampler": "threshold", "gen_length": 12, "threshold": 0.09, "temperature": 0.7}),
    ("llada", {"sampler": "dream", "gen_length": 12, "alg": "origin"}),
    ("dream", {"gen_length": 12, "steps": 5}),
    ("dream", {"gen_length": 12, "alg": "entropy", "alg_temp": 0.2, "temperature": 0.9, "top_p": 0.9}),
    ("dream", {"gen_length": 12, "steps": 5, "alg": "origin", "temperature": 1.0, "top_k": 20}),
    ("dream", {"sampler": "llada", "gen_length": 12, "block_length": 6, "steps": 4}),
    ("bert", {"gen_length": 6, "steps": 3}),
    ("arm", {"gen_length": 10}),
    ("arm", {"gen_length": 10, "temperature": 1.0, "top_p": 0.9}),
    ("arm", {"gen_length": 10, "temperature": 1.0, "use_cache": False}),
]
ids = [f"{name}-{settings}" for name, settings in FREE]


def written(decoded, sample=0):
    """(column, token) of one sample in the order in which they were written."""
    return [
        (int(position), int(token))
        for step in decoded.steps
        for of, position, token in zip(step.sample, step.position, step.token, strict=True)
        if of == sample
    ]


def share(row):
    total = math.fsum(map(math.exp, row))
    return [math.exp(value) / total for value in row]


def taken_by_hand(rule, row, mask):
    """(confidence, by which the sampler orders its places, and how it is had): written out for three samplers."""
    p = share(row)
    if rule == "entropy":
        return sum(one * math.log(one + 1e-10) for one in p)
    return max(value for token, value in enumerate(p) if token != mask)


def forced_by_hand(read, model, prompt, target, rule, threshold=1.0):
    """[[(column, token, probability)]]: a plain forward pass per step over the sequence so far.

    `low_confidence` and `threshold` take the surest place (and those above the threshold); `entropy` follows Dream's
    schedule, which in n steps for n masks takes none, then one each, then two.
    """
    begin, mask = len(prompt), model.mask_id
    x, log = list(prompt) + [mask] * len(target), []
    while mask in x:
        table = read(model, x)
        sure = {c: taken_by_hand(rule, table[c], mask) for c in range(begin, len(x)) if x[c] == mask}
        ranked = sorted(sure, key=lambda column: -sure[column])
        count = 1 if rule != "entropy" else 0 if not log else 2 if len(log) == len(target) - 1 else 1
        chosen = {*ranked[:count], *(c for c in ranked if rule == "threshold" and sure[c] >= threshold)}
        log.append([(c, target[c - begin], share(table[c])[target[c - begin]]) for c in sorted(chosen)])
        for c in chosen:
            x[c] = target[c - begin]
    return log


@pytest.mark.parametrize("name", ["llada", "dream", "a2d-llama", "bert"])
@pytest.mark.parametrize("rule", ["low_confidence", "entropy", "threshold"])
def test_the_order_is_the_samplers_and_the_words_are_the_texts(tiny_model, prompts, shifted_logits, name, rule):
    model, (prompt, target) = tiny_model(name), prompts(7, 9, seed=3)
    how = {
        "low_confidence": {"sampler": "llada"},
        "entropy": {"sampler": "dream", "alg": "entropy"},
        "threshold": {"sampler": "threshold", "threshold": 0.09},
    }[rule]
    expected = forced_by_hand(shifted_logits, model, prompt, target, rule, 0.09)
    decoded = decode(model, prompt, target_ids=target, **how)
    got = [list(zip(s.position.tolist(), s.token.tolist(), strict=True)) for s in decoded.steps]
    assert got == [[(column, token) for column, token, _ in step] for step in expected]
    flat = [p for step in expected for _, _, p in step]
    assert torch.cat([step.probability for step in decoded.steps]).tolist() == pytest.approx(flat, rel=1e-4)
    assert decoded.sequence[0].tolist() == prompt + target
    assert decoded.answers() == [target]
    assert decoded.forced
    assert decoded.log_likelihood() == pytest.approx([math.fsum(map(math.log, flat)) / len(target)], rel=1e-4)


@pytest.mark.parametrize(("name", "settings"), FREE, ids=ids)
def test_forcing_the_free_text_is_the_free_run(request, prompts, name, settings):
    """Places, tokens, confidences and rows, step for step, whatever is drawn: the same numbers are drawn."""
    model, prompt = request.getfixturevalue(name), prompts(6)[0]
    settings = settings | {"seed": 5}
    free = decode(model, prompt, **settings)
    target = free.sequence[0, len(prompt) :].tolist()
    again = settings | {"gen_length": len(target)}  # an autoregressive model may have ended early
    forced = decode(model, prompt, target_ids=target, **again)
    assert len(forced.steps) == len(free.steps)
    assert (forced.forward_passes, forced.sequence.tolist()) == (free.forward_passes, free.sequence.tolist())
    for one, other in zip(forced.steps, free.steps, strict=True):
        for what in ("position", "token", "confidence", "row", "sample", "sequence"):
            assert torch.equal(getattr(one, what), getattr(other, what)), what
        assert other.probability is None
        assert one.probability.shape == one.token.shape


@pytest.mark.parametrize(("name", "settings"), FREE, ids=ids)
def test_another_text_ends_the_same_for_all(request, prompts, name, settings):
    model, (prompt, target) = request.getfixturevalue(name), prompts(6, settings["gen_length"], seed=9)
    decoded = decode(model, prompt, target_ids=target, **settings)
    assert decoded.sequence[0].tolist() == prompt + target
    assert sorted(written(decoded)) == list(enumerate(prompt + target))[len(prompt) :]
    for step in decoded.steps:
        assert ((step.probability > 0) & (step.probability <= 1)).all()


@pytest.mark.parametrize("settings", [{}, {"use_cache": False}, {"temperature": 0.7, "top_p": 0.5, "seed": 3}])
def test_an_autoregressive_model_is_teacher_forced(arm, prompts, settings):
    """One pass over the whole text says what each token's probability is; settings of the sampler do not change it."""
    prompt, target = prompts(5, 8, seed=4)
    rows = arm.forward(torch.tensor([prompt + target]))[0].tolist()
    expected = [share(rows[len(prompt) - 1 + i])[token] for i, token in enumerate(target)]
    decoded = decode(arm, prompt, target_ids=target, **settings)
    assert torch.cat([step.probability for step in decoded.steps]).tolist() == pytest.approx(expected, rel=1e-4)
    assert written(decoded) == list(enumerate(prompt + target))[len(prompt) :]
    if not settings.get("temperature"):
        best = [max(share(rows[len(prompt) - 1 + i])) for i in range(len(target))]
        assert torch.cat([step.confidence for step in decoded.steps]).tolist() == pytest.approx(best, rel=1e-4)


def test_a_forced_end_of_text_ends_nothing(arm, llada, prompts):
    import dataclasses

    prompt, ending = prompts(5)[0], dataclasses.replace(arm, eos_ids=(2,))
    target = [7, 2, 8, 2, 9]
    decoded = decode(ending, [prompt, prompt], target_ids=[target, [7, 8, 9, 10, 2]])
    assert decoded.answers() == [target, [7, 8, 9, 10, 2]]
    assert all(step.unfinished.all() for step in decoded.steps)
    end = llada.eos_ids[0]
    assert decode(llada, prompt, target_ids=[7, end, 8]).answers() == [[7, end, 8]]


@pytest.mark.parametrize("scale", [0.0, 1.5])
def test_guidance_does_not_touch_the_probability(llada, prompts, shifted_logits, scale):
    """It is that of the observed pass, in which the prompt stands."""
    prompt, target = prompts(6, 4, seed=2)
    decoded = decode(llada, prompt, target_ids=target, cfg_scale=scale)
    assert decoded.forward_passes == 4
    for step in decoded.steps:
        table = shifted_logits(llada, step.sequence[0].tolist())
        column, token = int(step.position), int(step.token)
        assert float(step.probability) == pytest.approx(share(table[column])[token], rel=1e-4)


@pytest.mark.parametrize("padding", ["left", "right"])
@pytest.mark.parametrize(("name", "settings"), FREE, ids=ids)
def test_together_as_alone(request, prompts, name, settings, padding):
    model, several = request.getfixturevalue(name), prompts(3, 11, 7)
    targets = prompts(*[settings["gen_length"]] * 3, seed=8)
    settings = settings | {"seed": 5}
    together = decode(model, several, target_ids=targets, padding=padding, **settings)
    assert together.answers() == targets
    for sample, (prompt, target) in enumerate(zip(several, targets, strict=True)):
        alone = decode(model, prompt, target_ids=target, **settings)
        places = together.canvas.attention_mask[sample].long().cumsum(dim=0) - 1
        assert [(int(places[c]), t) for c, t in written(together, sample)] == written(alone)
        own = [s.probability[s.sample == sample] for s in together.steps]
        sure = torch.cat([s.probability for s in alone.steps])
        assert torch.allclose(torch.cat(own), sure, rtol=1e-3)
        assert together.log_likelihood()[sample] == pytest.approx(alone.log_likelihood()[0], abs=1e-4)


def test_every_family_takes_as_many_steps(tiny_model, any_name, prompts):
    """One text, one token per step by default: the same sequence in the same number of steps."""
    prompt, target = prompts(6, 5, seed=1)
    decoded = decode(tiny_model(any_name), prompt, target_ids=target)
    assert (decoded.sequence[0].tolist(), len(decoded.steps)) == (prompt + target, 5)


@pytest.mark.parametrize(("name", "sampler"), [("llada", "llada"), ("dream", "dream"), ("llada", "threshold")])
def test_a_hole_is_filled_in_reading_order(request, prompts, shifted_logits, name, sampler):
    model, passage = request.getfixturevalue(name), prompts(11, seed=6)[0]
    prompt = [*passage[:4], *[model.mask_id] * 4, *passage[8:]]
    decoded = decode(model, prompt, target_ids=passage[4:8], sampler=sampler)
    assert decoded.sequence[0].tolist() == passage
    assert decoded.answers() == [passage[4:8]]
    assert sum(len(step.token) for step in decoded.steps) == 4
    if sampler != "threshold":
        assert len(decoded.steps) == 4
    for step in decoded.steps:
        table = shifted_logits(model, step.sequence[0].tolist())
        expected = [share(table[c])[passage[c]] for c in step.position.tolist()]
        assert step.probability.tolist() == pytest.approx(expected, rel=1e-4)
    apart = [*passage[:2], model.mask_id, *passage[3:9], model.mask_id, passage[10]]
    more = decode(model, apart, target_ids=[passage[2], passage[9], 5, 6], sampler=sampler, gen_length=2)
    assert more.sequence[0].tolist() == [*passage, 5, 6]


@pytest.mark.parametrize("sampler", ["llada", "threshold"])
def test_a_hole_in_blocks(llada, prompts, sampler):
    """A block is finished before the next begins, also where the masks are not next to each other."""
    passage, mask = prompts(12, seed=6)[0], llada.mask_id
    columns = [2, 3, 4, 6, 7, 10]
    prompt = [mask if c in columns else token for c, token in enumerate(passage)]
    target = [passage[c] for c in columns]
    decoded = decode(llada, prompt, target_ids=target, sampler=sampler, block_length=2)
    order = [c for c, _ in written(decoded)]
    assert [sorted(order[i : i + 2]) for i in (0, 2, 4)] == [[2, 3], [4, 6], [7, 10]]
    whole = decode(llada, prompt, target_ids=target, sampler=sampler)
    assert sorted(c for c, _ in written(whole)) == columns != [c for c, _ in written(whole)]
    two = decode(llada, [prompt, prompt], target_ids=[target, target], sampler=sampler, block_length=2)
    assert [c for c, _ in written(two, 1)] == order
    with pytest.raises(FloatlensError, match="the number of masks=6 is not a multiple of block_length=4"):
        decode(llada, prompt, target_ids=target, sampler=sampler, block_length=4)


def test_blocks_of_holes_that_do_not_divide_the_steps(llada):
    prompt = [5, *[llada.mask_id] * 6]
    with pytest.raises(FloatlensError, match="steps=4 is not a multiple of the number of blocks=3"):
        decode(llada, prompt, gen_length=0, steps=4, block_length=2)
    with pytest.raises(FloatlensError, match="prompts of one batch must hold equally many masks"):
        decode(llada, [prompt, prompt[:-2]], gen_length=0, steps=6, block_length=2)


def test_the_canvas_says_what_is_forced(llada, arm):
    canvas = plan(llada, [[5], [6, 7, 8]], target_ids=[[9, 10], [11, 12]])
    assert canvas.target.tolist() == [[-1, -1, -1, 9, 10], [-1, -1, -1, 11, 12]]
    assert canvas.settings.gen_length == 2
    assert plan(llada, [5], gen_length=2).target is None
    assert plan(arm, [5], target_ids=torch.tensor([7, 8])).target.tolist() == [[-1, 7, 8]]
    assert [int(s.token) for s in decode_steps(arm, [5], target_ids=[[7, 8]])] == [7, 8]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"target_ids": [7, 8], "gen_length": 3}, r"target 0 has 2 tokens, which does not fit gen_length=3; leave gen"),
        ({"target_ids": []}, "target 0 is empty"),
        ({"target_ids": "a b"}, "target_ids must be token ids, not text"),
        ({"target_ids": [1.5]}, "target_ids must be whole numbers"),
        ({"target_ids": [7, 150]}, "target 0 holds the mask token at position 1, which is never written"),
        ({"target_ids": [7, 9999]}, "target 0 holds id 9999 at position 1; the model's vocabulary ends at"),
        ({"target_ids": [-1]}, "target 0 holds id -1"),
        ({"target_ids": [[7], [8]]}, "2 targets for 1 prompts; give one for each"),
        ({"prompt_ids": [[5], [6]], "target_ids": [[7], [8, 9]]}, r"one length, and these have 1 to 2 .* one by one"),
        ({"prompt_ids": [5, 150, 150, 6], "target_ids": [7]}, r"1 tokens, which does not fit 2 masks in prompt 0"),
        ({"prompt_ids": [5, 150, 6], "target_ids": [7, 8], "gen_length": 0}, "gen_length=0 and 1 masks in prompt 0"),
        ({"prompt_ids": [[5, 150], [5, 6]], "target_ids": [[7], [8]]}, r"target 1 .* does not fit 0 masks in prompt 1"),
        ({"target_ids": [7, 8], "gen_length": "two"}, "gen_length"),
        ({"target_ids": [7, 8, 9], "block_length": 2}, "gen_length=3 is not a multiple of block_length=2"),
    ],
)
def test_mistakes_are_one_line(llada, arguments, message):
    with pytest.raises(FloatlensError, match=message) as caught:
        decode(llada, **{"prompt_ids": [5, 6], **arguments})
    assert "\n" not in str(caught.value)


def test_a_free_text_has_no_likelihood(llada):
    decoded = decode(llada, [5, 6], gen_length=2)
    assert not decoded.forced
    with pytest.raises(FloatlensError, match="nothing was forced"):
        decoded.log_likelihood()
    assert repr(decode(llada, [5, 6], target_ids=[7, 8])).endswith("2 forward passes, forced)")


def test_settings_for_texts_of_any_length(llada):
    everything = open_settings(SAMPLERS["llada"], {"temperature": 0.5, "seed": 3})
    assert {"gen_length", "steps", "block_length"}.isdisjoint(everything)
    assert (everything["temperature"], everything["seed"], everything["remasking"]) == (0.5, 3, "low_confidence")
    blocks = open_settings(SAMPLERS["llada"], {"block_length": 5, "steps": 10})
    assert (blocks["block_length"], blocks["steps"]) == (5, 10)
    assert len(decode(llada, [5], target_ids=[7] * 10, **blocks).steps) == 10
    assert open_settings(SAMPLERS["ar"], {"top_p": 0.5})["top_p"] == 0.5
    with pytest.raises(FloatlensError, match="length of its own; leave gen_length out"):
        open_settings(SAMPLERS["ar"], {"gen_length": 4})
    with pytest.raises(FloatlensError, match='no setting "alg"'):
        open_settings(SAMPLERS["llada"], {"alg": "entropy"})
