"""Received contribution (methods §15): how much of each position's mixer output every key accounts for.

The one measure that layers with and without attention share. In attention a head's weights are multiplied by the length
of what a key's value writes, ‖v_j W_O‖, and rows normalised; so a sink with a small value receives little. In Mamba and
convolution layers it is the length of the key's term. Signs are lost in the length.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from floatlens.attention.blocks import Block
from floatlens.attention.mixing import MixerLayer
from floatlens.attention.probe import Layer, Mean, Need, PassState, Probe
from floatlens.attention.softmax import class_columns
from floatlens.attention.variable import HEAD_KEY, Variable
from floatlens.core.errors import FloatlensError
from floatlens.probes.received import group_classes

__all__ = ["Contribution", "ValueNorms"]

_GROUPS = {
    "contribution": "all",
    "contribution_masked": "masked",
    "contribution_committed": "committed",
    "contribution_answer": "answer",
}
_PROJECTIONS = ("o_proj", "out_proj", "Wo", "out_lin", "c_proj", "dense")


class Contribution(Probe):
    """Shares sum to 1 over keys. A layer without heads holds the same numbers at every head."""

    name = "contribution"
    batched = True
    variables = (
        Variable("contribution", HEAD_KEY, "mean", "mean contribution of a key over all queries; sums to 1"),
        Variable("contribution_masked", HEAD_KEY, "mean", "the same over queries that are still masked"),
        Variable("contribution_committed", HEAD_KEY, "mean", "the same over queries that hold a token"),
        Variable("contribution_answer", HEAD_KEY, "mean", "the same over queries in the answer, masked or not"),
        Variable(
            "contribution_flow",
            ("step", "layer", "from_region", "region"),
            "mean",
            "mean contribution of a region's keys to a region's queries, head mean",
        ),
        Variable(
            "contribution_question_flow",
            ("step", "layer", "head", "region"),
            "mean",
            "mean contribution of a region's keys to the question's queries, per head",
        ),
    )
    needs: ClassVar[frozenset[Need]] = frozenset({"mixers"})
    attention_only: ClassVar[bool] = False

    def __init__(self) -> None:
        self._norms = self._columns = torch.empty(0)
        self._written = ValueNorms()

    def prepare(self, shape: Any) -> None:
        self._written = ValueNorms()

    def begin(self, layer: Layer) -> None:
        self._norms = self._written.of(layer)
        size = (*layer.query.shape[:2], len(layer.state.classes.present), layer.key.shape[2])
        self._columns = torch.zeros(size, device=layer.query.device)

    def block(self, layer: Layer, block: Block) -> None:
        classes, at = layer.state.classes, (block.batch, block.heads)
        total = (block.exp @ self._norms[at][:, :, : block.keys, None])[..., 0]
        inverse = torch.where(total > 0, 1 / total, 0.0)
        columns = class_columns(block.exp, inverse, classes, block.batch, block.queries)
        self._columns[(*at, classes.within(block.queries), slice(block.keys))] += columns

    def reads_blocks(self, layer: Layer) -> bool:
        return False

    def key_weights(self, layer: Layer) -> Tensor | None:
        return self._norms

    def weighed_columns(self, layer: Layer, columns: Tensor) -> None:
        self._columns = columns

    def layer(self, layer: Layer) -> Mapping[str, Tensor | Mean]:
        return _reduced(layer.state, self._columns * self._norms[:, :, None])

    def begin_mixer(self, layer: MixerLayer) -> None:
        size = (len(layer.state.ids), len(layer.state.classes.present), layer.terms.positions)
        self._columns = torch.zeros(size, device=layer.terms.device)

    def mixer_block(self, layer: MixerLayer, rows: slice, shares: Tensor) -> None:
        self._columns += layer.state.classes.on(shares.device)[:, :, rows] @ shares

    def mixer(self, layer: MixerLayer) -> Mapping[str, Tensor | Mean]:
        return _reduced(layer.state, self._columns[:, None].expand(-1, layer.heads, -1, -1))


class ValueNorms:
    """How long what each key writes is, ‖v_j W_O‖, in each head of a layer; projections are prepared once."""

    def __init__(self) -> None:
        self._weights: dict[nn.Module, Tensor] = {}

    def of(self, layer: Layer) -> Tensor:
        """(batch, head, key)."""
        assert layer.module is not None
        if layer.module not in self._weights:
            weight = _projection(layer)  # (width, head × dim)
            split = weight.view(len(weight), layer.query.shape[1], -1).transpose(0, 1)
            self._weights[layer.module] = split.transpose(1, 2) @ split  # (head, dim, dim)
        value = layer.value.float().repeat_interleave(layer.query.shape[1] // layer.value.shape[1], 1)
        return ((value @ self._weights[layer.module]) * value).sum(-1).clamp(min=0).sqrt()


def _projection(layer: Layer) -> Tensor:
    """The weight (width, head × dim) by which the layer's attention writes to the residual stream."""
    module = layer.module
    assert module is not None
    parents = [] if layer.root is None else [one for one in layer.root.modules() if module in one.children()]
    width = layer.query.shape[1] * layer.value.shape[-1]
    for place in (module, *(getattr(parent, "output", None) for parent in parents)):
        for name in _PROJECTIONS:
            weight: Any = getattr(getattr(place, name, None), "weight", None)
            if weight is not None:
                transposed = name == "c_proj"  # GPT-2 stores (input, output)
                found: Tensor = (weight.T if transposed else weight).detach().float()
                if found.shape[1] == width:
                    return found
    raise FloatlensError(
        f"{type(module).__name__}: its output projection was not found, so contributions cannot be computed; "
        'leave out the probe "contribution"'
    )


def _reduced(state: PassState, columns: Tensor) -> Mapping[str, Tensor | Mean]:
    """All variables, from contributions (batch, head, class, key) summed over the queries of each class."""
    classes, device = state.classes, columns.device
    unions = classes.union_on([group_classes(state, group) for group in _GROUPS.values()], device)
    keys, by_region, counts = (state.placed(name, device) for name in ("key_member", "by_region", "counts"))
    total, count = (unions @ columns).transpose(1, 2), counts @ unions.T
    found: dict[str, Tensor | Mean] = {
        name: Mean(total[:, i], count[:, i, None, None]) for i, name in enumerate(_GROUPS)
    }
    mass = columns @ keys[:, None]  # (batch, head, class, region)
    question = state.layout.index("question")
    asked = torch.zeros_like(by_region[0]) if question is None else by_region[question]
    return found | {
        "contribution_flow": Mean(by_region @ mass.mean(1), (counts @ by_region.T).unsqueeze(-1)),
        "contribution_question_flow": Mean(torch.einsum("c,bhcr->bhr", asked, mass), (counts @ asked)[:, None, None]),
    }
