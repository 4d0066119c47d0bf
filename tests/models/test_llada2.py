"""LLaDA2: the router of the golden checkpoint, tensors that are split, and every refusal."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import load_file

from floatlens.core.errors import FloatlensError
from floatlens.models import load
from floatlens.models.facts import look
from floatlens.models.told import Told

TOLD = {"block_size": 8, "mask_id": 150}


@pytest.fixture(scope="module")
def model(golden):
    return load(golden("llada2"), **TOLD)


def test_the_router_of_the_published_code(model, golden):
    published = load_file(golden("llada2") / "golden.safetensors")
    seen = []
    gates = [layer.mlp.gate for layer in model.module.model.layers[1:]]
    hooks = [gate.register_forward_hook(lambda _, __, out: seen.append(out)) for gate in gates]
    try:
        model.forward(published["forward.input_ids"])
    finally:
        for hook in hooks:
            hook.remove()
    logits = torch.stack([out[0] if isinstance(out, tuple) else out for out in seen]).flatten(1, -2)
    torch.testing.assert_close(logits, published["forward.router_logits"], atol=1e-4, rtol=0)


def test_fused_projections_are_split_in_order(model, golden):
    fused = load_file(golden("llada2") / "model.safetensors")["model.layers.2.attention.query_key_value.weight"]
    attention = model.module.model.layers[2].self_attn
    parts = [attention.q_proj.weight, attention.k_proj.weight, attention.v_proj.weight]
    assert torch.equal(torch.cat(parts), fused)
    assert [len(part) for part in parts] == [96, 48, 48]


def test_mask_and_block_size_are_the_published_ones_unless_said(golden, copied):
    with pytest.raises(FloatlensError, match="mask token 156895 is outside the vocabulary of 160; give mask_id="):
        load(golden("llada2"))
    facts = look(str(golden("llada2")), told=Told(mask_id=150))
    assert (facts.attention, facts.block_size, facts.sampler) == ("block_causal", 32, "llada2")
    named = copied("llada2", _name_or_path="inclusionAI/LLaDA2.1-mini")
    assert look(str(named), told=Told(mask_id=150)).sampler == "llada21"


@pytest.mark.parametrize(
    ("flag", "value", "words"),
    [
        ("score_function", "softmax", "does not cover"),
        ("moe_router_enable_expert_bias", False, "does not cover"),
        ("norm_topk_prob", False, "does not cover"),
        ("use_qkv_bias", True, "does not cover"),
        ("use_sliding_window", True, "does not cover"),
        ("rotary_dim", 24, "does not cover"),
        ("num_experts_per_tok", 1, "does not cover it"),
        ("first_k_dense_replace", -1, "must be a number of layers"),
        ("rope_scaling", {"rope_type": "yarn"}, "does not cover"),
        ("n_group", None, "is missing"),
        ("num_nextn_predict_layers", 1, "may change what the model computes"),
    ],
)
def test_a_flag_that_is_not_covered_is_refused_by_name(flag, value, words, copied):
    folder = copied("llada2", **{flag: value})
    (folder / "model.safetensors").unlink()  # refused before weights are read
    with pytest.raises(FloatlensError, match=rf"`{flag}`.*{words}"):
        load(folder, **TOLD)


def test_named_for_another_type(tiny, golden):
    with pytest.raises(FloatlensError, match="the llada2 family reads 'llada2_moe'"):
        load(tiny("llama"), family="llada2")
    with pytest.raises(FloatlensError, match="leave family= out or give 'llada2'"):
        load(golden("llada2"), family="causal")
