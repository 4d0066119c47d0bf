"""Column means of q·k, its angle and its norms (methods §4), in O(T·d) per head: no (query, key) product is formed.

mean_i q_i·k_j = q̄·k_j, so only means of queries are needed; with a causal or block-causal mask, means over the
queries that see key j. Full q·k heatmaps are kept only for selected layers, heads and steps.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from floatlens.attention.host import moved
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
        self.batched = heatmaps is None

    def layer(self, layer: Layer) -> Mapping[str, Tensor | Mean]:
        if layer.index in self.chosen_layers:
            per_head = layer.query.shape[1] // layer.key.shape[1]
            heads = list(self.chosen_heads)
            keys = layer.key[:, [h // per_head for h in heads]].float()
            self.keep(layer, layer.query[:, heads].float() @ keys.transpose(2, 3))
        query, key = layer.query.float(), layer.key.float()
        key_norm = torch.linalg.vector_norm(key, dim=-1)
        query_norm = torch.linalg.vector_norm(query, dim=-1)
        real = layer.state.placed("real", query.device)[:, None]
        first = _first_rows(layer)
        if first is not None:
            dot, cos, norm, weight = _ordered_sums(query, query_norm, real, key, first)
        elif layer.mask.irregular:
            dot, cos, norm, weight = _ruled_sums(query, query_norm, real, key, layer.mask)
        else:
            dot, cos, norm, weight = _plain_sums(query, query_norm, real, key)
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


def _first_rows(layer: Layer) -> Tensor | None:
    """(batch or 1, key): the first row that sees each key, where all later rows do too (causal and block-causal masks);
    None for every other mask, and where all rows see the same keys."""
    mask, blocks = layer.mask, layer.mask.blocks
    if blocks is not None and blocks.together is None:
        of = moved(blocks.blocks, layer.query.device)
        return (torch.searchsorted(of, of) - blocks.offset).clamp(min=0)
    if mask.causal and layer.state.queries > 1:
        return torch.arange(-layer.state.offset, layer.state.queries, device=layer.query.device).clamp(min=0)[None]
    return None


def _ordered_sums(
    query: Tensor, query_norm: Tensor, real: Tensor, key: Tensor, first: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The same over the queries that see each key: sums over the rows from `first` (batch or 1, key) on."""
    weighted = query * real.unsqueeze(-1)
    unit = weighted / query_norm.clamp(min=torch.finfo(torch.float32).tiny).unsqueeze(-1)
    keys = key.repeat_interleave(query.shape[1] // key.shape[1], 1)

    def tail(x: Tensor) -> Tensor:
        """Σ of x over the rows that see a key, for every key; x is (batch, head or 1, query) or has a dim more."""
        sums = x.flip(2).cumsum(2).flip(2)
        if len(first) == 1:
            return sums.index_select(2, first[0])
        return torch.stack([sums[i].index_select(1, at) for i, at in enumerate(first)])

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
