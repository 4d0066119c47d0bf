"""Random numbers and choices of tokens and positions, shared by all samplers.

Numbers are drawn on the CPU, in float64, from one generator per sample, so they depend neither on the device nor on the
other samples of a batch.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

__all__ = ["ban", "best", "categorical", "generators", "gumbel", "gumbel_argmax", "nucleus", "uniform", "wide"]

_GUMBEL_ROWS = 16
"""Rows per block of noise: 16 MiB at a vocabulary of 130 000."""


def generators(seed: int | Sequence[int], batch: int) -> list[torch.Generator]:
    """One generator per sample: all with the same seed, or each with its own."""
    seeds = [seed] * batch if isinstance(seed, int) else list(seed)
    return [torch.Generator().manual_seed(number) for number in seeds]


def wide(values: Tensor) -> Tensor:
    """`values` in float64, on the CPU if their own device has no float64."""
    return (values.cpu() if values.device.type == "mps" else values).double()


def uniform(sample: Tensor, random: Sequence[torch.Generator]) -> Tensor:
    """(n,) numbers in [0, 1) for candidates sorted by `sample` (n,), each from its sample's generator."""
    counts = torch.bincount(sample, minlength=len(random)).tolist()
    drawn = [torch.rand(n, generator=g, dtype=torch.float64) for n, g in zip(counts, random, strict=True) if n]
    return torch.cat(drawn) if drawn else torch.empty(0, dtype=torch.float64)


def gumbel(u: Tensor) -> Tensor:
    """Standard Gumbel noise from uniform numbers."""
    return -torch.log(-torch.log(u))


def gumbel_argmax(logits: Tensor, sample: Tensor, temperature: float, random: Sequence[torch.Generator]) -> Tensor:
    """(n,) tokens: argmax of `logits` (n, vocabulary) plus `temperature` × Gumbel noise, in float64.

    That is a draw from softmax(logits / temperature), and the argmax itself at temperature 0, which draws no numbers.
    """
    if temperature == 0:
        return logits.argmax(dim=-1).cpu()
    counts = torch.bincount(sample, minlength=len(random)).tolist()
    tokens = []
    for rows, generator in zip(torch.split(logits, counts), random, strict=True):
        for piece in torch.split(rows, _GUMBEL_ROWS):
            scores = wide(piece)
            u = torch.rand(piece.shape, generator=generator, dtype=torch.float64).to(scores.device)
            tokens.append((scores + temperature * gumbel(u)).argmax(dim=-1).cpu())
    return torch.cat(tokens)


def categorical(logits: Tensor, u: Tensor) -> Tensor:
    """(n,) tokens drawn from softmax(`logits`) (n, vocabulary) by inverting its distribution function at `u` (n,)."""
    heap = torch.softmax(wide(logits), dim=-1).cumsum(dim=-1)
    target = u.to(heap.device)[:, None] * heap[:, -1:]
    return torch.searchsorted(heap, target, right=True)[:, 0].clamp_max(heap.shape[1] - 1).cpu()


def nucleus(logits: Tensor, top_p: float | None = None, top_k: int | None = None) -> Tensor:
    """`logits` (n, vocabulary) with -inf outside the nucleus: first `top_p`, then `top_k`.

    The token that crosses `top_p` is kept, and so is everything as likely as the k-th token.
    """
    if top_p is not None and top_p < 1:
        ordered, order = logits.sort(dim=-1, descending=True, stable=True)
        heap = torch.softmax(ordered, dim=-1).cumsum(dim=-1)
        crossed = torch.nn.functional.pad(heap[:, :-1] > top_p, (1, 0))  # by the previous tokens, so the first is kept
        logits = logits.masked_fill(torch.zeros_like(crossed).scatter(1, order, crossed), -torch.inf)
    if top_k is not None and top_k < logits.shape[-1]:
        kth = logits.topk(top_k, dim=-1).values[:, -1:]
        logits = logits.masked_fill(logits < kth, -torch.inf)
    return logits


def ban(logits: Tensor, ids: Sequence[int]) -> Tensor:
    """A copy of `logits` (n, vocabulary) in which `ids` are impossible."""
    return logits.index_fill(1, torch.tensor(ids, dtype=torch.long, device=logits.device), -torch.inf)


def best(score: Tensor, sample: Tensor, count: Tensor) -> Tensor:
    """(n,) bool: for each sample its `count` (batch,) candidates of highest `score` (n,); of equals the first."""
    keep = torch.zeros(len(score), dtype=torch.bool)
    for number, wanted in enumerate(count.tolist()):
        own = (sample == number).nonzero().flatten()
        order = score[own].argsort(descending=True, stable=True)
        keep[own[order[:wanted]]] = True
    return keep
