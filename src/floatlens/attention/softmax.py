"""The softmax of a block: weights, row entropies and column sums from logits.

A fused numba kernel on CPUs where numba is installed, torch operations elsewhere. Weights stay unnormalised; users
multiply them by 1/Z.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from functools import cache, cached_property
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from floatlens.attention.host import moved
from floatlens.attention.mask import HIDDEN
from floatlens.core.errors import FloatlensError

__all__ = ["LOG2E", "QueryClasses", "Workspace", "class_columns", "softmax_block"]

LOG2E = math.log2(math.e)
BlockSoftmax = tuple[Tensor, Tensor, Tensor | None, Tensor | None, Tensor]


class QueryClasses:
    """The query classes of a pass: class 2r is region r with a token in place, 2r + 1 the same masked.

    `of` is (batch, query), -1 for padding; `present` lists the classes that occur; all else is in its order. Column
    sums are computed once per class; each query group is a union of classes.
    """

    def __init__(self, of: NDArray[np.int64], regions: int) -> None:
        found, first = np.unique(of, return_index=True)
        order = np.argsort(first % of.shape[1])  # by position, so the classes of a block are neighbours
        self.present = np.array([c for c in found[order] if c >= 0], dtype=np.int64)
        self.regions = regions
        member = of[:, None, :] == self.present[None, :, None]
        self.index = np.where(member.any(1), member.argmax(1), -1).astype(np.int32)
        """(batch, query): index of a query's class in `present`, -1 for padding."""
        self.member = torch.from_numpy(member.astype(np.float32))
        """(batch, class, query): 1 where a query is of a class."""
        self.counts = self.member.sum(-1)
        """(batch, class): number of queries of each class."""
        self._spans: dict[tuple[int, int], slice] = {}
        self._placed: dict[torch.device, Tensor] = {}
        self._unions: dict[tuple[object, torch.device], Tensor] = {}

    def on(self, device: torch.device) -> Tensor:
        """`member` on a device; it is moved there once."""
        if device not in self._placed:
            self._placed[device] = moved(self.member, device)
        return self._placed[device]

    def union(self, classes: Sequence[Sequence[int]]) -> Tensor:
        """(union, class): 1 where a present class belongs to the union."""
        return torch.from_numpy(np.stack([np.isin(self.present, list(c)) for c in classes]).astype(np.float32))

    def union_on(self, classes: Sequence[Sequence[int]], device: torch.device) -> Tensor:
        """The same on a device; it is moved there once."""
        key = (tuple(tuple(one) for one in classes), device)
        if key not in self._unions:
            self._unions[key] = moved(self.union(classes), device)
        return self._unions[key]

    @cached_property
    def by_region(self) -> Tensor:
        """(region, class): 1 where a class lies in a region."""
        return self.union([(2 * r, 2 * r + 1) for r in range(self.regions)])

    def within(self, queries: slice) -> slice:
        """The shortest slice of `present` that covers all queries of a block."""
        span = self._spans.get((queries.start, queries.stop))
        if span is None:
            some = np.unique(self.index[:, queries])
            some = some[some >= 0]
            span = slice(int(some[0]), int(some[-1]) + 1) if len(some) else slice(0, 0)
            self._spans[queries.start, queries.stop] = span
        return span


class Workspace:
    """Buffers that all blocks of all layers reuse, the block shape that fits them, and the softmax kernel.

    `kernel` (or FLOATLENS_KERNEL) is "numba", "torch", or "auto": numba where it is installed. `keep_bytes` limits how
    much of a layer is kept while an edit previews all rows of a head.
    """

    def __init__(
        self, block_bytes: int = 8 << 20, rows: int = 256, kernel: str | None = None, keep_bytes: int = 64 << 20
    ) -> None:
        self.block_bytes = block_bytes
        self.keep_bytes = keep_bytes
        self.rows = rows
        self.fused = _fused_kernel(kernel or os.environ.get("FLOATLENS_KERNEL", "auto"))
        self._buffers: dict[tuple[str, torch.device], Tensor] = {}

    def shape(self, queries: int, keys: int, groups: int, keep: bool = False) -> tuple[int, int]:
        """(rows, units): the number of queries, and of (sample, key/value head) pairs, in one block.

        A block may be twice as large where that gives each thread a head of its own. With `keep` all rows of the units
        must fit into `keep_bytes`.
        """
        row = 4 * keys * groups
        rows = min(queries, self.rows, max(16, self.block_bytes // row))
        units = max(1, self.block_bytes // (row * rows))
        threads = torch.get_num_threads()
        units = units if units >= threads else max(units, min(threads, 2 * self.block_bytes // (row * rows)))
        return rows, max(1, min(units, self.keeps(queries, keys, groups))) if keep else units

    def keeps(self, queries: int, keys: int, groups: int) -> int:
        """How many (sample, key/value head) pairs can be kept whole, possibly 0."""
        return self.keep_bytes // (4 * queries * keys * groups)

    def buffer(self, name: str, shape: Sequence[int], device: torch.device) -> Tensor:
        size = math.prod(shape)
        held = self._buffers.get((name, device))
        if held is None or held.numel() < size:
            with torch.inference_mode(False):  # it must be writable outside inference mode too
                held = torch.empty(size, device=device)
            self._buffers[name, device] = held
        return held[:size].view(tuple(shape))

    def copy(self, name: str, source: Tensor) -> Tensor:
        """The source in float32 and contiguous, in a buffer of that name."""
        return self.buffer(name, source.shape, source.device).copy_(source)


@cache
def _fused_kernel(kernel: str) -> Callable[..., None] | None:
    if kernel not in ("auto", "numba", "torch"):
        raise FloatlensError(f'kernel "{kernel}" (FLOATLENS_KERNEL): give numba, torch or auto')
    installed = find_spec("numba") is not None
    if kernel == "numba" and not installed:
        raise FloatlensError('kernel "numba" was requested and numba is not installed; pip install "floatlens[fast]"')
    if kernel == "torch" or not installed:
        return None
    threads = torch.get_num_threads()
    from floatlens.attention import fused

    torch.set_num_threads(threads)  # numba's OpenMP pool may share torch's runtime and set it back to all cores
    return fused.softmax_rows


def softmax_block(
    logits: Tensor,
    classes: QueryClasses | None,
    batch: slice,
    queries: slice,
    with_entropy: bool,
    workspace: Workspace,
    finite: bool = True,
) -> BlockSoftmax:
    """(exp, 1 / row sums, row entropy in nats, column sums per class, largest logit of each row) of a block's logits.

    Entropy and column sums are None where they are not requested; the logits (batch, head, query, key) are overwritten.
    Each row is shifted by its maximum and changed to base 2 in one fused multiply-add, so the largest weights carry no
    rounding of large logits. A row that sees no key has weight 0 everywhere.
    """
    if workspace.fused is not None and finite and logits.device.type == "cpu" and logits.is_contiguous():
        return _fused(workspace.fused, logits, classes, batch, queries, with_entropy)
    exp, inverse, entropy, top = _by_torch(logits, with_entropy, workspace)
    columns = None if classes is None else class_columns(exp, inverse, classes, batch, queries)
    return exp, inverse, entropy, columns, top


def class_columns(exp: Tensor, inverse: Tensor, classes: QueryClasses, batch: slice, queries: slice) -> Tensor:
    """Sums of the weights over the block's queries of each class: (batch, head, class, key)."""
    samples, heads, rows, keys = exp.shape
    picks = classes.on(exp.device)[batch, classes.within(queries), queries]
    scaled = picks.unsqueeze(1) * inverse.unsqueeze(2)
    flat = torch.bmm(scaled.reshape(samples * heads, -1, rows), exp.reshape(samples * heads, rows, keys))
    return flat.view(samples, heads, -1, keys)


def _by_torch(logits: Tensor, with_entropy: bool, workspace: Workspace) -> tuple[Tensor, Tensor, Tensor | None, Tensor]:
    top = logits.amax(-1, keepdim=True).clamp_(min=HIDDEN / 2)
    shift = top * -LOG2E
    base2 = torch.add(shift, logits, alpha=LOG2E, out=logits)
    exp = torch.exp2(base2, out=workspace.buffer("exp", logits.shape, logits.device) if with_entropy else logits)
    total = exp.sum(-1)
    inverse = torch.where(total > 0, 1 / total, 0.0)
    if not with_entropy:
        return exp, inverse, None, top.squeeze(-1)
    mean = base2.mul_(exp).sum(-1).mul_(inverse)
    entropy = total.log2().sub_(mean).mul_(1 / LOG2E)
    return exp, inverse, torch.where(total > 0, entropy, 0.0).clamp_(min=0.0), top.squeeze(-1)


def _fused(
    kernel: Callable[..., Any],
    logits: Tensor,
    classes: QueryClasses | None,
    batch: slice,
    queries: slice,
    with_entropy: bool,
) -> BlockSoftmax:
    samples, heads, rows, keys = logits.shape
    threads = torch.get_num_threads()
    parts = min(rows, max(1, -(-threads // (samples * heads))))
    span = slice(0, 0) if classes is None else classes.within(queries)
    inverse, entropy, top = torch.empty(3, samples, heads, rows).unbind(0)
    columns = torch.zeros(samples, heads, parts, span.stop - span.start, keys)
    index = None if classes is None else classes.index[batch, queries] - span.start
    kernel(logits, index, inverse, entropy, top, columns, threads)
    summed = None if classes is None else columns[:, :, 0] if parts == 1 else columns.sum(2)
    return logits, inverse, entropy if with_entropy else None, summed, top
