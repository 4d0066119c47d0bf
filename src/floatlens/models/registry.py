"""The model families, in the order in which they are asked; adding one takes a file and a line here.

`pick` finds the family of a configuration, or checks the one the user named. A type that is known and not covered is
refused with the reason; nothing falls through to a family that merely happens to load it.
"""

from __future__ import annotations

import warnings

from floatlens.core.errors import FloatlensError, FloatlensWarning
from floatlens.core.registry import Registry
from floatlens.models.plan import Family
from floatlens.models.settings import Settings

__all__ = ["FAMILIES", "families", "pick"]

_FALLBACK = "causal"  # asked last: it takes whatever transformers knows as a causal language model
FAMILIES: Registry[Family] = Registry(
    "model family",
    "floatlens.families",
    {
        "llada": "floatlens.models.llada:FAMILY",
        "dream": "floatlens.models.dream:FAMILY",
        "illada": "floatlens.models.illada:FAMILY",
        "llada2": "floatlens.models.llada2:FAMILY",
        "nemotron-diffusion": "floatlens.models.nemotron_diffusion:FAMILY",
        "a2d-llama": "floatlens.models.a2d:LLAMA",
        "a2d-qwen2": "floatlens.models.a2d:QWEN2",
        "a2d-qwen3": "floatlens.models.a2d:QWEN3",
        "sdar": "floatlens.models.sdar:FAMILY",
        "fast-dllm-v2": "floatlens.models.fast_dllm_v2:FAMILY",
        "caduceus": "floatlens.models.caduceus:FAMILY",
        "lfm2-diffusion": "floatlens.models.lfm2_diffusion:FAMILY",
        "masked-lm": "floatlens.models.masked_lm:FAMILY",
        _FALLBACK: "floatlens.models.causal:FAMILY",
    },
)

_NOT_COVERED = {
    "llada2_moe_veomni": "its experts are merged for training; use the published llada2_moe checkpoint",
    "diffusion_gemma": "it starts from random tokens instead of masks",
    "rnd1": "nobody has checked its arithmetic against a transformers class yet",
    "sdar_moe": "nobody has checked its experts against a transformers class yet",
}


def families() -> tuple[Family, ...]:
    """Every family, with `.name`, `.kind`, `.shift` and `.about`, in the order in which they are asked.

    >>> [family.name for family in families() if family.kind == "arm"]
    ['causal']
    """
    return tuple(FAMILIES[name] for name in [*(name for name in FAMILIES if name != _FALLBACK), _FALLBACK])


def pick(settings: Settings, name: str | None) -> Family:
    """The family that reads this configuration. One of another package may cover a type that we refuse."""
    kind = settings.model_type
    if kind in _NOT_COVERED and (name is None or name in FAMILIES.builtin):
        for family in families():
            if name is None and family.name not in FAMILIES.builtin and family.claims(settings):
                return family
        raise FloatlensError(f"{settings.where}: model_type {kind!r} is not covered: {_NOT_COVERED[kind]}")
    if name is not None:
        return FAMILIES[name]
    for family in families():
        if family.claims(settings):
            caution = None if family.caution is None else family.caution(settings)
            if caution is not None:
                warnings.warn(f"{settings.where}: {caution}", FloatlensWarning, stacklevel=2)
            return family
    from floatlens.models.causal import refuse_encoder_decoder

    refuse_encoder_decoder(settings)
    raise FloatlensError(
        f"{settings.where}: no family reads model_type {kind!r}; pass family= if the checkpoint follows one of: "
        + ", ".join(FAMILIES)
    )
