"""Published configurations and tensor lists, as data: what `config.json` and the index of real checkpoints hold.

Values are from the checkpoints' own files, or from copies of them; sizes that decide no tensor (dropout, versions) are
left out where no copy was seen. `tensors` are names and shapes as they are on disk, written from the published tables
and not from any code of floatlens.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

__all__ = ["CHECKPOINTS", "DREAM_7B", "LLADA_8B", "Checkpoint"]

Tensors = dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class Checkpoint:
    """A published checkpoint: its family, its config.json, its tensors, and the number of its parameters."""

    family: str
    config: dict[str, Any]
    tensors: Tensors
    parameters: int
    """As published, or the sum over the published tensor list."""
    told: dict[str, Any] = field(default_factory=dict)
    """What the user has to say, as for `load`."""


LLADA_8B = {
    "activation_type": "silu",
    "alibi": False,
    "alibi_bias_max": 8.0,
    "architectures": ["LLaDAModelLM"],
    "attention_dropout": 0.0,
    "attention_layer_norm": False,
    "attention_layer_norm_with_affine": True,
    "auto_map": {"AutoConfig": "configuration_llada.LLaDAConfig", "AutoModel": "modeling_llada.LLaDAModelLM"},
    "bias_for_layer_norm": False,
    "block_group_size": 1,
    "block_type": "llama",
    "d_model": 4096,
    "embedding_dropout": 0.0,
    "embedding_size": 126464,
    "eos_token_id": 126081,
    "flash_attention": False,
    "include_bias": False,
    "include_qkv_bias": False,
    "init_cutoff_factor": None,
    "init_device": "meta",
    "init_fn": "mitchell",
    "init_std": 0.02,
    "input_emb_norm": False,
    "layer_norm_type": "rms",
    "layer_norm_with_affine": True,
    "mask_token_id": 126336,
    "max_sequence_length": 4096,
    "mlp_hidden_size": 12288,
    "mlp_ratio": 4,
    "model_type": "llada",
    "multi_query_attention": None,
    "n_heads": 32,
    "n_kv_heads": 32,
    "n_layers": 32,
    "pad_token_id": 126081,
    "precision": "amp_bf16",
    "residual_dropout": 0.0,
    "rms_norm_eps": 1e-05,
    "rope": True,
    "rope_full_precision": True,
    "rope_theta": 500000.0,
    "scale_logits": False,
    "transformers_version": "4.46.3",
    "use_cache": False,
    "vocab_size": 126464,
    "weight_tying": False,
}
DREAM_7B = {
    "architectures": ["DreamModel"],
    "attention_dropout": 0.0,
    "auto_map": {"AutoModel": "modeling_dream.DreamModel"},
    "bos_token_id": 151643,
    "eos_token_id": 151643,
    "hidden_act": "silu",
    "hidden_size": 3584,
    "initializer_range": 0.02,
    "intermediate_size": 18944,
    "mask_token_id": 151666,
    "max_position_embeddings": 131072,
    "max_window_layers": 28,
    "model_type": "Dream",
    "num_attention_heads": 28,
    "num_hidden_layers": 28,
    "num_key_value_heads": 4,
    "pad_token_id": 151643,
    "rms_norm_eps": 1e-06,
    "rope_scaling": None,
    "rope_theta": 1000000.0,
    "sliding_window": None,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "transformers_version": "4.46.2",
    "use_cache": True,
    "use_mrope": False,
    "use_sliding_window": False,
    "vocab_size": 152064,
}


def _decoder(
    layers: int,
    width: int,
    heads: tuple[int, int],
    head_dim: int,
    inner: int,
    vocabulary: int,
    *,
    biased: bool = False,
    normed: bool = False,
    tied: bool = False,
) -> Tensors:
    """The tensors of Llama, Qwen2 (`biased`) and Qwen3 (`normed` queries and keys); `heads` are (query, key/value)."""
    queries, keys = heads[0] * head_dim, heads[1] * head_dim
    found: Tensors = {"model.embed_tokens.weight": (vocabulary, width), "model.norm.weight": (width,)}
    if not tied:
        found["lm_head.weight"] = (vocabulary, width)
    for layer in range(layers):
        at = f"model.layers.{layer}."
        found |= {f"{at}{name}_layernorm.weight": (width,) for name in ("input", "post_attention")}
        found |= {f"{at}self_attn.{name}_proj.weight": (rows, width) for name, rows in _rows(queries, keys)}
        found[f"{at}self_attn.o_proj.weight"] = (width, queries)
        found |= {f"{at}mlp.{name}_proj.weight": (inner, width) for name in ("gate", "up")}
        found[f"{at}mlp.down_proj.weight"] = (width, inner)
        if biased:
            found |= {f"{at}self_attn.{name}_proj.bias": (rows,) for name, rows in _rows(queries, keys)}
        if normed:
            found |= {f"{at}self_attn.{name}_norm.weight": (head_dim,) for name in "qk"}
    return found


def _rows(queries: int, keys: int) -> tuple[tuple[str, int], ...]:
    return ("q", queries), ("k", keys), ("v", keys)


def _llada() -> Tensors:
    width, inner, vocabulary = 4096, 12288, 126464
    found: Tensors = {f"model.transformer.{name}.weight": (vocabulary, width) for name in ("wte", "ff_out")}
    found["model.transformer.ln_f.weight"] = (width,)
    for layer in range(32):
        at = f"model.transformer.blocks.{layer}."
        found |= {f"{at}{name}.weight": (width,) for name in ("attn_norm", "ff_norm")}
        found |= {f"{at}{name}.weight": (width, width) for name in ("q_proj", "k_proj", "v_proj", "attn_out")}
        found |= {f"{at}{name}.weight": (inner, width) for name in ("ff_proj", "up_proj")}
        found[f"{at}ff_out.weight"] = (width, inner)
    return found


ILLADA_8B = {
    "architectures": ["ILLaDAForCausalLM"],
    "attention_bias": False,
    "attention_dropout": 0.0,
    "bos_token_id": 0,
    "eos_token_id": 2,
    "hidden_act": "silu",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "layer_norm_eps": None,
    "max_position_embeddings": 8192,
    "mlp_bias": False,
    "model_type": "illada",
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "pad_token_id": 1,
    "resid_pdrop": 0.0,
    "rms_norm_eps": 1e-06,  # published value not seen; it decides no shape
    "rope_scaling": None,
    "rope_theta": 500000.0,  # likewise
    "tie_word_embeddings": True,
    "vocab_size": 155136,
}

_QWEN3 = {
    "attention_bias": False,
    "attention_dropout": 0.0,
    "head_dim": 128,
    "hidden_act": "silu",
    "initializer_range": 0.02,
    "max_window_layers": 36,
    "num_key_value_heads": 8,
    "rms_norm_eps": 1e-06,
    "rope_scaling": None,
    "rope_theta": 1000000.0,
    "sliding_window": None,
    "use_sliding_window": False,
    "vocab_size": 151936,
}
QWEN3_06B_BD3LM = _QWEN3 | {
    "_name_or_path": "Qwen3-0.6B-diffusion-bd3lm-v0.1",
    "architectures": ["A2DQwen3LMHeadModel"],
    "bos_token_id": 151643,
    "eos_token_id": 151645,
    "hidden_size": 1024,
    "intermediate_size": 3072,
    "max_position_embeddings": 40960,
    "model_type": "a2d-qwen3",
    "num_attention_heads": 16,
    "num_hidden_layers": 28,
    "tie_word_embeddings": True,
}
SDAR_4B = _QWEN3 | {
    "architectures": ["SDARForCausalLM"],
    "block_size": 4,
    "bos_token_id": 151643,
    "eos_token_id": 151643,
    "hidden_size": 2560,
    "intermediate_size": 9728,
    "mask_token_id": 151669,
    "max_position_embeddings": 32768,
    "model_type": "sdar",
    "num_attention_heads": 32,
    "num_hidden_layers": 36,
    "tie_word_embeddings": False,
}
FAST_DLLM_V2_7B = {
    "architectures": ["Fast_dLLM_QwenForCausalLM"],
    "bd_size": 32,
    "bos_token_id": 151643,
    "eos_token_id": 151645,
    "hidden_act": "silu",
    "hidden_size": 3584,
    "intermediate_size": 18944,
    "max_position_embeddings": 32768,
    "model_type": "Fast_dLLM_Qwen",
    "num_attention_heads": 28,
    "num_hidden_layers": 28,
    "num_key_value_heads": 4,
    "pad_token_id": 151645,
    "rms_norm_eps": 1e-06,
    "rope_scaling": None,
    "rope_theta": 1000000.0,
    "tie_word_embeddings": False,
    "use_sliding_window": False,
    "vocab_size": 152064,
}
LLADA2_MINI = {
    "architectures": ["LLaDA2MoeModelLM"],
    "attention_dropout": 0.0,
    "embedding_dropout": 0.0,
    "first_k_dense_replace": 1,
    "head_dim": 128,
    "hidden_act": "silu",
    "hidden_size": 2048,
    "intermediate_size": 5120,
    "max_position_embeddings": 32768,
    "max_window_layers": 28,
    "model_type": "llada2_moe",
    "moe_intermediate_size": 512,
    "moe_router_enable_expert_bias": True,
    "n_group": 8,
    "norm_head": False,
    "norm_softmax": False,
    "norm_topk_prob": True,
    "num_attention_heads": 16,
    "num_experts": 256,
    "num_experts_per_tok": 8,
    "num_hidden_layers": 20,
    "num_key_value_heads": 4,
    "num_shared_experts": 1,
    "pad_token_id": 156892,
    "partial_rotary_factor": 0.5,
    "rms_norm_eps": 1e-06,
    "rope_scaling": None,
    "rope_theta": 600000,
    "rotary_dim": 64,
    "routed_scaling_factor": 2.5,
    "router_dtype": "fp32",
    "score_function": "sigmoid",
    "tie_word_embeddings": False,
    "topk_group": 4,
    "use_bias": False,
    "use_qkv_bias": False,
    "use_rmsnorm": True,
    "vocab_size": 157184,
}
LLADA2_FLASH = LLADA2_MINI | {
    "hidden_size": 4096,
    "intermediate_size": 9216,
    "moe_intermediate_size": 1024,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
}
NEMOTRON_3B = {
    "architectures": ["NemotronLabsDiffusionModel"],
    "attention_bias": False,
    "attention_dropout": 0.0,
    "block_size": 32,
    "bos_token_id": 1,
    "dlm_paradigm": "bidirectional",
    "eos_token_id": 2,
    "head_dim": 128,
    "hidden_act": "silu",
    "hidden_size": 3072,
    "intermediate_size": 9216,
    "mask_token_id": 100,
    "max_position_embeddings": 4096,
    "mlp_bias": False,
    "model_type": "nemotron_labs_diffusion",
    "num_attention_heads": 32,
    "num_hidden_layers": 26,
    "num_key_value_heads": 8,
    "rms_norm_eps": 1e-05,
    "rope_parameters": {
        "beta_fast": 32.0,
        "beta_slow": 1.0,
        "factor": 0.25,
        "llama_4_scaling_beta": 0.1,
        "mscale": 1.0,
        "mscale_all_dim": 1.0,
        "original_max_position_embeddings": 16384,
        "rope_theta": 1000000.0,
        "rope_type": "yarn",
    },
    "sliding_window": None,
    "tie_word_embeddings": False,
    "use_cache": False,
    "vocab_size": 131072,
}
NEMOTRON_8B = NEMOTRON_3B | {
    "eos_token_id": 11,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "max_position_embeddings": 262144,
    "num_hidden_layers": 34,
    "rope_parameters": {**NEMOTRON_3B["rope_parameters"], "factor": 16.0},
}


def _llada2(layers: int, width: int, heads: int, inner: int, expert: int) -> Tensors:
    """Fused projections, query and key norms, a dense first layer, then 256 experts, their router and a shared one."""
    vocabulary, head_dim, keys = 157184, 128, 4
    found: Tensors = {f"{name}.weight": (vocabulary, width) for name in ("model.word_embeddings", "lm_head")}
    found["model.norm.weight"] = (width,)
    for layer in range(layers):
        at = f"model.layers.{layer}."
        found |= {f"{at}{name}_layernorm.weight": (width,) for name in ("input", "post_attention")}
        found |= {f"{at}attention.{name}_layernorm.weight": (head_dim,) for name in ("query", "key")}
        found[f"{at}attention.query_key_value.weight"] = ((heads + 2 * keys) * head_dim, width)
        found[f"{at}attention.dense.weight"] = (width, heads * head_dim)
        if not layer:
            found |= _mlp(f"{at}mlp.", width, inner)
            continue
        found |= {f"{at}mlp.gate.weight": (256, width), f"{at}mlp.gate.expert_bias": (256,)}
        found |= _mlp(f"{at}mlp.shared_experts.", width, expert)
        for number in range(256):
            found |= _mlp(f"{at}mlp.experts.{number}.", width, expert)
    return found


def _mlp(at: str, width: int, inner: int) -> Tensors:
    found: Tensors = {f"{at}{name}_proj.weight": (inner, width) for name in ("gate", "up")}
    return found | {f"{at}down_proj.weight": (width, inner)}


def _nemotron(layers: int, width: int, inner: int) -> Tensors:
    plain = _decoder(layers, width, (32, 8), 128, inner, 131072)
    renamed = {"model.": "encoder.", "lm_head.": "diffusion_head."}
    return {
        next(f"{to}{n.removeprefix(old)}" for old, to in renamed.items() if n.startswith(old)): s
        for n, s in plain.items()
    }


CHECKPOINTS = {
    "GSAI-ML/LLaDA-8B-Instruct": Checkpoint("llada", LLADA_8B, _llada(), 8_015_581_184),
    "Dream-org/Dream-v0-Instruct-7B": Checkpoint(
        "dream", DREAM_7B, _decoder(28, 3584, (28, 4), 128, 18944, 152064, biased=True), 7_615_616_512
    ),
    "GSAI-ML/iLLaDA-8B-Instruct": Checkpoint(
        "illada", ILLADA_8B, _decoder(32, 4096, (32, 8), 128, 14336, 155136, tied=True), 7_615_025_152
    ),
    "dllm-hub/Qwen3-0.6B-diffusion-bd3lm-v0.1": Checkpoint(
        "a2d-qwen3",
        QWEN3_06B_BD3LM,
        _decoder(28, 1024, (16, 8), 128, 3072, 151936, normed=True, tied=True),
        596_049_920,
    ),
    "JetLM/SDAR-4B-Chat": Checkpoint(
        "sdar", SDAR_4B, _decoder(36, 2560, (32, 8), 128, 9728, 151936, normed=True), 4_411_424_256
    ),
    "Efficient-Large-Model/Fast_dLLM_v2_7B": Checkpoint(
        "fast-dllm-v2", FAST_DLLM_V2_7B, _decoder(28, 3584, (28, 4), 128, 18944, 152064, biased=True), 7_615_616_512
    ),
    "inclusionAI/LLaDA2.0-mini": Checkpoint("llada2", LLADA2_MINI, _llada2(20, 2048, 16, 5120, 512), 16_255_638_528),
    "inclusionAI/LLaDA2.0-flash": Checkpoint(
        "llada2", LLADA2_FLASH, _llada2(32, 4096, 32, 9216, 1024), 102_889_697_280
    ),
    "nvidia/Nemotron-Labs-Diffusion-3B": Checkpoint(
        "nemotron-diffusion", NEMOTRON_3B, _nemotron(26, 3072, 9216), 3_831_659_520
    ),
    "nvidia/Nemotron-Labs-Diffusion-8B": Checkpoint(
        "nemotron-diffusion", NEMOTRON_8B, _nemotron(34, 4096, 14336), 8_489_553_920
    ),
}
