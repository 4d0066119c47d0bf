"""Forced decoding: a given text is written; the sampler chooses the order.

Targets are checked against the prompts and put on the canvas; `Board.fill` and the sampler `ar` write them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

from floatlens.core.errors import FloatlensError
from floatlens.decoding.canvas import Canvas, read_prompts
from floatlens.decoding.registry import Sampler, read_settings
from floatlens.models.base import LanguageModel

__all__ = ["follow", "force", "open_settings", "read_targets", "settings_of_hole"]

Ids = list[list[int]]
_FOLLOWING = ("steps", "block_length")
"""Settings whose defaults follow `gen_length`."""


def read_targets(model: LanguageModel, target_ids: Any, prompts: list[list[int]]) -> list[list[int]]:
    """One list of ids per prompt, all of one length, of tokens that can be written."""
    targets = read_prompts(target_ids, model.vocab_size, "target")
    if len(targets) != len(prompts):
        raise FloatlensError(f"{len(targets)} targets for {len(prompts)} prompts; give one for each")
    for sample, target in enumerate(targets):
        if not target:
            raise FloatlensError(f"target {sample} is empty; give at least one token")
        if model.mask_id is not None and model.mask_id in target:
            place = target.index(model.mask_id)
            raise FloatlensError(f"target {sample} holds the mask token at position {place}, which is never written")
    lengths = sorted({len(target) for target in targets})
    if len(lengths) > 1:
        raise FloatlensError(
            f"targets of one batch must have one length, and these have {lengths[0]} to {lengths[-1]} tokens; "
            "decode them one by one, or in batches of equal length"
        )
    return targets


def follow(
    model: LanguageModel, sampler: Sampler, settings: Mapping[str, Any], prompts: Ids, targets: Ids
) -> dict[str, Any]:
    """The settings with the `gen_length` that the targets leave: their length minus the masks inside the prompts."""
    given, masks = settings.get("gen_length"), [0] * len(prompts)
    if given is not None and not isinstance(given, int):
        return dict(settings)  # read_settings reports what is wrong
    if model.kind == "mdm" and model.mask_id is not None:
        masks = [prompt.count(model.mask_id) for prompt in prompts]
    appended = len(targets[0]) - masks[0] if given is None else given
    for sample, (target, inside) in enumerate(zip(targets, masks, strict=True)):
        if appended < 0 or inside + appended != len(target):
            there = [f"gen_length={given}"] if given is not None else []
            there += [f"{inside} masks in prompt {sample}"] if any(masks) else []
            advice = "give a token for each mask" if given is None else "leave gen_length out"
            raise FloatlensError(
                f"target {sample} has {len(target)} tokens, which does not fit {' and '.join(there)}; {advice}"
            )
    made = {**settings, "gen_length": appended}
    return made if appended else settings_of_hole(sampler, made, masks[0])


def settings_of_hole(sampler: Sampler, settings: Mapping[str, Any], masks: int) -> dict[str, Any]:
    """Settings for a prompt with `masks` masks and no appended ones: one pass per mask unless `steps` is set."""
    made = {**settings, "gen_length": 0}
    if "steps" in sampler.settings.model_fields and made.get("steps") is None:
        made["steps"] = masks
    return made


def force(canvas: Canvas, targets: list[list[int]]) -> Canvas:
    """The canvas with its targets, in reading order."""
    target = torch.full_like(canvas.ids, -1)
    target[canvas.answer] = torch.tensor([token for one in targets for token in one], dtype=torch.long)
    return replace(canvas, target=target)


def open_settings(sampler: Sampler, given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of `sampler` without those that depend on the length of each text (gen_length, steps, …)."""
    if given.get("gen_length") is not None:
        raise FloatlensError("a forced text has a length of its own; leave gen_length out")
    block = given.get("block_length")
    read = read_settings(sampler, dict(given) if block is None else {**given, "gen_length": block})
    left_open = {"gen_length", *(name for name in _FOLLOWING if given.get(name) is None)}
    return read.model_dump(mode="json", exclude=left_open)
