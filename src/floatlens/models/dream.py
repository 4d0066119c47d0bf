"""Dream, Dream-Coder and DiffuCoder as a bidirectional Qwen2 whose logits are shifted: row i decides position i + 1.

Tensor names are Qwen2's already; only config.json is translated. Later Dreams with block attention and unshifted logits
say so with keys this family does not know, and are refused by name.
"""

from __future__ import annotations

from typing import Any

from floatlens.core.errors import FloatlensError

from .plan import Family, Plan
from .settings import Settings

__all__ = ["FAMILY"]

_NAME = "dream"
_IDLE = ("max_window_layers", "sliding_window")  # both mean nothing while use_sliding_window is off


def _claims(settings: Settings) -> bool:
    return settings.model_type == "Dream"


def _plan(settings: Settings) -> Plan:
    from transformers import Qwen2Config, Qwen2ForCausalLM

    if not _claims(settings):
        raise FloatlensError(f"{settings.where}: model_type is {settings.model_type!r}; the dream family reads 'Dream'")
    layers, heads = settings.integer("num_hidden_layers"), settings.integer("num_attention_heads")
    width = settings.integer("hidden_size")
    settings.only(_NAME, "hidden_act", "silu")
    settings.only(_NAME, "attention_bias", True)
    settings.only(_NAME, "use_sliding_window", False)
    settings.only(_NAME, "head_dim", width // heads)
    settings.only(_NAME, "layer_types", ["full_attention"] * layers)
    values: dict[str, Any] = {
        "vocab_size": settings.integer("vocab_size"),
        "hidden_size": width,
        "intermediate_size": settings.integer("intermediate_size"),
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": settings.integer("num_key_value_heads"),
        "hidden_act": "silu",
        "max_position_embeddings": settings.integer("max_position_embeddings"),
        "rms_norm_eps": settings.number("rms_norm_eps"),
        "rope_parameters": {"rope_type": "default", "rope_theta": settings.rope_theta(_NAME)},
        "use_sliding_window": False,
        "tie_word_embeddings": settings.switch("tie_word_embeddings"),
        "bos_token_id": settings.token("bos_token_id"),
        "eos_token_id": settings.tokens("eos_token_id"),
        "pad_token_id": settings.token("pad_token_id"),
        "is_causal": False,
    }
    settings.nothing_else(_NAME, _IDLE)
    return Plan(Qwen2ForCausalLM, Qwen2Config(**values))


FAMILY = Family(
    name=_NAME,
    kind="mdm",
    shift=True,
    about="Dream, Dream-Coder, DiffuCoder",
    claims=_claims,
    plan=_plan,
    byte_pair=True,
)
