"""The selective scan of Mamba: in numba where it is installed and tensors are on the CPU, otherwise a loop in torch."""

from __future__ import annotations

import math
from functools import cache
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

__all__ = ["plain_scan", "selective_scan"]


def selective_scan(inputs: Tensor, delta: Tensor, before: Tensor, after: Tensor, decay: Tensor) -> Tensor:
    """y_i = Σ_{j≤i} Σ_n C_i[n] exp(A[n] Σ_{j<k≤i} Δ_k) Δ_j B_j[n] x_j: (batch, position, channel).

    `inputs` (x) and `delta` (Δ) are (batch, position, channel), `before` (B) and `after` (C) (batch, position, state),
    `decay` (A) is (channel, state).
    """
    if inputs.device.type == "cpu" and _has_numba():
        powers = (decay * math.log2(math.e)).T
        found: Tensor = _Scan.apply(inputs, delta, before, after, powers)  # type: ignore[no-untyped-call]
        return found
    return plain_scan(inputs, delta, before, after, decay)


def plain_scan(inputs: Tensor, delta: Tensor, before: Tensor, after: Tensor, decay: Tensor) -> Tensor:
    """The same, one position after another in torch."""
    kept = (delta[..., None] * decay).exp()
    added = (delta * inputs)[..., None] * before[:, :, None]
    state, states = torch.zeros_like(added[:, 0]), []
    for kept_now, added_now in zip(kept.unbind(1), added.unbind(1), strict=True):
        state = torch.addcmul(added_now, kept_now, state)
        states.append(state)
    return torch.einsum("btdn,btn->btd", torch.stack(states, dim=1), after)


@cache
def _has_numba() -> bool:
    return find_spec("numba") is not None


class _Scan(torch.autograd.Function):
    """The kernels as one differentiable function; `decay` is (state, channel), in powers of 2."""

    @staticmethod
    def forward(context: Any, *given: Tensor) -> Tensor:
        from floatlens.models.scan_kernel import scan_forward

        held = [one.detach().contiguous() for one in given]
        wanted = any(context.needs_input_grad)
        out, edges = scan_forward(*(one.numpy() for one in held), edges=wanted)
        if wanted:
            context.save_for_backward(*held, torch.from_numpy(edges))
        return torch.from_numpy(out)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, ...]:
        from floatlens.models.scan_kernel import scan_backward

        (gradient,) = gradients
        inputs, delta, before, after, decay, edges = (one.numpy() for one in context.saved_tensors)
        found = scan_backward(inputs, delta, before, after, decay, edges, gradient.contiguous().numpy())
        return tuple(torch.from_numpy(one) for one in found)
