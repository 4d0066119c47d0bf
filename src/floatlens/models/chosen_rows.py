"""Logits at chosen rows only: hooks that let these rows into the head, and no others through the last layer's end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

__all__ = ["chosen_rows", "short_tail"]


@contextmanager
def short_tail(layer: nn.Module | None, needed: Tensor | None) -> Iterator[None]:
    """Spare the last layer the rows that nobody asks for: nothing after its attention mixes positions."""
    if needed is None or layer is None:
        yield
        return

    rows = needed.nonzero().flatten()

    def cut(_: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        return (args[0].index_select(1, rows.to(args[0].device)), *args[1:])

    def put_back(_: nn.Module, __: Any, output: Tensor) -> Tensor:
        whole = output.new_zeros(output.shape[0], len(needed), output.shape[2])
        return whole.index_copy_(1, rows.to(output.device), output)

    parts = [layer.get_submodule(name) for name in ("self_attn.o_proj", "mlp")]
    hooks = [part.register_forward_pre_hook(cut) for part in parts]
    hooks += [part.register_forward_hook(put_back) for part in parts]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


@contextmanager
def chosen_rows(head: nn.Module | None, rows: Tensor | None) -> Iterator[None]:
    """Let only the chosen rows into the head, by a hook that is gone afterwards.

    One way for every class: `logits_to_keep` exists in causal classes only, and not in all of them. A 2-D choice
    arrives as a batch of one, since heads may expect three dimensions.
    """
    if rows is None or head is None:
        yield
        return
    calls = 0

    def keep(_: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        nonlocal calls
        calls += 1
        states: Tensor = args[0]
        at = rows.to(states.device)
        return (states[at][None] if at.ndim == 2 else states[:, at], *args[1:])

    hook = head.register_forward_pre_hook(keep)
    try:
        yield
    finally:
        hook.remove()
    if calls != 1:
        raise RuntimeError(f"{type(head).__name__} (the head) ran {calls} times in one pass, not once")
