"""Caduceus (bidirectional Mamba, masked language modelling of DNA), PH and PS; also the format of `scale:mamba`.

It has no attention: a layer is a selective scan in each direction. The published code has no sampler and no padding
mask; here LLaDA's sampler writes, and padding is kept out of the scans.
"""

from __future__ import annotations

import json
from typing import Any

from floatlens.core.errors import FloatlensError

from .plan import Family, Plan, Published
from .settings import Settings

__all__ = ["FAMILY"]

_NAME = "caduceus"
_MASK_ID = 3
"""The mask token of the published tokenizer, which config.json does not name."""
_IDLE = "initializer_cfg pad_vocab_size_multiple complement_map"
# How weights are drawn before training, and which kernel runs; neither changes the arithmetic of a loaded model.
_SSM_IDLE = "dt_init dt_init_floor dt_max dt_min dt_scale use_fast_path"


def _claims(settings: Settings) -> bool:
    return settings.model_type == _NAME


def _plan(settings: Settings) -> Plan:
    if not _claims(settings):
        raise FloatlensError(
            f"{settings.where}: model_type is {settings.model_type!r}; the {_NAME} family reads {_NAME!r}"
        )
    from .bimamba import CaduceusConfig, CaduceusForMaskedLM

    settings.only(_NAME, "bidirectional", True, needed=True)
    settings.only(_NAME, "bidirectional_strategy", "add", needed=True)
    settings.only(_NAME, "bidirectional_weight_tie", True, False, needed=True)
    settings.only(_NAME, "rms_norm", True, needed=True)
    settings.only(_NAME, "fused_add_norm", True, False, needed=True)
    settings.only(_NAME, "residual_in_fp32", True, False)
    settings.only(_NAME, "tie_word_embeddings", True)
    both = settings.switch("rcps")
    values: dict[str, Any] = settings.special_tokens() | {
        "vocab_size": settings.integer("vocab_size"),
        "hidden_size": settings.integer("d_model"),
        "num_hidden_layers": settings.integer("n_layer"),
        "layer_norm_epsilon": settings.number("norm_epsilon"),
        "tied_directions": bool(settings["bidirectional_weight_tie"]),
        "rcps": both,
        "swaps_strands": bool(settings["fused_add_norm"]),
        "complement": _complement(settings) if both else None,
        "tie_word_embeddings": True,
        **_mixer(settings),
    }
    if settings.get("max_position_embeddings") is not None:
        values["max_position_embeddings"] = settings.integer("max_position_embeddings")
    settings.nothing_else(_NAME, _IDLE.split())
    mask = None if settings.get("mask_token_id") is not None else _MASK_ID
    return Plan(CaduceusForMaskedLM, CaduceusConfig(**values), head="lm_head", mask_id=mask)


def _mixer(settings: Settings) -> dict[str, Any]:
    """The sizes of the mixers, from `ssm_cfg`."""
    given = settings.get("ssm_cfg")
    if not isinstance(given, dict):
        raise FloatlensError(f"{settings.where}: `ssm_cfg` is missing, and floatlens guesses no value for it")
    inner = Settings(given, f"{settings.where} (ssm_cfg)")
    rank = inner.get("dt_rank")
    values = {
        "state_size": inner.integer("d_state"),
        "conv_kernel": inner.integer("d_conv"),
        "expand": inner.integer("expand"),
        "time_step_rank": rank if rank == "auto" else inner.integer("dt_rank"),
        "use_bias": inner.switch("bias"),
        "use_conv_bias": inner.switch("conv_bias"),
        "hidden_act": "silu",
    }
    inner.nothing_else(_NAME, _SSM_IDLE.split())
    return values


def _complement(settings: Settings) -> list[int]:
    """The complement of each token, from a JSON object with every id of the vocabulary."""
    given, size = settings.get("complement_map"), settings.integer("vocab_size")
    wanted = {str(index) for index in range(size)}
    if not isinstance(given, dict) or set(given) != wanted or {str(to) for to in given.values()} != wanted:
        raise FloatlensError(
            f"{settings.where}: `complement_map` must pair each of the {size} token ids with one, "
            f"not {json.dumps(given)[:60]}"
        )
    return [int(given[str(index)]) for index in range(size)]


_CHECKPOINTS = "kuleshov-group/caduceus-ph_seqlen-131k_d_model-256_n_layer-16, caduceus-ps_*"
FAMILY = Family(
    name=_NAME,
    kind="mdm",
    shift=False,
    about="Caduceus: bidirectional Mamba, no attention",
    claims=_claims,
    plan=_plan,
    published=(Published(_CHECKPOINTS, "transcribed", "none (scans both ways)"),),
)
