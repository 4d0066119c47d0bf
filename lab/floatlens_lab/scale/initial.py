"""The weights a scale model starts from, drawn from torch's generator: seed it first. The same for all four models.

To answer from documents a model has to find a name again and copy what is near it. From unstructured weights that
takes a diffusion model of this size many thousand steps, because neither half is of use before the other is there. So
both start half-made: some heads of the first layer look at their neighbours, and everywhere else queries resemble keys,
what a head reads it writes back, and the output layer resembles the embeddings. Nothing is held fixed afterwards.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn.init import normal_

if TYPE_CHECKING:
    from transformers import PreTrainedModel

__all__ = ["draw_weights"]

_EMBEDDING = 0.5  # standard deviation; with transformers' 0.02 a token drowns in what the first layers add to it
_SHARED = 0.25  # what all embeddings have in common, so a head can attend to positions whatever their tokens
_ALIKE = 0.95  # cosine of a query's and its key's projection
_STRENGTH = 1.5  # how much longer queries are than keys
_OFFSETS = (1, -1, 2, -2)  # places to the left that the first heads of layer 0 look at; negative: to the right
_SHARPNESS = 5.0  # length of what such a head compares, in each of its rotary planes
_WRITTEN = 1.2  # how loud it writes down what it read
_PLANES = 3  # the fastest rotary planes: enough to tell places apart over a few hundred tokens


@torch.no_grad()
def draw_weights(module: PreTrainedModel) -> None:
    """Give every weight of a new Llama or Qwen2 module its first value; norms and biases stay at one and zero."""
    layers: Any = module.base_model.layers
    _draw_matrices(module)
    for layer in layers:
        _match_and_copy(layer.self_attn, depth=2 * len(layers))
    embeddings: Tensor = module.get_parameter("model.embed_tokens.weight")
    width = embeddings.shape[1]
    module.get_parameter("lm_head.weight").copy_(embeddings / (2 * math.sqrt(width)))
    shared = torch.randn(width)
    shared /= shared.norm()
    embeddings.add_(_SHARED * math.sqrt(width) * shared)
    _look_at_neighbours(layers[0].self_attn, module.config.rope_parameters["rope_theta"], shared)
    _look_for_neighbours(layers[1].self_attn, layers[0].self_attn)


def _draw_matrices(module: PreTrainedModel) -> None:
    """Embeddings large, matrices by their width, what an MLP writes to the residual stream small."""
    depth = 2 * module.config.num_hidden_layers
    for name, parameter in module.named_parameters():
        if "embed_tokens" in name:
            normal_(parameter, std=_EMBEDDING)
        elif parameter.ndim == 2 and "lm_head" not in name:
            normal_(parameter, std=(parameter.shape[1] * (depth if "down_proj" in name else 1)) ** -0.5)


def _heads(weight: Tensor, size: int) -> list[Tensor]:
    """The part of each head: views of rows."""
    return [weight[first : first + size] for first in range(0, len(weight), size)]


def _match_and_copy(attention: Any, depth: int) -> None:
    """A token attends to others like itself, and writes down what it finds there."""
    size: int = attention.head_dim
    queries, keys, values = (_heads(getattr(attention, f"{kind}_proj").weight, size) for kind in "qkv")
    outputs = _heads(attention.o_proj.weight.T, size)
    group = len(queries) // len(keys)
    for h, (query, output) in enumerate(zip(queries, outputs, strict=True)):
        other = math.sqrt(1 - _ALIKE**2)
        query.copy_(_STRENGTH * (_ALIKE * keys[h // group] + other * query))
        output.copy_(values[h // group] / math.sqrt(depth))


def _look_at_neighbours(attention: Any, theta: float, shared: Tensor) -> None:
    """The first heads compare places only: their scores are highest at a fixed distance, and what they read is new."""
    size: int = attention.head_dim
    width = len(shared)
    queries, keys = (_heads(getattr(attention, f"{kind}_proj").weight, size) for kind in "qk")
    outputs = _heads(attention.o_proj.weight.T, size)
    group = len(queries) // len(keys)
    seen = _SHARED * math.sqrt(width / (_EMBEDDING**2 + _SHARED**2))  # of `shared`, in an embedding after its norm
    unit = _SHARPNESS / seen * shared
    for key in keys[: -(-len(_OFFSETS) // group)]:
        key.mul_(0.3)
        key[:_PLANES] += unit
    for h, offset in enumerate(_OFFSETS):
        queries[h].mul_(0.3)
        for plane in range(_PLANES):
            turn = offset * theta ** (-2 * plane / size)
            queries[h][plane] += math.cos(turn) * unit
            queries[h][plane + size // 2] -= math.sin(turn) * unit
        normal_(outputs[h], std=_WRITTEN * width**-0.5)


def _look_for_neighbours(attention: Any, before: Any) -> None:
    """The first heads of the next layer find tokens whose neighbour, as written down before, is like the asking one."""
    size: int = attention.head_dim
    queries, keys = (_heads(getattr(attention, f"{kind}_proj").weight, size) for kind in "qk")
    values, outputs = _heads(before.v_proj.weight, size), _heads(before.o_proj.weight.T, size)
    group = len(queries) // len(keys)
    for h in range(len(_OFFSETS)):
        wanted = keys[h // group] @ outputs[h].T @ values[h // group]
        queries[h].copy_(_STRENGTH * wanted / (wanted.std() * math.sqrt(wanted.shape[1])))
