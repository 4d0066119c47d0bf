"""LFM2.5-Encoder: golden logits and attention, the sampler of its card, centred convolutions, and every refusal."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import floatlens as fl
from floatlens.core.errors import FloatlensError
from floatlens.models import load
from floatlens.probes import Matrix
from shared.capture import capture

NAME = "lfm2-encoder"


@pytest.fixture(scope="module")
def published(golden):
    return load_file(golden(NAME) / "golden.safetensors")


def test_logits_and_attention_of_the_published_code(published, tiny_model):
    model, probe, ids = tiny_model(NAME), Matrix(), published["forward.input_ids"]
    assert (model.forward(ids) - published["forward.logits"]).abs().max() <= 1e-5
    with capture(model, [probe], steps=1, length=ids.shape[1]):
        assert (model.forward(ids) - published["forward.logits"]).abs().max() <= 1e-5
    layers = published["forward.attention_layers"].tolist()
    assert sorted({layer for _, layer in probe.taken}) == layers == [2, 4]
    weights = np.stack([probe.taken[0, layer][0] for layer in layers])
    assert np.abs(weights - published["forward.attention"].numpy()).max() <= 1e-5


@pytest.mark.parametrize("case", ["card", "card_long"])
def test_the_sampler_of_the_model_card(case, golden, published, tiny_model):
    given = json.loads((golden(NAME) / "golden.json").read_text())["cases"][case]
    settings = {key: given[key] for key in ("sampler", "gen_length", "suppress_from", "suppress_tokens")}
    decoded = fl.decode(tiny_model(NAME), published["sample.prompt_ids"][0], **settings)
    assert torch.equal(decoded.sequence, published[f"sample.{case}"])
    assert decoded.forward_passes == given["forward_passes"] == given["steps"]


def test_the_card_never_writes_what_is_suppressed(published, tiny_model):
    prompt = published["sample.prompt_ids"][0]
    plain = fl.decode(tiny_model(NAME), prompt, gen_length=6).answers()[0]
    other = fl.decode(tiny_model(NAME), prompt, gen_length=6, suppress_tokens=plain).answers()[0]
    assert not set(plain) & set(other)
    low = fl.decode(tiny_model(NAME), prompt, gen_length=6, suppress_from=20).answers()[0]
    assert max(low) < 20


def test_padding_changes_nothing_and_a_convolution_reaches_one_position(published, tiny_model):
    model, ids = tiny_model(NAME), published["forward.input_ids"]
    padded = torch.nn.functional.pad(ids, (3, 2), value=0)
    mask = torch.nn.functional.pad(torch.ones_like(ids), (3, 2))
    torch.testing.assert_close(model.forward(padded, mask)[:, 3:-2], model.forward(ids), atol=2e-5, rtol=0)
    conv = model.module.model.layers[0].conv
    states = torch.randn(1, 9, 64, generator=torch.Generator().manual_seed(0))
    changed = states.clone()
    changed[0, 4] += 1
    with torch.no_grad():
        moved = (conv(changed) - conv(states)).abs().amax((0, 2)) > 0
    assert moved.nonzero().flatten().tolist() == [3, 4, 5]


def test_its_causal_relative_stays_causal(copied):
    folder = copied(NAME, architectures=["Lfm2ForCausalLM"])
    with pytest.raises(FloatlensError):  # its tensors have another prefix
        load(folder)
    with pytest.raises(FloatlensError, match=r"`architectures` .*does not cover"):
        load(folder, family="lfm2-diffusion")


@pytest.mark.parametrize(
    ("flag", "value", "words"),
    [
        ("layer_types", ["conv"] * 4, "for each of the 5 layers"),
        ("layer_types", ["conv"] * 4 + ["mamba"], "for each of the 5 layers"),
        ("conv_dim", 32, "does not cover"),
        ("block_use_swiglu", False, "does not cover"),
        ("rope_parameters", {"rope_type": "yarn", "rope_theta": 1e6}, "does not cover"),
        ("conv_L_cache", None, "is missing"),
        ("conv_zero_padding", True, "may change what the model computes"),
    ],
)
def test_a_flag_that_is_not_covered_is_refused_by_name(flag, value, words, copied):
    folder = copied(NAME, **{flag: value})
    (folder / "model.safetensors").unlink()
    with pytest.raises(FloatlensError, match=rf"`{flag}`.*{words}"):
        load(folder)


def test_named_for_another_type(tiny):
    with pytest.raises(FloatlensError, match="the lfm2-diffusion family reads 'lfm2'"):
        load(tiny("llama"), family="lfm2-diffusion")
