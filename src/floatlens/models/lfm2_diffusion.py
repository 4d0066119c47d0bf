"""LFM2.5-Encoder and its diffusion model: LFM2 with full attention in some layers, centred convolutions in the others.

The model_type of these checkpoints is that of the causal LFM2; their `architectures` tells them apart. Padding is
zeroed before each convolution, as by the published code under transformers 5 (under 4.57 it leaked).
"""

from __future__ import annotations

import json
from typing import Any

from floatlens.core.errors import FloatlensError

from .plan import Family, Plan, Published
from .settings import Settings

__all__ = ["FAMILY"]

_NAME = "lfm2-diffusion"
_CLASS = "Lfm2BidirectionalForMaskedLM"
_SIZES = """vocab_size hidden_size num_hidden_layers num_attention_heads num_key_value_heads max_position_embeddings
    conv_L_cache block_multiple_of"""
_IDLE = "theta block_mlp_init_scale block_out_init_scale conv_use_xavier_init use_pos_enc"
_KEY_MAPPING = {r"^lfm2\.": "model."}


def _claims(settings: Settings) -> bool:
    named = settings.get("architectures")
    return settings.model_type == "lfm2" and isinstance(named, list) and _CLASS in named


def _plan(settings: Settings) -> Plan:
    from transformers import Lfm2Config

    if settings.model_type != "lfm2":
        raise FloatlensError(
            f"{settings.where}: model_type is {settings.model_type!r}; the {_NAME} family reads 'lfm2' "
            f"with `architectures` {_CLASS}"
        )
    from .lfm2_modules import Lfm2BidirectionalForMaskedLM

    settings.only(_NAME, "architectures", [_CLASS], needed=True)
    settings.only(_NAME, "block_use_swiglu", True)
    settings.only(_NAME, "block_norm_eps", settings.number("norm_eps"))
    for key in ("block_dim", "conv_dim", "conv_dim_out"):
        settings.only(_NAME, key, settings.integer("hidden_size"))
    for key, same in (("num_heads", "num_attention_heads"), ("tie_embedding", "tie_word_embeddings")):
        settings.only(_NAME, key, settings.get(same))
    settings.only(_NAME, "full_attn_idxs", _attention_layers(settings))
    width = "block_ff_dim" if settings.get("block_ff_dim") is not None else "intermediate_size"
    settings.only(_NAME, "intermediate_size", settings.integer(width))
    values: dict[str, Any] = settings.special_tokens() | {key: settings.integer(key) for key in _SIZES.split()}
    values |= {
        "intermediate_size": settings.integer(width),
        "block_ffn_dim_multiplier": settings.number("block_ffn_dim_multiplier"),
        "block_auto_adjust_ff_dim": settings.switch("block_auto_adjust_ff_dim"),
        "layer_types": settings["layer_types"],
        "norm_eps": settings.number("norm_eps"),
        "conv_bias": settings.switch("conv_bias"),
        "rope_parameters": {"rope_type": "default", "rope_theta": settings.rope_theta(_NAME)},
        "tie_word_embeddings": settings.switch("tie_word_embeddings"),
        "is_causal": False,
    }
    settings.nothing_else(_NAME, _IDLE.split())
    return Plan(Lfm2BidirectionalForMaskedLM, Lfm2Config(**values), key_mapping=_KEY_MAPPING, sampler="lfm2_card")


def _attention_layers(settings: Settings) -> list[int]:
    """The layers with attention; every layer must be one of the two kinds."""
    given, layers = settings.get("layer_types"), settings.integer("num_hidden_layers")
    if not isinstance(given, list) or len(given) != layers or not set(given) <= {"conv", "full_attention"}:
        raise FloatlensError(
            f'{settings.where}: `layer_types` must be "conv" or "full_attention" for each of the {layers} layers, '
            f"not {json.dumps(given)[:60]}"
        )
    return [index for index, kind in enumerate(given) if kind == "full_attention"]


_CHECKPOINTS = "LiquidAI/LFM2.5-Encoder-230M, -350M, LFM2.5-350M-Diffusion"
FAMILY = Family(
    name=_NAME,
    kind="mdm",
    shift=False,
    about="LFM2.5-Encoder: short convolutions and attention",
    claims=_claims,
    plan=_plan,
    published=(Published(_CHECKPOINTS, "transcribed", "full, and convolutions", "lfm2_card"),),
)
