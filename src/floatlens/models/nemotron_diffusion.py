"""Nemotron-Labs-Diffusion as Ministral3 (YaRN, query scale by position); one set of weights that runs in two modes.

`mode="diffusion"` (the default) fills masks with full attention, unshifted; `mode="ar"` is the same model read as a
causal one, its own control. The published samplers mix both: a causal context, and a block that sees all of itself.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from floatlens.core.errors import FloatlensError, did_you_mean

from .plan import Family, Plan, Published
from .settings import Settings

__all__ = ["FAMILY"]

_NAME = "nemotron-diffusion"
_TYPE = "nemotron_labs_diffusion"
_MODES = ("diffusion", "ar")
_SIZES = """vocab_size hidden_size intermediate_size num_hidden_layers num_attention_heads num_key_value_heads head_dim
    max_position_embeddings"""
_ROPE = """beta_fast beta_slow factor llama_4_scaling_beta max_position_embeddings mscale mscale_all_dim
    original_max_position_embeddings rope_theta rope_type type"""
_IDLE = "ar_loss_weight dlm_loss_weight dp_varying_mask_ratio"  # what training weighs and draws
_KEY_MAPPING = {r"^encoder\.": "model.", r"^diffusion_head\.": "lm_head."}


def _claims(settings: Settings) -> bool:
    return settings.model_type == _TYPE


def _plan(settings: Settings) -> Plan:
    from transformers import Ministral3Config, Ministral3ForCausalLM

    if not _claims(settings):
        raise FloatlensError(
            f"{settings.where}: model_type is {settings.model_type!r}; the {_NAME} family reads {_TYPE!r}"
        )
    mode = _mode(settings)
    settings.only(_NAME, "dlm_paradigm", "bidirectional", needed=True)
    settings.only(_NAME, "hidden_act", "silu", needed=True)
    settings.only(_NAME, "layer_types", ["full_attention"] * settings.integer("num_hidden_layers"))
    for flag in ("attention_bias", "mlp_bias", "sliding_window"):
        settings.only(_NAME, flag, False)
    values: dict[str, Any] = settings.special_tokens() | {key: settings.integer(key) for key in _SIZES.split()}
    values |= {
        "hidden_act": "silu",
        "rms_norm_eps": settings.number("rms_norm_eps"),
        "rope_parameters": _rope(settings),
        "tie_word_embeddings": settings.switch("tie_word_embeddings"),
        "sliding_window": None,
        "is_causal": mode == "ar",
    }
    size = settings.integer("block_size")
    settings.nothing_else(_NAME, _IDLE.split())
    plan = Plan(Ministral3ForCausalLM, Ministral3Config(**values), key_mapping=_KEY_MAPPING, mode=mode)
    if mode == "ar":
        return replace(plan, kind="arm", shift=True, sampler="nemotron_ar")
    return replace(plan, block_size=size, sampler="nemotron_diffusion")


def _mode(settings: Settings) -> str:
    told = settings.told.mode
    if told is not None and told not in _MODES:
        raise FloatlensError(f'mode="{told}"{did_you_mean(told, _MODES)}')
    return told or _MODES[0]


def _rope(settings: Settings) -> dict[str, Any]:
    """YaRN with the position-dependent scale of queries; every key is known, or refused by name."""
    given = settings.get("rope_parameters")
    if not isinstance(given, dict):
        raise FloatlensError(f"{settings.where}: `rope_parameters` is missing, and floatlens guesses no value for it")
    settings.only(_NAME, "rope_scaling", None)
    inner = Settings(given, f"{settings.where} (rope_parameters)")
    kind = given.get("rope_type", given.get("type"))
    if kind != "yarn":
        raise FloatlensError(f"{inner.where}: `rope_type` is {json.dumps(kind)}; the {_NAME} family covers yarn only")
    for key in ("factor", "rope_theta", "llama_4_scaling_beta"):
        inner.number(key)
    inner.integer("original_max_position_embeddings")
    inner.nothing_else(_NAME, _ROPE.split())
    return {**given, "rope_type": "yarn"}


_CHECKPOINTS = "nvidia/Nemotron-Labs-Diffusion-3B, -8B, -14B, Base and instruct"
FAMILY = Family(
    name=_NAME,
    kind="mdm",
    shift=False,
    about="Nemotron-Labs-Diffusion, in both modes",
    claims=_claims,
    plan=_plan,
    published=(
        Published(_CHECKPOINTS, "transcribed", "causal + last block", "nemotron_diffusion"),
        Published('the same with mode="ar"', "transcribed", "causal", "nemotron_ar", shift=True),
    ),
)
