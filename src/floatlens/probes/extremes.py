"""Norms by token (methods §11): value states |v| per key/value head, and the residual stream |x|."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from floatlens.attention.probe import Layer, Mean, Need, Probe
from floatlens.attention.variable import KV_HEAD_KEY, Variable

__all__ = ["Extremes"]


class Extremes(Probe):
    """|x| is the norm of the state that enters the layer, before its normalisation."""

    name = "extremes"
    batched = True
    variables = (
        Variable("value_norm", KV_HEAD_KEY, "replace", "|v|"),
        Variable("residual_norm", ("step", "layer", "key"), "append", "|x| of the state that enters the layer"),
    )
    needs: ClassVar[frozenset[Need]] = frozenset({"residual"})

    def layer(self, layer: Layer) -> Mapping[str, Tensor | Mean]:
        assert layer.residual is not None
        return {
            "value_norm": torch.linalg.vector_norm(layer.value.float(), dim=-1),
            "residual_norm": torch.linalg.vector_norm(layer.residual.float(), dim=-1),
        }
