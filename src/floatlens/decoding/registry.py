"""Samplers by name: which kind of model each serves, its settings, and the generator that runs it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from floatlens.core.errors import FloatlensError, did_you_mean
from floatlens.core.registry import Registry
from floatlens.core.validation import validate
from floatlens.decoding.canvas import Canvas
from floatlens.decoding.settings import Settings
from floatlens.decoding.step import Step
from floatlens.models.base import Kind, LanguageModel
from floatlens.models.plan import default_sampler

__all__ = ["SAMPLERS", "Generators", "Sampler", "read_settings", "sampler_for"]

Generators = Sequence[torch.Generator]
"""One random generator per sample."""
_KINDS = {"arm": "autoregressive", "mdm": "masked diffusion"}


@dataclass(frozen=True)
class Sampler:
    """A decoding algorithm. `run(model, canvas, settings, generators)` yields a Step after every forward pass.

    `blocks` says that it is for models with block-causal attention only, `families` that it is for these only.
    """

    name: str
    kind: Kind
    settings: type[Settings]
    run: Callable[[LanguageModel, Canvas, Any, Generators], Iterator[Step]]
    about: str
    blocks: bool = False
    families: tuple[str, ...] = ()

    def fits(self, model: LanguageModel) -> bool:
        """Whether it decodes a model."""
        own = not self.families or model.family in self.families
        return self.kind == model.kind and own and (not self.blocks or model.attention == "block_causal")


_NAMES = """ar bd3lm dream fast_dllm_v2 lfm2_card llada llada2 llada21 llada_var nemotron_ar
    nemotron_diffusion nemotron_linear_spec sdar threshold"""
SAMPLERS: Registry[Sampler] = Registry(
    "sampler",
    "floatlens.samplers",
    {name: f"floatlens.decoding.{name}:SAMPLER" for name in _NAMES.split()},
)
"""Every sampler by name. Example: `SAMPLERS["dream"].settings.model_fields`"""


def sampler_for(model: LanguageModel, name: str | None = None) -> Sampler:
    """The sampler called `name`, or the one the model's family was published with."""
    if name is None:
        name = model.sampler or default_sampler(model.kind, model.shift)
    sampler = replace(SAMPLERS[name], name=name)
    if not sampler.fits(model):
        fitting = ", ".join(sorted(other for other in SAMPLERS if SAMPLERS[other].fits(model)))
        about = (_KINDS[sampler.kind], f"{_KINDS[model.kind]} (family {model.family})")
        if sampler.families and model.family not in sampler.families:
            about = (" and ".join(sampler.families), f"of the family {model.family}")
        elif sampler.kind == model.kind:
            about = ("block-causal", f"not: its attention is {model.attention}")
        raise FloatlensError(
            f'the sampler "{name}" is for {about[0]} models and {model.ref} is {about[1]}; use one of: {fitting}'
        )
    return sampler


def read_settings(sampler: Sampler, given: Mapping[str, Any]) -> Settings:
    """Validated settings of `sampler`; all that is wrong with them is one FloatlensError."""
    own = sampler.settings.model_fields
    for name in given:
        if name not in own:
            others = sorted(other for other in SAMPLERS if name in SAMPLERS[other].settings.model_fields)
            owners = " and ".join(filter(None, (", ".join(others[:-1]), *others[-1:])))
            hint = f"; it belongs to {owners}" if others else did_you_mean(name, own)
            raise FloatlensError(f'the sampler "{sampler.name}" has no setting "{name}"{hint}')
    return validate(sampler.settings, given, f'settings of the sampler "{sampler.name}"')
