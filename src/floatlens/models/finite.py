"""NaN and infinite numbers in weights and logits: refused with the name of the tensor or layer they come from.

One reduction per tensor and no copy. Logits on a GPU are looked at when the next pass begins, when the decoder has
waited for them anyway.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn
from torch.linalg import vector_norm

from floatlens.core.errors import FloatlensError

if TYPE_CHECKING:
    from floatlens.models.base import LanguageModel

__all__ = ["check_logits", "check_weights", "first_broken"]


def check_weights(model: LanguageModel) -> LanguageModel:
    """The model; an error that names the first tensor with a NaN or an infinite number in it."""
    for name, tensor in [*model.module.named_parameters(), *model.module.named_buffers()]:
        if tensor.is_floating_point() and not tensor.is_meta and not _finite(tensor):
            raise FloatlensError(
                f'{model.ref}: tensor "{name}" holds NaN or infinite numbers; the checkpoint is damaged, get it again'
            )
    return model


def check_logits(
    model: LanguageModel, logits: Tensor, before: Tensor | None, inputs: dict[str, Any] | None
) -> Tensor | None:
    """An error where a logit is NaN or infinite; on a GPU that is said of the pass `before`, and the largest logit of
    this one is returned. With `inputs` the pass is run again, to name the layer where it begins.
    """
    later = logits.amax() if logits.is_cuda and logits.numel() else None
    peak = before if logits.is_cuda else logits.amax() if logits.numel() else None
    if peak is None or math.isfinite(found := float(peak)) or found == -math.inf:
        return later
    name = first_broken(model.module, inputs) if inputs is not None and not logits.is_cuda else None
    where = "its logits are" if name is None else f'the output of "{name}" is'
    raise FloatlensError(
        f"{model.ref}: {where} NaN or infinite; load it with dtype float32, or get the checkpoint again"
    )


def first_broken(module: nn.Module, inputs: dict[str, Any]) -> str | None:
    """The name of the first part of a module whose output holds a NaN or an infinite number in a pass over `inputs`."""
    found: list[str] = []
    hooks = []

    def look(name: str) -> Any:
        def hook(_: nn.Module, __: Any, output: Any) -> None:
            first = output[0] if isinstance(output, tuple) and output else output
            if not found and isinstance(first, Tensor) and first.is_floating_point() and not _finite(first):
                found.append(name)

        return hook

    try:
        for name, part in module.named_modules():
            if name and not any(part.children()):
                hooks.append(part.register_forward_hook(look(name)))
        module(**inputs)
    finally:
        for hook in hooks:
            hook.remove()
    return found[0] if found else None


def _finite(tensor: Tensor) -> bool:
    return not tensor.numel() or math.isfinite(float(vector_norm(tensor.detach(), ord=math.inf)))
