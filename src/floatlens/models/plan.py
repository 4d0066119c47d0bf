"""What a family is, and the plan it makes of a checkpoint.

A plan says which transformers class takes the weights, under which configuration and tensor names. It is data: nothing
here reads tensors or imports torch, so listing families is fast.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from floatlens.core.errors import FloatlensError
from floatlens.models.checkpoint import in_one_line

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

    from .base import Attention, Kind
    from .settings import Settings

__all__ = [
    "VERIFIED",
    "Family",
    "Plan",
    "Published",
    "Reading",
    "Verified",
    "default_sampler",
    "plan_checkpoint",
    "read_as",
]

Verified = Literal["golden", "transcribed", "class", "experimental"]
VERIFIED: dict[Verified, str] = {
    "golden": "logits, attention and sampled ids equal those of the published code on a tiny checkpoint of its format",
    "transcribed": "the same, with published code that was transcribed from its text and not itself run",
    "class": "the class is transformers' own, or was compared with it on tiny checkpoints; its sampler was not",
    "experimental": "nothing was compared with the published code",
}
"""How a family was compared with the code it was published with."""


@dataclass(frozen=True)
class Plan:
    """How one checkpoint becomes a module.

    `architecture` is a transformers class with `from_pretrained`; `key_mapping` renames tensors (regular expressions);
    `surplus` are patterns of tensors that published checkpoints carry and this class has no use for; `head` is the
    dotted name of the module where rows are chosen; `position_offset` is what its position table adds.

    `attention` and `block_size` are the mask rule, where it is not simply full (diffusion) or causal; `mask_id` is for
    families whose files do not name the mask token; `sampler` is the one they were published with. `kind`, `shift` and
    `mode` are for families that can be read in more than one way, instead of the family's own.
    """

    architecture: Any
    config: PreTrainedConfig
    key_mapping: Mapping[str, str] | None = None
    surplus: tuple[str, ...] = ()
    head: str | None = None
    position_offset: int = 0
    attention: Attention | None = None
    block_size: int | None = None
    mask_id: int | None = None
    sampler: str | None = None
    kind: Kind | None = None
    shift: bool | None = None
    mode: str | None = None


@dataclass(frozen=True)
class Published:
    """Published checkpoints of a family that were verified alike: one row of the compatibility table.

    `attention`, `sampler` and `shift` are given where they differ from those of the family.
    """

    checkpoints: str
    verified: Verified = "experimental"
    attention: str | None = None
    sampler: str | None = None
    shift: bool | None = None


@dataclass(frozen=True)
class Reading:
    """How a checkpoint is read: what its family says, and what its plan says instead."""

    family: str
    kind: Kind
    shift: bool
    attention: Attention
    block_size: int | None
    sampler: str | None


@dataclass(frozen=True)
class Family:
    """One family: its name, how its logits are read, which configurations it claims, and how it plans one.

    `claims` decides what `load` picks on its own; `plan` also serves `family=...` and refuses what it does not cover.
    `byte_pair` says that a vocab.json with merges.txt follows Qwen2's rules, for checkpoints that ship only those.
    `caution` gives what to warn about when the family was picked from config.json alone, and not named by the user.
    `published` are its rows of the compatibility table.
    """

    name: str
    kind: Kind
    shift: bool
    about: str
    claims: Callable[[Settings], bool]
    plan: Callable[[Settings], Plan]
    byte_pair: bool = False
    caution: Callable[[Settings], str | None] | None = None
    published: tuple[Published, ...] = ()


def default_sampler(kind: Kind, shift: bool) -> str:
    """The sampler of models whose family names none."""
    return "ar" if kind == "arm" else "dream" if shift else "llada"


def plan_checkpoint(family: Family, settings: Settings) -> Plan:
    """The family's plan for a configuration; what transformers raises about it becomes one line."""
    with in_one_line(settings.where, "transformers refuses this configuration"):
        return family.plan(settings)


def read_as(family: Family, plan: Plan, settings: Settings) -> Reading:
    """How the checkpoint is read; what the user says and the family has no choice about is refused by name."""
    kind = plan.kind or family.kind
    attention = plan.attention or ("causal" if kind == "arm" else "full")
    have = {"attention": attention, "block_size": plan.block_size, "mode": plan.mode}
    for name, given in settings.told.given.items():
        if name == "mask_id" and kind == "arm":
            raise FloatlensError(f"{settings.where}: mask_id= is for diffusion models, and this one is autoregressive")
        if name in have and given != have[name]:
            said = f"no {name}" if have[name] is None else f"{name} {have[name]}"
            raise FloatlensError(
                f"{settings.where}: {name}={given!r} was given, but as {family.name} it has {said}; leave {name}= out"
            )
    shift = family.shift if plan.shift is None else plan.shift
    return Reading(family.name, kind, shift, attention, plan.block_size, plan.sampler)
