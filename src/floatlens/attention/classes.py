"""Query classes: queries by region and by whether they are masked. Each query group is a union of such classes.

Column sums are computed once per class; statistics over query groups are combined from them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["QueryClasses"]


class QueryClasses:
    """The query classes of a pass: class 2r is region r with a token in place, 2r + 1 the same masked.

    `of` is (batch, query), -1 for padding; `present` lists the classes that occur; all else is in its order.
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

    def union(self, classes: Sequence[Sequence[int]]) -> Tensor:
        """(union, class): 1 where a present class belongs to the union."""
        return torch.from_numpy(np.stack([np.isin(self.present, list(c)) for c in classes]).astype(np.float32))

    @cached_property
    def by_region(self) -> Tensor:
        """(region, class): 1 where a class lies in a region."""
        return self.union([(2 * r, 2 * r + 1) for r in range(self.regions)])

    def within(self, queries: slice) -> slice:
        """The shortest slice of `present` that covers all queries of a block."""
        span = self._spans.get((queries.start, queries.stop))
        if span is None:
            some = np.flatnonzero(self.member[:, :, queries].sum((0, 2)).numpy())
            span = slice(int(some[0]), int(some[-1]) + 1) if len(some) else slice(0, 0)
            self._spans[queries.start, queries.stop] = span
        return span
