"""What a server saves whose cache keeps keys and values: counted per token, from the layers that compute it."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from floatlens.models.base import LanguageModel
from floatlens.models.readout import layers_of

__all__ = ["CacheSavings", "costs_of", "saved_share", "saved_shares"]

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]


class CacheSavings:
    """Running means over passes and samples; `row` and `key` are the costs of `costs_of`.

    `begin` opens a pass, `take` says of each layer in it which positions it computes, and `end` counts the pass.
    """

    def __init__(self, layers: int = 1, costs: tuple[float, float] = (1.0, 0.0)) -> None:
        self.layers, self.costs = layers, costs
        self._all: list[float] = []
        self._refreshed: list[float] = []
        self._run: list[Floats] = []
        self._real: Bools = np.zeros((0, 0), dtype=bool)
        self._writing: Bools = np.zeros(0, dtype=bool)
        self._needed: Bools = np.zeros((0, 0), dtype=bool)
        self._fresh: Bools | None = None
        self._first = True

    def start(self) -> None:
        """A new run begins."""
        self.end()
        self._run, self._first = [], True

    def begin(self, real: Bools, needed: Bools, writing: Bools) -> None:
        """A pass over `real` (batch, key) tokens. `needed` (batch, key) are those whose output is read, such as masks;
        samples that are not `writing` (batch,) any more do not count."""
        self.end()
        self._real, self._needed, self._writing = real, needed, writing
        self._fresh = np.ones((self.layers, *real.shape), dtype=bool)

    def take(self, layer: int, fresh: Bools) -> None:
        """(batch, key): the positions that a layer computes; layers that are not shown compute all."""
        assert self._fresh is not None
        self._fresh[layer] = fresh

    def end(self) -> None:
        """Count the open pass, if there is one."""
        if self._fresh is None:
            return
        fresh, self._fresh = self._fresh, None
        shares = np.full(len(self._real), np.nan)
        for sample in np.flatnonzero(self._writing & self._real.any(1)):
            real = self._real[sample]
            own = fresh[:, sample, real]
            shares[sample] = saved_shares(own, *self.costs, self._needed[sample, real]).mean()
            if not self._first:
                self._refreshed.append(float(own.all(1).mean()))
        self._all += shares[~np.isnan(shares)].tolist()
        self._run.append(shares)
        self._first = False

    def numbers(self) -> dict[str, float]:
        """ "saved": share of a pass's multiplications that a server would not do, mean over all steps; "refreshed":
        share of the layers that are computed as a whole, mean over the steps after the first."""
        self.end()
        found = {"saved": self._all, "refreshed": self._refreshed}
        return {name: float(np.mean(values)) for name, values in found.items() if values}

    def of_samples(self) -> list[float]:
        """For each sample of the latest run the share that is saved, mean over its steps; NaN where it has none."""
        return [total / n if n else float("nan") for total, n in self._totals()]

    def passes_of_samples(self) -> list[float]:
        """The same in passes: the sum of the shares over the steps of each sample; NaN where it has none."""
        return [total if n else float("nan") for total, n in self._totals()]

    def _totals(self) -> list[tuple[float, int]]:
        """For each sample of the latest run the sum of the shares, and the number of its steps."""
        self.end()
        if not self._run:
            return []
        shares = np.stack(self._run)
        return list(zip(np.nansum(shares, 0).tolist(), (~np.isnan(shares)).sum(0).tolist(), strict=True))


def saved_shares(fresh: Bools, row: float, key: float, needed: Bools) -> Floats:
    """(token,): `saved_share` of tokens, from the layers (layer, token) that compute each of them; the whole row of a
    token is done where its output is `needed` (token,), or all its layers compute it."""
    layers = len(fresh)
    deepest = np.where(fresh.any(0), layers - 1 - np.argmax(fresh[::-1], axis=0), 0)
    rows = np.where(needed | fresh.all(0), layers, deepest)
    return np.asarray(1 - (row * rows + key * fresh.sum(0)) / (layers * (row + key)), dtype=np.float64)


def saved_share(stale: Collection[int], layers: int, row: float, key: float) -> float:
    """The share of a token's multiplications that are saved where its keys and values are stale in some layers.

    `row` and `key` are the costs of a layer for a token: its whole row (query, attention, output, MLP), and its key and
    value. A row is needed up to the deepest layer whose keys are fresh, since its state enters that layer; where none
    is stale, nothing is saved.

    Example: `saved_share({0, 1, 2, 3}, 4, row=3.0, key=1.0)  # 1.0: the token is not computed at all`
    """
    fresh = np.array([[layer not in stale] for layer in range(layers)])
    return float(saved_shares(fresh, row, key, np.zeros(1, dtype=bool))[0])


def costs_of(model: LanguageModel) -> tuple[float, float]:
    """Multiplications per token in a layer, without those that grow with the length: its row, and its key and value."""
    layers = layers_of(model.module).values()
    sizes = [sum(part.numel() for part in layer.parameters() if part.ndim >= 2) for layer in layers]
    config = model.module.config
    width = int(config.hidden_size)
    head = int(getattr(config, "head_dim", None) or width // model.num_heads)
    key = 2.0 * width * head * model.num_kv_heads
    return max(1.0, float(np.mean(sizes)) - key), key
