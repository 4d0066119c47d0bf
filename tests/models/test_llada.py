"""LLaDA and LLaDA-MoE: the arithmetic against modules written by hand here, the published sizes, every refusal."""

from __future__ import annotations

import json
import math

import pytest
import torch
from safetensors.torch import save_file
from torch.nn.functional import silu

from floatlens.core.errors import FloatlensError
from floatlens.models import load
from floatlens.models.llada import FAMILY
from floatlens.models.settings import Settings
from shared.published import LLADA_8B

LLADA_MOE_7B = {
    "architectures": ["LLaDAMoEModelLM"],
    "model_type": "llada",
    "attention_bias": False,
    "dense_intermediate_size": 8192,
    "expert_intermediate_size": 1024,
    "hidden_act": "silu",
    "hidden_size": 2048,
    "max_position_embeddings": 8192,
    "moe_layer_freq": [1] * 16,
    "moe_router_score_function": "softmax",
    "num_attention_heads": 16,
    "num_experts": 64,
    "num_experts_per_tok": 8,
    "num_hidden_layers": 16,
    "num_key_value_heads": 16,
    "partial_rotary_factor": 1,
    "qk_layernorm": True,
    "rms_norm_eps": 1e-05,
    "rope_theta": 50000,
    "routed_scaling_factor": 1,
    "shared_expert_intermediate_size": None,
    "tie_word_embeddings": False,
    "vocab_size": 157184,
}


def _rms(x, weight, eps):
    return x / (x.pow(2).mean(-1, keepdim=True) + eps).sqrt() * weight


def _rotate(x, theta):
    """Rotary embedding as a complex product: dimension i is the real part, i + d/2 the imaginary part."""
    length, half = x.shape[0], x.shape[-1] // 2
    speed = theta ** (-torch.arange(half, dtype=torch.float64) / half)
    turn = torch.polar(torch.ones(length, half).double(), torch.arange(length).double()[:, None] * speed)
    turned = torch.complex(x[..., :half].double(), x[..., half:].double()) * turn[:, None]
    return torch.cat([turned.real, turned.imag], dim=-1).float()


def _attention(q, k, v):
    """Every query over every key, head by head; `k` and `v` may have fewer heads."""
    group = q.shape[1] // k.shape[1]
    heads = []
    for head in range(q.shape[1]):
        scores = q[:, head] @ k[:, head // group].T / math.sqrt(q.shape[-1])
        heads.append(scores.softmax(-1) @ v[:, head // group])
    return torch.cat(heads, dim=-1)


def _llada_by_hand(w, ids, config):
    eps, theta = config["rms_norm_eps"], config["rope_theta"]
    head_dim = config["d_model"] // config["n_heads"]
    x = w["model.transformer.wte.weight"][ids]
    for layer in range(config["n_layers"]):

        def t(name, layer=layer):
            return w[f"model.transformer.blocks.{layer}.{name}.weight"]

        h = _rms(x, t("attn_norm"), eps)
        q, k, v = ((h @ t(name).T).unflatten(-1, (-1, head_dim)) for name in ("q_proj", "k_proj", "v_proj"))
        x = x + _attention(_rotate(q, theta), _rotate(k, theta), v) @ t("attn_out").T
        h = _rms(x, t("ff_norm"), eps)
        x = x + (silu(h @ t("ff_proj").T) * (h @ t("up_proj").T)) @ t("ff_out").T
    x = _rms(x, w["model.transformer.ln_f.weight"], eps)
    head = w["model.transformer.wte.weight" if config["weight_tying"] else "model.transformer.ff_out.weight"]
    return x @ head.T


def _random_llada(folder, **changes):
    config = (
        LLADA_8B
        | {
            "d_model": 24,
            "n_heads": 4,
            "n_kv_heads": 2,
            "n_layers": 2,
            "mlp_hidden_size": 40,
            "vocab_size": 50,
            "embedding_size": 52,
            "mask_token_id": 49,
            "eos_token_id": 1,
            "pad_token_id": 1,
            "max_sequence_length": 32,
        }
        | changes
    )
    d, kv = config["d_model"], (config["n_kv_heads"] or 4) * config["d_model"] // 4
    hidden = config["mlp_hidden_size"] or config["mlp_ratio"] * d
    block = {"attn_norm": (d,), "ff_norm": (d,), "q_proj": (d, d), "k_proj": (kv, d), "v_proj": (kv, d)}
    block |= {"attn_out": (d, d), "ff_proj": (hidden, d), "up_proj": (hidden, d), "ff_out": (d, hidden)}
    shapes = {"wte": (52, d), "ln_f": (d,)} | ({} if config["weight_tying"] else {"ff_out": (52, d)})
    shapes |= {f"blocks.{i}.{name}": shape for i in range(2) for name, shape in block.items()}
    draw = torch.Generator().manual_seed(3)
    weights = {f"model.transformer.{n}.weight": torch.randn(s, generator=draw) * 0.4 for n, s in shapes.items()}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config))
    return config, weights


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"n_kv_heads": 4},
        {"n_kv_heads": None},
        {"weight_tying": True},
        {"mlp_hidden_size": None, "mlp_ratio": 2},
        {"rope_theta": 100.0, "rms_norm_eps": 0.1},
    ],
)
def test_tensors_land_where_the_arithmetic_needs_them(changes, tmp_path):
    config, weights = _random_llada(tmp_path, **changes)
    model = load(tmp_path)
    ids = torch.randint(0, 50, (1, 13), generator=torch.Generator().manual_seed(5))
    expected = _llada_by_hand(weights, ids[0], config)
    torch.testing.assert_close(model.forward(ids)[0], expected, atol=1e-4, rtol=1e-4)
    assert (model.family, model.kind, model.shift, model.mask_id) == ("llada", "mdm", False, 49)
    assert (model.eos_ids, model.pad_id, model.bos_id, model.max_length) == ((1,), 1, None, 32)


def _moe_by_hand(w, ids, config):
    eps, theta = config["rms_norm_eps"], config["rope_theta"]
    head_dim = config["hidden_size"] // config["num_attention_heads"]
    x = w["model.embed_tokens.weight"][ids]
    for layer, sparse in enumerate(config["moe_layer_freq"]):

        def t(name, layer=layer):
            return w[f"model.layers.{layer}.{name}.weight"]

        def mlp(h, at, t=t):
            return (silu(h @ t(f"{at}gate_proj").T) * (h @ t(f"{at}up_proj").T)) @ t(f"{at}down_proj").T

        h = _rms(x, t("input_layernorm"), eps)
        q, k, v = ((h @ t(f"self_attn.{name}_proj").T).unflatten(-1, (-1, head_dim)) for name in "qkv")
        q, k = _rms(q, t("self_attn.q_norm"), eps), _rms(k, t("self_attn.k_norm"), eps)
        x = x + _attention(_rotate(q, theta), _rotate(k, theta), v) @ t("self_attn.o_proj").T
        h = _rms(x, t("post_attention_layernorm"), eps)
        if not sparse:
            x = x + mlp(h, "mlp.")
            continue
        share = (h @ t("mlp.gate").T).softmax(-1)
        best = share.topk(config["num_experts_per_tok"]).indices
        gates = torch.zeros_like(share).scatter(-1, best, share.gather(-1, best))  # not renormalised
        experts = [mlp(h, f"mlp.experts.{e}.") for e in range(config["num_experts"])]
        x = x + sum(gates[:, e, None] * out for e, out in enumerate(experts))
    return _rms(x, w["model.norm.weight"], eps) @ w["lm_head.weight"].T


def test_moe_against_a_module_by_hand(tmp_path):
    config = LLADA_MOE_7B | {
        "hidden_size": 24,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "num_hidden_layers": 3,
        "moe_layer_freq": [0, 1, 1],
        "dense_intermediate_size": 40,
        "expert_intermediate_size": 16,
        "num_experts": 5,
        "num_experts_per_tok": 2,
        "vocab_size": 50,
        "mask_token_id": 49,
        "norm_topk_prob": True,  # the published router ignores it
    }
    mlp = {"gate_proj": (16, 24), "up_proj": (16, 24), "down_proj": (24, 16)}
    dense = {"gate_proj": (40, 24), "up_proj": (40, 24), "down_proj": (24, 40)}
    shapes = {"model.embed_tokens": (50, 24), "model.norm": (24,), "lm_head": (50, 24)}
    for layer, sparse in enumerate(config["moe_layer_freq"]):
        at = f"model.layers.{layer}."
        shapes |= {f"{at}input_layernorm": (24,), f"{at}post_attention_layernorm": (24,)}
        shapes |= {f"{at}self_attn.{n}": s for n, s in {"q_norm": (6,), "k_norm": (6,), "q_proj": (24, 24)}.items()}
        shapes |= {f"{at}self_attn.{n}_proj": s for n, s in {"k": (12, 24), "v": (12, 24), "o": (24, 24)}.items()}
        if sparse:
            shapes |= {f"{at}mlp.experts.{e}.{n}": s for e in range(5) for n, s in mlp.items()}
            shapes[f"{at}mlp.gate"] = (5, 24)
        else:
            shapes |= {f"{at}mlp.{n}": s for n, s in dense.items()}
    draw = torch.Generator().manual_seed(7)
    weights = {f"{name}.weight": torch.randn(shape, generator=draw) * 0.4 for name, shape in shapes.items()}
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    (tmp_path / "config.json").write_text(json.dumps(config))
    model = load(tmp_path)
    ids = torch.randint(0, 50, (1, 12), generator=draw)
    torch.testing.assert_close(model.forward(ids)[0], _moe_by_hand(weights, ids[0], config), atol=1e-4, rtol=1e-4)
    assert (model.family, model.shift, model.mask_id, model.max_length) == ("llada", False, 49, 8192)


def _meta(config):
    plan = FAMILY.plan(Settings(config, "config.json"))
    with torch.device("meta"):
        return plan.architecture(plan.config)


def test_the_published_8b_configuration_gives_the_published_size():
    module = _meta(LLADA_8B)
    assert len(module.state_dict()) == 291
    assert sum(parameter.numel() for parameter in module.parameters()) == 8_015_581_184
    assert module.config.is_causal is False


def test_the_published_moe_configuration_gives_the_published_size():
    module = _meta(LLADA_MOE_7B)
    assert round(sum(parameter.numel() for parameter in module.parameters()) / 1e9, 2) == 7.36


DENSE_REFUSALS = {
    "alibi": True,
    "attention_layer_norm": True,
    "bias_for_layer_norm": True,
    "block_group_size": 2,
    "block_type": "sequential",
    "activation_type": "swiglu",
    "clip_qkv": 8.0,
    "include_bias": True,
    "include_qkv_bias": True,
    "input_emb_norm": True,
    "layer_norm_type": "default",
    "layer_norm_with_affine": False,
    "rope": False,
    "scale_logits": True,
    "multi_query_attention": True,
    "sliding_window": 512,
    "quantization_config": {"bits": 4},
}


@pytest.mark.parametrize(("flag", "value"), DENSE_REFUSALS.items())
def test_a_flag_that_is_not_covered_is_refused_by_name(flag, value, copied):
    with pytest.raises(FloatlensError, match=rf"config\.json: .*`{flag}`"):
        load(copied("llada", **{flag: value}))


@pytest.mark.parametrize("flag", ["block_type", "rope", "include_bias", "rope_theta", "rms_norm_eps", "n_layers"])
def test_a_value_that_is_needed_is_never_guessed(flag, copied):
    with pytest.raises(FloatlensError, match=f"`{flag}` is missing"):
        load(copied("llada", **{flag: None}))


@pytest.mark.parametrize(
    ("key", "value"), [("n_layers", "three"), ("n_heads", 0), ("rope_theta", -1), ("d_model", True)]
)
def test_a_value_of_the_wrong_kind(key, value, copied):
    with pytest.raises(FloatlensError, match=f"`{key}` must be a positive"):
        load(copied("llada", **{key: value}))


def test_an_unknown_flag_that_is_off_is_let_through(copied, golden):
    assert load(copied("llada", new_trick=False)).num_layers == 3


def test_an_unknown_flag_that_is_on_is_not(copied):
    with pytest.raises(FloatlensError, match=r"does not know `new_trick` \(here 0\.5\)"):
        load(copied("llada", new_trick=0.5))


@pytest.mark.parametrize(
    ("old", "new", "heads"), [(True, None, 1), (False, None, 4), (True, 1, 1), (False, 4, 4), (None, 2, 2)]
)
def test_two_ways_to_count_key_value_heads(old, new, heads):
    config = LLADA_8B | {"n_heads": 4, "multi_query_attention": old, "n_kv_heads": new}
    assert FAMILY.plan(Settings(config, "config.json")).config.num_key_value_heads == heads


MOE_REFUSALS = {
    "shared_expert_intermediate_size": 16,
    "num_shared_experts": 1,
    "moe_router_enable_expert_bias": True,
    "moe_router_score_function": "sigmoid",
    "routed_scaling_factor": 2.5,
    "partial_rotary_factor": 0.5,
    "qk_layernorm": False,
    "clip_qkv": 8.0,
    "rope_scaling": {"type": "yarn", "factor": 4.0},
    "moe_layer_freq": [1, 1],
    "head_dim": 16,
    "n_group": 4,
}


@pytest.mark.parametrize(("flag", "value"), MOE_REFUSALS.items())
def test_a_moe_flag_that_is_not_covered_is_refused_by_name(flag, value, copied):
    with pytest.raises(FloatlensError, match=rf"config\.json: .*`{flag}`"):
        load(copied("llada-moe", **{flag: value}))


def test_dllm_calls_the_moe_by_another_name(copied):
    assert load(copied("llada-moe", model_type="lladamoe")).family == "llada"


def test_the_family_reads_no_other_type(tiny):
    with pytest.raises(FloatlensError, match="model_type is 'llama'; the llada family reads"):
        load(tiny("llama"), family="llada")
