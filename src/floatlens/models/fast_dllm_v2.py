"""Fast-dLLM v2 as Qwen2 with block-causal attention and shifted logits: row i decides position i + 1.

Tensor names are Qwen2's. Blocks have `bd_size` positions. No file declares the mask token: it is the id that the
published generation code uses, stated here.
"""

from __future__ import annotations

from floatlens.core.errors import FloatlensError

from .plan import Family, Plan, Published
from .settings import Settings

__all__ = ["FAMILY"]

_NAME = "fast-dllm-v2"
_TYPE = "Fast_dLLM_Qwen"
_MASK_ID = 151665
_IDLE = ("max_window_layers", "sliding_window")  # both mean nothing while use_sliding_window is off


def _claims(settings: Settings) -> bool:
    return settings.model_type == _TYPE


def _plan(settings: Settings) -> Plan:
    from transformers import Qwen2Config, Qwen2ForCausalLM

    if not _claims(settings):
        raise FloatlensError(
            f"{settings.where}: model_type is {settings.model_type!r}; the {_NAME} family reads {_TYPE!r}"
        )
    settings.only(_NAME, "hidden_act", "silu")
    settings.only(_NAME, "attention_bias", True)
    settings.only(_NAME, "use_sliding_window", False)
    settings.only(_NAME, "layer_types", ["full_attention"] * settings.integer("num_hidden_layers"))
    values = settings.qwen(_NAME) | {"intermediate_size": settings.integer("intermediate_size")}
    size = settings.block_size("bd_size")
    settings.nothing_else(_NAME, _IDLE)
    return Plan(
        Qwen2ForCausalLM,
        Qwen2Config(**values),
        attention="block_causal",
        block_size=size,
        mask_id=_MASK_ID,
        sampler="fast_dllm_v2",
    )


_CHECKPOINTS = "Efficient-Large-Model/Fast_dLLM_v2_1.5B, _7B"
FAMILY = Family(
    name=_NAME,
    kind="mdm",
    shift=True,
    about="Fast-dLLM v2",
    claims=_claims,
    plan=_plan,
    byte_pair=True,
    published=(Published(_CHECKPOINTS, "transcribed", "block-causal", "fast_dllm_v2"),),
)
