"""LLaDA2.0 and 2.1 (mini, flash) as a block-causal Glm4Moe, which has the same router, partial rotary and norms.

Tensors get other names, and the fused query_key_value is split by transformers' own operation while it is read. No file
declares the mask token or the block size: both are what the published generation code uses, stated here.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from floatlens.core.errors import FloatlensError

from .plan import Family, Plan, Published
from .settings import Settings

__all__ = ["FAMILY", "KEY_MAPPING"]

_NAME = "llada2"
_TYPE = "llada2_moe"
_MASK_ID, _BLOCK_SIZE = 156895, 32

_LAYER = {
    r"attention\.query_key_value": "self_attn.query_key_value",  # split into q_proj, k_proj and v_proj when read
    r"attention\.dense": "self_attn.o_proj",
    r"attention\.query_layernorm": "self_attn.q_norm",
    r"attention\.key_layernorm": "self_attn.k_norm",
    r"mlp\.gate\.expert_bias": "mlp.gate.e_score_correction_bias",
}
KEY_MAPPING = {r"^model\.word_embeddings\.": "model.embed_tokens."} | {
    rf"^model\.layers\.(\d+)\.{theirs}": rf"model.layers.\1.{ours}" for theirs, ours in _LAYER.items()
}

_SIZES = """vocab_size hidden_size intermediate_size moe_intermediate_size num_hidden_layers num_attention_heads
    num_key_value_heads head_dim num_experts_per_tok n_group topk_group max_position_embeddings"""
_OFF = "norm_head norm_softmax use_bias use_qkv_bias use_sliding_window using_split_qkv_in_self_attention"
# Dropout does nothing in eval mode; query and key norms are always on in the published code, whatever use_qk_norm says.
_IDLE = """embedding_dropout max_window_layers output_dropout output_router_logits rotary_dim router_aux_loss_coef
    router_z_loss_coef sliding_window use_qk_norm"""


def _claims(settings: Settings) -> bool:
    return settings.model_type == _TYPE


def _plan(settings: Settings) -> Plan:
    from transformers import Glm4MoeConfig

    if not _claims(settings):
        raise FloatlensError(
            f"{settings.where}: model_type is {settings.model_type!r}; the {_NAME} family reads {_TYPE!r}"
        )
    _check(settings)
    values: dict[str, Any] = settings.special_tokens() | {key: settings.integer(key) for key in _SIZES.split()}
    rope = {"rope_type": "default", "rope_theta": settings.rope_theta(_NAME)}
    values |= {
        "n_routed_experts": settings.integer("num_experts"),
        "n_shared_experts": settings.integer("num_shared_experts"),
        "first_k_dense_replace": settings.get("first_k_dense_replace"),
        "routed_scaling_factor": settings.number("routed_scaling_factor"),
        "norm_topk_prob": True,
        "hidden_act": "silu",
        "rms_norm_eps": settings.number("rms_norm_eps"),
        "rope_parameters": rope | {"partial_rotary_factor": settings.number("partial_rotary_factor")},
        "tie_word_embeddings": settings.switch("tie_word_embeddings"),
        "use_qk_norm": True,
        "attention_bias": False,
        "is_causal": False,
    }
    settings.nothing_else(_NAME, _IDLE.split())
    return Plan(
        _architecture(),
        Glm4MoeConfig(**values),
        key_mapping=KEY_MAPPING,
        attention="block_causal",
        block_size=settings.told.block_size or _BLOCK_SIZE,
        mask_id=_MASK_ID,
        sampler="llada21" if _named_2_1(settings) else "llada2",
    )


def _check(settings: Settings) -> None:
    """Refuse by name what Glm4Moe does not compute."""
    for flag in _OFF.split():
        settings.only(_NAME, flag, False)
    settings.only(_NAME, "hidden_act", "silu", needed=True)
    settings.only(_NAME, "score_function", "sigmoid", needed=True)
    settings.only(_NAME, "moe_router_enable_expert_bias", True, needed=True)
    settings.only(_NAME, "norm_topk_prob", True, needed=True)
    settings.only(_NAME, "router_dtype", "fp32")
    settings.only(_NAME, "use_rmsnorm", True)
    rotary = settings.integer("head_dim") * settings.number("partial_rotary_factor")
    settings.only(_NAME, "rotary_dim", rotary)
    dense = settings.get("first_k_dense_replace")
    if isinstance(dense, bool) or not isinstance(dense, int) or dense < 0:
        raise FloatlensError(f"{settings.where}: `first_k_dense_replace` must be a number of layers, not {dense!r}")
    if settings.integer("num_experts_per_tok") == 1:
        raise FloatlensError(
            f"{settings.where}: `num_experts_per_tok` is 1, for which the published router does not normalise; "
            f"the {_NAME} family does not cover it"
        )


@cache
def _architecture() -> Any:
    """Glm4Moe under a name of its own, for which transformers is told how the fused projection is split."""
    from transformers import Glm4MoeForCausalLM
    from transformers.conversion_mapping import register_checkpoint_conversion_mapping
    from transformers.core_model_loading import Split, WeightConverter

    kind = type("LLaDA2Glm4MoeForCausalLM", (Glm4MoeForCausalLM,), {"__module__": __name__})
    parts = [f"self_attn.{name}_proj" for name in "qkv"]
    split = WeightConverter("self_attn.query_key_value", parts, [Split(dim=0)])
    register_checkpoint_conversion_mapping(kind.__name__, [split], overwrite=True)
    return kind


def _named_2_1(settings: Settings) -> bool:
    """Whether the repository's name says 2.1, whose sampler edits placed tokens; config.json is that of 2.0."""
    folder = Path(settings.where).parent
    names = (str(settings.get("_name_or_path") or ""), folder.name, folder.parent.parent.name)
    return any("llada2.1" in name.lower() for name in names)


FAMILY = Family(
    name=_NAME,
    kind="mdm",
    shift=False,
    about="LLaDA2.0, LLaDA2.1 (mixture of experts)",
    claims=_claims,
    plan=_plan,
    published=(
        Published("inclusionAI/LLaDA2.0-mini, -flash", "golden", "block-causal", "llada2"),
        Published("inclusionAI/LLaDA2.1-mini, -flash", "golden", "block-causal", "llada21"),
    ),
)
