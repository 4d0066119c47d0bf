"""Nemotron-Labs-Diffusion: one set of weights in two modes, a block after a causal context, and every refusal."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import load_file

from floatlens.core.errors import FloatlensError
from floatlens.models import load


@pytest.fixture(scope="module")
def published(golden):
    return load_file(golden("nemotron-diffusion") / "golden.safetensors")


@pytest.fixture(scope="module")
def model(golden):
    return load(golden("nemotron-diffusion"))


def test_a_block_after_a_causal_context(model, published):
    mask = published["forward_block.attention_mask"]
    start = int((~mask).any(1).nonzero().max()) + 1  # the first row that sees everything
    blocks = torch.arange(37).clamp(max=start)[None]
    assert torch.equal(blocks[:, None, :] <= blocks[:, :, None], mask[None])
    found = model.forward(published["forward_block.input_ids"], blocks=blocks)[:, start:]
    torch.testing.assert_close(found, published["forward_block.logits"], atol=1e-4, rtol=0)


def test_both_modes_have_the_same_weights(model, golden):
    causal = load(golden("nemotron-diffusion"), mode="ar")
    assert (model.kind, model.shift, model.attention, model.block_size) == ("mdm", False, "full", 8)
    assert (causal.kind, causal.shift, causal.attention, causal.mask_id) == ("arm", True, "causal", None)
    ours, theirs = model.module.state_dict(), causal.module.state_dict()
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    ids = torch.tensor([[7, 9, 30, 41, 8]])
    by_blocks = model.forward(ids, blocks=torch.arange(5)[None])
    torch.testing.assert_close(by_blocks, causal.forward(ids), atol=1e-4, rtol=0)


@pytest.mark.parametrize(
    ("flag", "value", "words"),
    [
        ("dlm_paradigm", "block_diff", "does not cover"),
        ("hidden_act", "gelu", "does not cover"),
        ("attention_bias", True, "does not cover"),
        ("sliding_window", 32, "does not cover"),
        ("block_size", None, "is missing"),
        ("rope_parameters", None, "is missing"),
        ("new_trick", True, "may change what the model computes"),
    ],
)
def test_a_flag_that_is_not_covered_is_refused_by_name(flag, value, words, copied):
    folder = copied("nemotron-diffusion", **{flag: value})
    (folder / "model.safetensors").unlink()  # refused before weights are read
    with pytest.raises(FloatlensError, match=rf"`{flag}`.*{words}"):
        load(folder)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"rope_type": "linear"}, '`rope_type` is "linear"; .* covers yarn only'),
        ({"llama_4_scaling_beta": None}, "`llama_4_scaling_beta` is missing"),
        ({"attention_factor": 2.0}, "does not know `attention_factor`"),
    ],
)
def test_rotary_settings_that_are_not_covered(change, words, model, copied):
    given = {key: value for key, value in model.config.rope_parameters.items() if key != "max_position_embeddings"}
    with pytest.raises(FloatlensError, match=words):
        load(copied("nemotron-diffusion", rope_parameters=given | change))


def test_a_mode_that_does_not_exist(golden, tiny):
    with pytest.raises(FloatlensError, match='mode="difusion"; did you mean "diffusion"'):
        load(golden("nemotron-diffusion"), mode="difusion")
    with pytest.raises(FloatlensError, match="mode='ar' was given, but as causal it has no mode"):
        load(tiny("llama"), mode="ar")
