"""The samplers by name: which kind of model each serves, its settings, and the generator that runs it.

Strict on purpose: a name is registered once, an unknown one is an error with a suggestion, and a setting that the
sampler does not have is refused, not ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import torch

from floatlens.core.errors import FloatlensError, did_you_mean
from floatlens.core.validation import validate
from floatlens.decoding.settings import Settings
from floatlens.decoding.step import Step

if TYPE_CHECKING:
    from floatlens.decoding.canvas import Canvas
    from floatlens.models.base import Kind, LanguageModel

__all__ = ["Sampler", "read_settings", "register", "sampler_for", "samplers"]

_KINDS = {"arm": "autoregressive", "mdm": "masked diffusion"}


@dataclass(frozen=True)
class Sampler:
    """A way to decode. `run(model, canvas, settings, generators)` yields a Step after every forward pass."""

    name: str
    kind: Kind
    settings: type[Settings]
    run: Callable[[LanguageModel, Canvas, Any, list[torch.Generator]], Iterator[Step]]
    about: str


_SAMPLERS: dict[str, Sampler] = {}


def samplers() -> Mapping[str, Sampler]:
    """Every registered sampler by name. Example: `samplers()["dream"].settings.model_fields`"""
    return MappingProxyType(_SAMPLERS)


def register(sampler: Sampler) -> Sampler:
    """Add a sampler; its name must be free."""
    if sampler.name in _SAMPLERS:
        raise ValueError(f'a sampler named "{sampler.name}" is registered already')
    _SAMPLERS[sampler.name] = sampler
    return sampler


def sampler_for(model: LanguageModel, name: str | None = None) -> Sampler:
    """The sampler called `name`, or the one the model's family was published with."""
    if name is None:
        name = "ar" if model.kind == "arm" else "dream" if model.shift else "llada"
    if name not in _SAMPLERS:
        raise FloatlensError(f'unknown sampler "{name}"{did_you_mean(name, _SAMPLERS)}')
    sampler = _SAMPLERS[name]
    if sampler.kind != model.kind:
        fitting = ", ".join(sorted(s.name for s in _SAMPLERS.values() if s.kind == model.kind))
        raise FloatlensError(
            f'the sampler "{name}" is for {_KINDS[sampler.kind]} models and {model.ref} is {_KINDS[model.kind]} '
            f"(family {model.family}); use one of: {fitting}"
        )
    return sampler


def read_settings(sampler: Sampler, given: Mapping[str, Any]) -> Settings:
    """Validated settings of `sampler`; what is wrong is said in one line."""
    own = sampler.settings.model_fields
    for name in given:
        if name not in own:
            others = [other.name for other in _SAMPLERS.values() if name in other.settings.model_fields]
            hint = f"; it belongs to {' and '.join(sorted(others))}" if others else did_you_mean(name, own)
            raise FloatlensError(f'the sampler "{sampler.name}" has no setting "{name}"{hint}')
    return validate(sampler.settings, given, f'settings of the sampler "{sampler.name}"')
