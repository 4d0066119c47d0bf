"""Dream, Dream-Coder and DiffuCoder as a bidirectional Qwen2 whose logits are shifted: row i decides position i + 1.

Tensor names are Qwen2's already; only config.json is translated. Later Dreams with block attention and unshifted logits
say so with keys this family does not know, and are refused by name.
"""

from __future__ import annotations

from floatlens.core.errors import FloatlensError

from .plan import Family, Plan, Published
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
    settings.only(_NAME, "hidden_act", "silu")
    settings.only(_NAME, "attention_bias", True)
    settings.only(_NAME, "use_sliding_window", False)
    settings.only(_NAME, "layer_types", ["full_attention"] * settings.integer("num_hidden_layers"))
    values = settings.qwen(_NAME) | {"intermediate_size": settings.integer("intermediate_size")}
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
    published=(
        Published(
            "Dream-org/Dream-v0-Base-7B, -Instruct-7B, Dream-org/Dream-Coder-v0-*, apple/DiffuCoder-7B-*",
            verified="golden",
        ),
    ),
)
