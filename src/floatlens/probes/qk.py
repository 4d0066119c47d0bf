"""Column means of q·k, its angle and its norms (methods §4), in O(T·d) per head: no (query, key) product is formed.

mean_i q_i·k_j = q̄·k_j, so only means of queries are needed; with a causal mask, means over the queries that see key j.
Full q·k heatmaps are kept only for selected layers, heads and steps.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from floatlens.attention.mask import BlockMask
from floatlens.attention.probe import Layer, Mean
from floatlens.attention.select import Select
from floatlens.attention.variable import HEAD_KEY, HEAD_QUERY, KV_HEAD_KEY, Variable
from floatlens.probes.matrix import Snapshot, matrices

__all__ = ["QK"]


class QK(Snapshot):
    """Raw products after rotary, before the 1/√d scale; means over the queries that see the key.

    `QK(heatmaps=Select(layers=0, heads=[0, 3], steps=[0, -1]))` also keeps the full q·k of those as `qk_matrix`.
    """

    name = "qk"
    variables = (
        Variable("qk_dot", HEAD_KEY, "mean", "mean over the queries that see the key of q·k, after rotary, unscaled"),
        Variable("qk_cos", HEAD_KEY, "mean", "the same of the cosine between q and k"),
        Variable("qk_norm", HEAD_KEY, "mean", "the same of |q||k|"),
        Variable("key_norm", KV_HEAD_KEY, "replace", "|k| after rotary"),
        Variable("query_norm", HEAD_QUERY, "append", "|q| after rotary"),
        matrices("qk_matrix", "q·k of every query and key, where asked for"),
    )

    def __init__(self, heatmaps: Select | None = None, max_bytes: int = 256 << 20) -> None:
        super().__init__(heatmaps, max_bytes)

    def layer(self, layer: Layer) -> Mapping[str, Tensor | Mean]:
        if layer.index in self.chosen_layers:
            per_head = layer.query.shape[1] // layer.key.shape[1]
            heads = list(self.chosen_heads)
            keys = layer.key[:, [h // per_head for h in heads]].float()
            self.keep(layer, layer.query[:, heads].float() @ keys.transpose(2, 3))
        query, key = layer.query.float(), layer.key.float()
        key_norm = torch.linalg.vector_norm(key, dim=-1)
        query_norm = torch.linalg.vector_norm(query, dim=-1)
        real = torch.from_numpy(layer.state.real.astype(np.float32)).to(query.device)[:, None]
        if layer.mask.rule is not None or layer.mask.explicit is not None:
            dot, cos, norm, weight = _ruled_sums(query, query_norm, real, key, layer.mask)
        else:
            sums = _causal_sums if layer.mask.causal and layer.state.queries > 1 else _plain_sums
            dot, cos, norm, weight = sums(query, query_norm, real, key)
        if layer.mask.padding is not None:  # no query sees a padded key, so its mean is undefined: 0 / 0
            kept = layer.mask.padding[:, None].float()
            dot, cos, norm, weight = dot * kept, cos * kept, norm * kept, weight * kept
        floor = key_norm.clamp(min=torch.finfo(torch.float32).tiny)
        per_head = query.shape[1] // key.shape[1]
        return {
            "qk_dot": Mean(dot, weight),
            "qk_cos": Mean(cos / floor.repeat_interleave(per_head, 1), weight),
            "qk_norm": Mean(norm * key_norm.repeat_interleave(per_head, 1), weight),
            "key_norm": key_norm,
            "query_norm": query_norm,
        }


def _plain_sums(query: Tensor, query_norm: Tensor, real: Tensor, key: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Sums over all real queries of q·k, q̂·k and |q|, and the number of queries."""
    unit = real / query_norm.clamp(min=torch.finfo(torch.float32).tiny)
    picks = torch.stack([real.expand_as(unit), unit], dim=2)
    summed = picks.flatten(0, 1) @ query.flatten(0, 1)
    grouped = summed.reshape(len(key) * key.shape[1], -1, key.shape[-1])  # each head with its key/value head
    products = (grouped @ key.flatten(0, 1).transpose(1, 2)).view(*query.shape[:2], 2, -1)
    norm = (query_norm * real).sum(-1, keepdim=True).expand(-1, -1, key.shape[2])
    weight = real.sum(-1, keepdim=True).expand(-1, -1, key.shape[2])
    return products[:, :, 0], products[:, :, 1], norm, weight


def _causal_sums(query: Tensor, query_norm: Tensor, real: Tensor, key: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The same over the queries that see each key: reverse cumulative sums, since query i sees keys up to its own."""
    weighted = query * real.unsqueeze(-1)
    unit = weighted / query_norm.clamp(min=torch.finfo(torch.float32).tiny).unsqueeze(-1)
    cached = key.shape[2] - query.shape[2]
    per_head = query.shape[1] // key.shape[1]
    keys = key.repeat_interleave(per_head, 1)

    def tail(x: Tensor) -> Tensor:
        """Σ_{i ≥ j} x_i for every key j, along dim 2."""
        sums = x.flip(2).cumsum(2).flip(2)
        return torch.cat([sums[:, :, :1].expand(-1, -1, cached, *sums.shape[3:]), sums], dim=2)

    dot = (tail(weighted) * keys).sum(-1)
    cos = (tail(unit) * keys).sum(-1)
    return dot, cos, tail(query_norm * real), tail(real)


def _ruled_sums(
    query: Tensor, query_norm: Tensor, real: Tensor, key: Tensor, mask: BlockMask
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The same under any other mask (a sliding window), from the visibility matrix of each block of queries."""
    batch, heads, queries, dim = query.shape
    unit = query / query_norm.clamp(min=torch.finfo(torch.float32).tiny).unsqueeze(-1)
    both = torch.cat([query, unit, query_norm.unsqueeze(-1)], dim=-1) * real.unsqueeze(-1)
    sums = torch.zeros(batch, heads, key.shape[2], both.shape[-1], device=query.device)
    weight = torch.zeros(batch, 1, key.shape[2], device=query.device)
    for start in range(0, queries, 256):
        rows = slice(start, min(start + 256, queries))
        seen = mask.visible(rows.start, rows.stop, batch, query.device).float()
        sums += seen.transpose(2, 3) @ both[:, :, rows]
        weight += (seen * real[:, :, rows, None]).sum(2)[:, :1]
    keys = key.repeat_interleave(heads // key.shape[1], 1)
    return (sums[..., :dim] * keys).sum(-1), (sums[..., dim:-1] * keys).sum(-1), sums[..., -1], weight
