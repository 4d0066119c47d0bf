"""iLLaDA-8B as a bidirectional Llama with grouped keys and a tied head; logits unshifted.

Tensor names are Llama's. Neither config.json nor the tokenizer declares the mask token: it is id 5, stated here, and
never guessed from a vocabulary. Layer norms in place of RMS norms and scaled rotary embeddings are refused by name.
"""

from __future__ import annotations

from typing import Any

from floatlens.core.errors import FloatlensError

from .plan import Family, Plan, Published
from .settings import Settings

__all__ = ["FAMILY"]

_NAME = "illada"
_SIZES = """vocab_size hidden_size intermediate_size num_hidden_layers num_attention_heads num_key_value_heads
    max_position_embeddings"""


def _claims(settings: Settings) -> bool:
    return settings.model_type == "illada"


def _plan(settings: Settings) -> Plan:
    from transformers import LlamaConfig, LlamaForCausalLM

    if not _claims(settings):
        raise FloatlensError(
            f"{settings.where}: model_type is {settings.model_type!r}; the illada family reads 'illada'"
        )
    settings.only(_NAME, "hidden_act", "silu", needed=True)
    if settings.get("layer_norm_eps") is not None:
        raise FloatlensError(
            f"{settings.where}: `layer_norm_eps` is set, which turns its RMS norms into layer norms; "
            "the illada family covers RMS norms only"
        )
    settings.only(_NAME, "head_dim", settings.integer("hidden_size") // settings.integer("num_attention_heads"))
    values: dict[str, Any] = settings.special_tokens() | {key: settings.integer(key) for key in _SIZES.split()}
    values |= {
        "hidden_act": "silu",
        "rms_norm_eps": settings.number("rms_norm_eps"),
        "rope_parameters": {"rope_type": "default", "rope_theta": settings.rope_theta(_NAME)},
        "tie_word_embeddings": settings.switch("tie_word_embeddings"),
        "attention_bias": settings.switch("attention_bias"),
        "mlp_bias": settings.switch("mlp_bias"),
        "is_causal": False,
    }
    settings.nothing_else(_NAME, ("resid_pdrop",))
    return Plan(LlamaForCausalLM, LlamaConfig(**values), mask_id=5)


FAMILY = Family(
    name=_NAME,
    kind="mdm",
    shift=False,
    about="iLLaDA-8B",
    claims=_claims,
    plan=_plan,
    published=(Published("GSAI-ML/iLLaDA-8B-Base, -Instruct", verified="transcribed"),),
)
