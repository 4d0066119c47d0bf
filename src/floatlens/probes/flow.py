"""Attention between regions: from the queries of one region to the keys of another (methods §6 `qr`, §7)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from floatlens.attention.probe import Layer, Mean, Need, Probe
from floatlens.attention.variable import Variable

__all__ = ["Flow"]


class Flow(Probe):
    """Each row sums to 1 over `region`: the mean mass that a query of `from_region` puts on each region's keys."""

    name = "flow"
    batched = True
    variables = (
        Variable(
            "flow", ("step", "layer", "from_region", "region"), "mean", "mean mass from a region's queries, head mean"
        ),
        Variable("question_flow", ("step", "layer", "head", "region"), "mean", "the same from the question, per head"),
    )
    needs: ClassVar[frozenset[Need]] = frozenset({"columns"})

    def layer(self, layer: Layer) -> Mapping[str, Tensor | Mean]:
        state, columns = layer.state, layer.columns
        assert columns is not None
        keys, by_region, of_class = (state.placed(n, columns.device) for n in ("key_member", "by_region", "counts"))
        mass = columns @ keys.unsqueeze(1)  # (batch, head, class, region)
        counts = of_class @ by_region.T
        total = by_region @ mass.mean(1)
        question = state.layout.index("question")
        asked = torch.zeros_like(by_region[0]) if question is None else by_region[question]
        asked_count = of_class @ asked
        return {
            "flow": Mean(total, counts.unsqueeze(-1)),
            "question_flow": Mean(torch.einsum("c,bhcr->bhr", asked, mass), asked_count[:, None, None]),
        }
