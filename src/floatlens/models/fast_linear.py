"""Matrix products of float32 on the CPU by oneDNN; anything else is torch's own.

torch multiplies float32 with MKL, which leaves half the vector width of AMD processors unused. The sums are the same,
in another order.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

__all__ = ["FastLinear", "linear"]


class FastLinear(nn.Linear):
    """`nn.Linear`, computed by `linear`."""

    @classmethod
    def of(cls, given: nn.Linear) -> FastLinear:
        """The same parameters in a module of this class."""
        made = cls(given.in_features, given.out_features, bias=given.bias is not None, device="meta")
        made.weight, made.bias = given.weight, given.bias
        return made

    def forward(self, input: Tensor) -> Tensor:
        return linear(input, self.weight, self.bias)


def linear(inputs: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """inputs (…, in) times weight (out, in), plus bias (out,): (…, out).

    Example: `linear(torch.ones(2, 3), torch.eye(3))`.
    """
    if not _covers(inputs, weight):
        return nn.functional.linear(inputs, weight, bias)
    found: Tensor = _Linear.apply(inputs, weight)  # type: ignore[no-untyped-call]
    return found if bias is None else found + bias


def _covers(inputs: Tensor, weight: Tensor) -> bool:
    plain = all(type(one) in (Tensor, nn.Parameter) for one in (inputs, weight))
    here = all(one.device.type == "cpu" and one.dtype == torch.float32 for one in (inputs, weight))
    return (
        plain
        and here
        and _has_onednn()
        and inputs.ndim > 1
        and inputs.numel() > 0
        and not torch.is_autocast_enabled("cpu")
    )


@cache
def _has_onednn() -> bool:
    here: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    return here and hasattr(torch.ops.mkldnn, "_linear_pointwise")


def _product(rows: Tensor, columns: Tensor) -> Tensor:
    """rows (…, in) times the transpose of columns (out, in)."""
    found: Tensor = torch.ops.mkldnn._linear_pointwise(rows, columns, None, "none", [], "")
    return found


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, inputs: Tensor, weight: Tensor) -> Tensor:
        held = inputs.contiguous()  # with other strides oneDNN falls back to a loop, fifty times as slow
        context.save_for_backward(held, weight)
        return _product(held, weight)

    @staticmethod
    @once_differentiable
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None]:
        inputs, weight = context.saved_tensors
        gradient = gradient.contiguous()
        to_inputs, to_weight = context.needs_input_grad
        of_inputs = _product(gradient, weight.T) if to_inputs else None
        of_weight = _product(gradient.flatten(0, -2).T, inputs.flatten(0, -2).T) if to_weight else None
        return of_inputs, of_weight
