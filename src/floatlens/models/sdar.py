"""SDAR (and TraDo) as Qwen3 with block-causal attention: bidirectional in each block, causal between blocks; unshifted.

Tensor names are Qwen3's. The block size is read from config.json; where it is missing the user has to give it. The
mixture-of-experts relatives have another model_type and are not covered.
"""

from __future__ import annotations

from typing import Any

from floatlens.core.errors import FloatlensError

from .plan import Family, Plan, Published
from .settings import Settings

__all__ = ["FAMILY"]

_NAME = "sdar"
_SIZES = """vocab_size hidden_size intermediate_size num_hidden_layers num_attention_heads num_key_value_heads head_dim
    max_position_embeddings"""
_IDLE = """debug ep_size fuse_cross_entropy max_window_layers micro_forward skip_checkpoint sliding_window
    use_deepep"""
"""What training uses, and windows that are off."""


def _claims(settings: Settings) -> bool:
    return settings.model_type == "sdar"


def _plan(settings: Settings) -> Plan:
    from transformers import Qwen3Config, Qwen3ForCausalLM

    if not _claims(settings):
        raise FloatlensError(f"{settings.where}: model_type is {settings.model_type!r}; the sdar family reads 'sdar'")
    settings.only(_NAME, "hidden_act", "silu")
    settings.only(_NAME, "use_sliding_window", False)
    settings.only(_NAME, "layer_types", ["full_attention"] * settings.integer("num_hidden_layers"))
    values: dict[str, Any] = settings.special_tokens() | {key: settings.integer(key) for key in _SIZES.split()}
    values |= {
        "hidden_act": "silu",
        "rms_norm_eps": settings.number("rms_norm_eps"),
        "rope_parameters": {"rope_type": "default", "rope_theta": settings.rope_theta(_NAME)},
        "tie_word_embeddings": settings.switch("tie_word_embeddings"),
        "attention_bias": settings.switch("attention_bias"),
        "use_sliding_window": False,
        "is_causal": False,
    }
    size = settings.block_size("block_size")
    settings.nothing_else(_NAME, _IDLE.split())
    return Plan(Qwen3ForCausalLM, Qwen3Config(**values), attention="block_causal", block_size=size, sampler="sdar")


_CHECKPOINTS = "JetLM/SDAR-1.7B-Chat, -4B-Chat, -8B-Chat, also with blocks of 8 to 64"
FAMILY = Family(
    name=_NAME,
    kind="mdm",
    shift=False,
    about="SDAR, TraDo",
    claims=_claims,
    plan=_plan,
    byte_pair=True,
    published=(Published(_CHECKPOINTS, "golden", "block-causal", "sdar"),),
)
