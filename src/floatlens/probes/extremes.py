"""Norms that single tokens out (methods §11): value states |v| per key/value head, and the residual stream |x|."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from floatlens.attention.probe import Layer, Mean, Need, Probe, register

__all__ = ["Extremes"]


@register
class Extremes(Probe):
    """|x| is that of the state which enters the layer, before its norm."""

    name = "extremes"
    needs: ClassVar[frozenset[Need]] = frozenset({"residual"})

    def layer(self, layer: Layer) -> Mapping[str, Tensor | Mean]:
        assert layer.residual is not None
        return {
            "value_norm": torch.linalg.vector_norm(layer.value.float(), dim=-1),
            "residual_norm": torch.linalg.vector_norm(layer.residual.float(), dim=-1),
        }
