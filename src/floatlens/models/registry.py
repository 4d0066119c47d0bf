"""The families there are, in the order in which they are asked; adding one is one file and one line here.

`pick` finds the family of a configuration, or checks the one the user named. A type that is known and not covered is
refused with the reason; nothing falls through to a family that merely happens to load it.
"""

from __future__ import annotations

from floatlens.core.errors import FloatlensError, did_you_mean

from . import a2d, causal, dream, llada, masked_lm
from .plan import Family
from .settings import Settings

__all__ = ["families", "family_named", "pick"]

_FAMILIES: tuple[Family, ...] = (
    llada.FAMILY,
    dream.FAMILY,
    *a2d.FAMILIES,
    masked_lm.FAMILY,
    causal.FAMILY,
)

_NOT_COVERED = {
    "llada2_moe": "its attention is block-causal and its router and shared experts are its own",
    "diffusion_gemma": "it starts from random tokens instead of masks",
    "rnd1": "nobody has checked its arithmetic against a transformers class yet",
    "sdar": "its attention is block-causal",
    "sdar_moe": "its attention is block-causal",
}


def families() -> tuple[Family, ...]:
    """Every family, with `.name`, `.kind`, `.shift` and `.about`."""
    return _FAMILIES


def family_named(name: str) -> Family:
    """The family of that name, or an error that says which are known."""
    for family in _FAMILIES:
        if family.name == name:
            return family
    raise FloatlensError(f"no model family {name!r}{did_you_mean(name, [f.name for f in _FAMILIES])}")


def pick(settings: Settings, name: str | None) -> Family:
    """The family that reads this configuration."""
    kind = settings.model_type
    if kind in _NOT_COVERED:
        raise FloatlensError(f"{settings.where}: model_type {kind!r} is not covered: {_NOT_COVERED[kind]}")
    if name is not None:
        return family_named(name)
    for family in _FAMILIES:
        if family.claims(settings):
            return family
    causal.refuse_encoder_decoder(settings)
    raise FloatlensError(
        f"{settings.where}: no family reads model_type {kind!r}; pass family= if the checkpoint follows one of: "
        + ", ".join(family.name for family in _FAMILIES)
    )
