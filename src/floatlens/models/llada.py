"""LLaDA (8B, 1.5 and relatives) as a bidirectional Llama, and LLaDA-MoE as a bidirectional Qwen3-MoE; logits unshifted.

A map of tensor names and a translation of config.json. It refuses, by name, every flag of the LLaDA format that Llama's
arithmetic does not have, and relies on no class default: LLaDA's are GPT-2-like and differ from its checkpoints.
"""

from __future__ import annotations

from typing import Any

from floatlens.core.errors import FloatlensError

from .plan import Family, Plan, Published
from .settings import Settings

__all__ = ["FAMILY", "KEY_MAPPING", "published_name"]

_NAME = "llada"

_TOP = {"wte": "model.embed_tokens", "ln_f": "model.norm", "ff_out": "lm_head"}
_BLOCK = {
    "attn_norm": "input_layernorm",
    "ff_norm": "post_attention_layernorm",
    "q_proj": "self_attn.q_proj",
    "k_proj": "self_attn.k_proj",
    "v_proj": "self_attn.v_proj",
    "attn_out": "self_attn.o_proj",
    "ff_proj": "mlp.gate_proj",  # the one that goes through the silu
    "up_proj": "mlp.up_proj",
    "ff_out": "mlp.down_proj",
}
KEY_MAPPING = {rf"^model\.transformer\.{theirs}\.": f"{ours}." for theirs, ours in _TOP.items()} | {
    rf"^model\.transformer\.blocks\.(\d+)\.{theirs}\.": rf"model.layers.\1.{ours}." for theirs, ours in _BLOCK.items()
}


def published_name(name: str) -> str:
    """The LLaDA format's name of a tensor of LlamaForCausalLM: the way back from `KEY_MAPPING`, for writing folders."""
    for theirs, ours in _TOP.items():
        if name.startswith(f"{ours}."):
            return name.replace(ours, f"model.transformer.{theirs}", 1)
    _, _, number, rest = name.split(".", 3)
    part, _, last = rest.rpartition(".")
    theirs = next(theirs for theirs, ours in _BLOCK.items() if ours == part)
    return f"model.transformer.blocks.{number}.{theirs}.{last}"


# Dropout and initialisation do nothing in eval mode; flash attention and rotary precision compute the same numbers.
_IDLE = """alibi_bias_max attention_layer_norm_with_affine embedding_dropout flash_attention init_cutoff_factor
    init_device init_fn init_std mlp_ratio precision residual_dropout rope_full_precision vocab_size"""
_OFF = "alibi attention_layer_norm bias_for_layer_norm clip_qkv include_qkv_bias input_emb_norm scale_logits"

# The published router neither normalises nor groups, whatever the file says.
_MOE_IDLE = """dense_intermediate_size intermediate_size norm_topk_prob output_router_logits router_aux_loss_coef
    router_num_group router_topk_group"""
_MOE_OFF = "clip_qkv moe_router_enable_expert_bias num_shared_experts shared_expert_intermediate_size"


def _claims(settings: Settings) -> bool:
    return settings.model_type in ("llada", "lladamoe")  # dllm renames the MoE; its own checkpoint says llada


def _plan(settings: Settings) -> Plan:
    if not _claims(settings):
        raise FloatlensError(
            f"{settings.where}: model_type is {settings.model_type!r}; the llada family reads 'llada' and 'lladamoe'"
        )
    return _plan_moe(settings) if "num_experts" in settings else _plan_dense(settings)


def _plan_dense(settings: Settings) -> Plan:
    from transformers import LlamaConfig, LlamaForCausalLM

    for key, covered in (("block_type", "llama"), ("layer_norm_type", "rms"), ("activation_type", "silu")):
        settings.only(_NAME, key, covered, needed=True)
    settings.only(_NAME, "rope", True, needed=True)
    settings.only(_NAME, "include_bias", False, needed=True)
    settings.only(_NAME, "weight_tying", True, False, needed=True)
    settings.only(_NAME, "block_group_size", 1)
    settings.only(_NAME, "layer_norm_with_affine", True)
    for flag in _OFF.split():
        settings.only(_NAME, flag, False)
    values: dict[str, Any] = settings.special_tokens() | {
        "vocab_size": settings.integer("embedding_size" if settings.get("embedding_size") else "vocab_size"),
        "hidden_size": settings.integer("d_model"),
        "intermediate_size": _mlp_width(settings),
        "num_hidden_layers": settings.integer("n_layers"),
        "num_attention_heads": settings.integer("n_heads"),
        "num_key_value_heads": _kv_heads(settings),
        "hidden_act": "silu",
        "max_position_embeddings": settings.integer("max_sequence_length"),
        "rms_norm_eps": settings.number("rms_norm_eps"),
        "rope_parameters": {"rope_type": "default", "rope_theta": settings.number("rope_theta")},
        "tie_word_embeddings": bool(settings["weight_tying"]),
        "attention_bias": False,
        "mlp_bias": False,
        "is_causal": False,
    }
    settings.nothing_else(_NAME, _IDLE.split())
    return Plan(LlamaForCausalLM, LlamaConfig(**values), key_mapping=KEY_MAPPING)


def _mlp_width(settings: Settings) -> int:
    if settings.get("mlp_hidden_size") is not None:
        return settings.integer("mlp_hidden_size")
    return settings.integer("mlp_ratio") * settings.integer("d_model")


def _kv_heads(settings: Settings) -> int:
    """`multi_query_attention` is an older way to say one key/value head; it must not contradict `n_kv_heads`."""
    heads = settings.integer("n_heads")
    old = settings.get("multi_query_attention")
    settings.only(_NAME, "multi_query_attention", True, False)
    implied = None if old is None else (1 if old else heads)
    if settings.get("n_kv_heads") is None:
        return heads if implied is None else implied
    given = settings.integer("n_kv_heads")
    if implied is not None and implied != given:
        raise FloatlensError(
            f"{settings.where}: `multi_query_attention` = {str(old).lower()} means {implied} key/value heads, "
            f"but `n_kv_heads` is {given}"
        )
    return given


def _plan_moe(settings: Settings) -> Plan:
    from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM

    _check_moe(settings)
    values, expert_width = settings.qwen(_NAME), settings.integer("expert_intermediate_size")
    dense = _dense_layers(settings, values["num_hidden_layers"])
    values |= {
        "intermediate_size": settings.integer("dense_intermediate_size") if dense else expert_width,
        "moe_intermediate_size": expert_width,
        "num_experts": settings.integer("num_experts"),
        "num_experts_per_tok": settings.integer("num_experts_per_tok"),
        "norm_topk_prob": False,
        "decoder_sparse_step": 1,
        "mlp_only_layers": dense,
        "attention_bias": settings.switch("attention_bias"),
        "head_dim": values["hidden_size"] // values["num_attention_heads"],
    }
    settings.nothing_else(_NAME, _MOE_IDLE.split())
    return Plan(Qwen3MoeForCausalLM, Qwen3MoeConfig(**values))


def _check_moe(settings: Settings) -> None:
    for flag in _MOE_OFF.split():
        settings.only(_NAME, flag, False, 0)
    settings.only(_NAME, "qk_layernorm", True, needed=True)
    settings.only(_NAME, "hidden_act", "silu", needed=True)
    settings.only(_NAME, "moe_router_score_function", "softmax")
    settings.only(_NAME, "routed_scaling_factor", 1)
    settings.only(_NAME, "partial_rotary_factor", 1)


def _dense_layers(settings: Settings, layers: int) -> list[int]:
    """Layers without experts: the zeros of `moe_layer_freq`, one entry per layer."""
    given = settings.get("moe_layer_freq")
    if given is None:
        return []
    if not isinstance(given, list) or len(given) != layers or any(entry not in (0, 1) for entry in given):
        raise FloatlensError(f"{settings.where}: `moe_layer_freq` must hold 0 or 1 for each of the {layers} layers")
    return [layer for layer, entry in enumerate(given) if entry == 0]


FAMILY = Family(
    name=_NAME,
    kind="mdm",
    shift=False,
    about="LLaDA-8B, LLaDA-1.5, LLaDA-MoE",
    claims=_claims,
    plan=_plan,
    published=(
        Published("GSAI-ML/LLaDA-8B-Base, -Instruct, GSAI-ML/LLaDA-1.5", verified="golden"),
        Published("inclusionAI/LLaDA-MoE-7B-A1B-Base, -Instruct", verified="class"),
    ),
)
