"""Attention between regions: from the queries of one region to the keys of another (methods §6 `qr`, §7)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from floatlens.capture.probe import Layer, Mean, Need, Probe, register

__all__ = ["Flow"]


@register
class Flow(Probe):
    """Each row sums to 1 over `region`: the mean mass that a query of `from_region` puts on each region's keys."""

    name = "flow"
    needs: ClassVar[frozenset[Need]] = frozenset({"columns"})

    def layer(self, layer: Layer) -> Mapping[str, Tensor | Mean]:
        state = layer.state
        member = np.stack([state.key_region == r for r in range(len(state.layout.regions))], axis=-1)
        keys = torch.from_numpy(member.astype(np.float32)).to(layer.query.device)
        batch, heads = layer.query.shape[:2]
        total = torch.zeros(batch, len(state.layout.regions), keys.shape[-1], device=keys.device)
        weight = torch.zeros(batch, len(state.layout.regions), 1, device=keys.device)
        question = state.layout.index("query")
        asked = torch.zeros(batch, heads, keys.shape[-1], device=keys.device)
        asked_weight = torch.zeros(batch, 1, 1, device=keys.device)
        for r in range(len(state.layout.regions)):
            classes = [2 * r, 2 * r + 1]
            if not any(c in layer.columns for c in classes):
                continue
            mass = layer.total(classes) @ keys
            total[:, r] = mass.mean(1)
            weight[:, r] = layer.count(classes)[:, None]
            if r == question:
                asked, asked_weight = mass, layer.count(classes)[:, None, None]
        return {"flow": Mean(total, weight), "question_flow": Mean(asked, asked_weight)}
