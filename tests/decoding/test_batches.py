"""A sample's tokens do not depend on its companions, on the side of the padding, or on the order of the batch."""

from __future__ import annotations

import pytest
import torch

from floatlens.core.errors import FloatlensError
from floatlens.decoding import decode

CASES = [
    ("llada", {"sampler": "llada", "steps": 6, "block_length": 4, "gen_length": 12}),
    ("llada", {"gen_length": 12, "block_length": 4, "temperature": 0.8}),
    ("llada", {"gen_length": 12, "steps": 5, "remasking": "random"}),
    ("llada", {"gen_length": 8, "steps": 4, "cfg_scale": 1.2}),
    ("llada", {"sampler": "threshold", "gen_length": 12, "block_length": 6, "threshold": 0.09}),
    ("llada", {"sampler": "threshold", "gen_length": 12, "threshold": 0.09, "temperature": 0.7}),
    ("dream", {"gen_length": 12, "steps": 5, "alg": "maskgit_plus"}),
    ("dream", {"gen_length": 12, "steps": 5, "alg": "entropy", "alg_temp": 0.2, "temperature": 0.9, "top_p": 0.9}),
    ("dream", {"gen_length": 12, "steps": 5, "alg": "origin", "temperature": 1.0, "top_k": 20}),
    ("dream", {"sampler": "llada", "gen_length": 12, "block_length": 6, "steps": 4}),
    ("dream", {"sampler": "threshold", "gen_length": 12, "block_length": 6, "threshold": 0.1}),
    ("bert", {"gen_length": 6, "steps": 3}),
    ("arm", {"gen_length": 10}),
    ("arm", {"gen_length": 10, "temperature": 1.0, "top_p": 0.9}),
    ("arm", {"gen_length": 10, "temperature": 1.0, "use_cache": False}),
]


def trajectory(decoded, sample):
    """[(step, place among the sample's own tokens, the row's place, token)] and the confidences."""
    places = decoded.canvas.attention_mask[sample].long().cumsum(dim=0) - 1
    told, confidence = [], []
    for step in decoded.steps:
        own = step.sample == sample
        for position, row, token in zip(step.position[own], step.row[own], step.token[own], strict=True):
            told.append((step.index, int(places[position]), int(places[row]), int(token)))
        confidence += step.confidence[own].tolist()
    return told, confidence


@pytest.mark.parametrize("padding", ["left", "right"])
@pytest.mark.parametrize(("name", "settings"), CASES, ids=[f"{name}-{settings}" for name, settings in CASES])
def test_together_as_alone(request, prompts, name, settings, padding):
    model, several = request.getfixturevalue(name), prompts(3, 11, 7)
    settings = settings | {"seed": 5}
    together = decode(model, several, padding=padding, **settings)
    for sample, prompt in enumerate(several):
        alone = decode(model, prompt, **settings)
        told, confidence = trajectory(together, sample)
        expected, sure = trajectory(alone, 0)
        assert told == expected
        assert confidence == pytest.approx(sure, abs=1e-4)
        assert together.answers()[sample] == alone.answers()[0]


@pytest.mark.parametrize("padding", ["left", "right"])
def test_every_family_together_as_alone(tiny_model, any_name, prompts, padding):
    model, several = tiny_model(any_name), prompts(3, 12, 8)
    if (any_name, padding) == ("mistral", "right"):  # its window counts columns, also those between prompt and answer
        with pytest.raises(FloatlensError, match=r'has layers of sliding_attention, .* use padding="left"'):
            decode(model, several, padding=padding, gen_length=4)
        several = prompts(8, 8)
    together = decode(model, several, padding=padding, gen_length=4)
    for sample, prompt in enumerate(several):
        assert trajectory(together, sample)[0] == trajectory(decode(model, prompt, gen_length=4), 0)[0]


def test_rows_of_a_shifted_model_start_at_its_own_first_token(dream):
    """With a mask in first place and padding before it, that place is decided by its own row."""
    ours, other = [dream.mask_id, 5], [7, 8, 9, 4, 6]
    together = decode(dream, [ours, other], gen_length=4, steps=2, alg="maskgit_plus")
    alone = decode(dream, ours, gen_length=4, steps=2, alg="maskgit_plus")
    assert trajectory(together, 0)[0] == trajectory(alone, 0)[0]
    assert together.canvas.rows[0].tolist() == [-1, -1, -1, 3, -1, 4, 5, 6, 7]


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("llada", {"temperature": 1.0}),
        ("dream", {"temperature": 1.0, "alg": "origin"}),
        ("arm", {"temperature": 1.5}),
    ],
)
def test_seeds(request, prompts, name, settings):
    model, prompt = request.getfixturevalue(name), prompts(5)[0]

    def answers(prompts, seed):
        return decode(model, prompts, gen_length=8, seed=seed, **settings).answers()

    one, two = answers(prompt, 1)[0], answers(prompt, 2)[0]
    assert one != two
    assert answers([prompt, prompt], 1) == [one, one]
    assert answers([prompt, prompt, prompt], [2, 1, 2]) == [two, one, two]


def test_decoding_leaves_the_global_random_state_alone(llada, prompts):
    before = torch.get_rng_state()
    decode(llada, prompts(5)[0], gen_length=4, temperature=1.0)
    assert torch.equal(before, torch.get_rng_state())
