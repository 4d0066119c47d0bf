"""From residual states to logits, by whatever a model does after its last layer: final norm, head, scale, cap.

The module itself runs, with its layers replaced by the given states, so no family needs a description of its tail.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from floatlens.core.errors import FloatlensError

if TYPE_CHECKING:
    from floatlens.models.base import LanguageModel

__all__ = ["Readout", "layers_of", "readout"]

Readout = Callable[[Tensor], Tensor]
"""States (n, width) to float32 logits (n, vocabulary)."""
_ATTENTION = re.compile(r"(.*\.\d+)\.(?:self_attn|self_attention|attention|attn)(?:\.|$)")


def layers_of(module: nn.Module) -> dict[str, nn.Module]:
    """The modules whose input is the residual stream, by name: the last numbered ancestor of each attention module."""
    named = dict(module.named_modules())
    found = {match[1]: named[match[1]] for match in map(_ATTENTION.match, named) if match}
    if not found:
        name = type(module).__name__
        raise FloatlensError(
            f"{name}: no layers found to read the residual stream from; leave out the probes extremes and lens"
        )
    return found


@contextmanager
def readout(model: LanguageModel) -> Iterator[Readout]:
    """A function from states that leave a layer to logits; the module is restored afterwards.

    Example: `with readout(model) as read: logits = read(states)`
    """
    lists = dict.fromkeys(name.rpartition(".")[0] for name in layers_of(model.module))
    layers = [
        layer for name in lists for layer in model.module.get_submodule(name).children()
    ]  # also without attention
    given: list[Tensor] = []
    with ExitStack() as stack:
        for layer, extra in _extras(model, layers).items():
            stack.enter_context(_replaced(layer, given, extra))

        def read(states: Tensor) -> Tensor:
            given[:] = [states.to(model.device, model.dtype)[:, None]]
            ids = torch.zeros(len(states), 1, dtype=torch.long)  # a batch of one token each: positions do not matter
            return model.forward(ids, observed=False)[:, 0].float()

        yield read


def _extras(model: LanguageModel, layers: list[nn.Module]) -> dict[nn.Module, tuple[Any, ...] | None]:
    """What each layer returns after its states: None where it returns the states alone, as found in a tiny pass."""
    found: dict[nn.Module, tuple[Any, ...] | None] = {}

    def note(layer: nn.Module, _: Any, output: Any) -> None:
        found[layer] = output[1:] if isinstance(output, tuple) else None

    hooks = [layer.register_forward_hook(note) for layer in layers]
    try:
        model.forward(torch.zeros(1, 1, dtype=torch.long), observed=False)
    finally:
        for hook in hooks:
            hook.remove()
    return found


@contextmanager
def _replaced(layer: nn.Module, given: list[Tensor], extra: tuple[Any, ...] | None) -> Iterator[None]:
    """While it lasts, the layer computes nothing and returns the given states."""
    own = layer.__dict__.get("forward")  # of a library that wraps it, as for several devices

    def forward(*_: Any, **__: Any) -> Any:
        return given[0] if extra is None else (given[0], *extra)

    layer.forward = forward
    try:
        yield
    finally:
        if own is None:
            del layer.forward
        else:
            layer.forward = own
