"""When a cache computes keys and values again: at intervals by layer, or as Elastic-Cache does (arXiv 2510.14973).

A rule says, layer by layer of a pass, which positions are computed (`fresh`); all others read what the cache holds.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from floatlens.attention.probe import Layer
from floatlens.attention.run_tracker import PassPosition
from floatlens.edits.row_edit import position_of

__all__ = ["Elastic", "ElasticRandom", "Intervals", "RefreshRule", "attention_rows"]

Bools = NDArray[np.bool_]


class RefreshRule:
    """`start` begins a run; for every layer of a pass, in order of depth, `fresh` is asked and `watch` shown the layer.

    `due` says that the whole layer has to be computed, as in a step that the edit does not reach.
    """

    def start(self) -> None:
        raise NotImplementedError

    def fresh(self, layer: Layer, known: Bools, due: bool) -> Bools:
        """(batch, key): positions to be computed; `known` are those that a cache may keep."""
        raise NotImplementedError

    def watch(self, layer: Layer, before: Tensor | None) -> None:
        """After keys were put in place; `before` are the keys that the layer read in the pass before."""

    def needed(self, masked: Bools) -> Bools:
        """(batch, key): the positions whose output is read, of the masks of a pass."""
        return masked

    def numbers(self) -> dict[str, float]:
        return {}


class Intervals(RefreshRule):
    """Each layer is computed in every n-th step. What was known then is kept until the next time."""

    def __init__(self, steps: Mapping[int, int]) -> None:
        self.steps = dict(steps)
        self._kept: dict[int, tuple[int, Bools]] = {}

    def start(self) -> None:
        self._kept.clear()

    def fresh(self, layer: Layer, known: Bools, due: bool) -> Bools:
        step, kept = position_of(layer).step, self._kept.get(layer.index)
        if due or kept is None or step - kept[0] >= self.steps.get(layer.index, 1):
            self._kept[layer.index] = (step, known)
            return np.ones_like(known)
        return ~_padded(kept[1], known.shape[1])


class Elastic(RefreshRule):
    """The drift test of Elastic-Cache.

    In each layer the most attended token is the known one that the leftmost `window` masks attend to most, all heads
    together. In the next step the attention rows of these tokens (one for each layer, all tested in every layer) are
    compared with those of the step before: the cosine over heads and keys, mean over the tokens. From the layer after
    the first one whose cosine is below `threshold`, all layers are computed. Computed in any case are the masks of the
    window, tokens committed in the step before and the tokens under test. Samples are judged one by one.
    """

    def __init__(self, threshold: float, window: int, layers: tuple[int, ...]) -> None:
        self.threshold, self.window, self.layers = threshold, window, layers
        self._queries: dict[int, Tensor] = {}
        self._pass: PassPosition | None = None
        self._first = True
        self._refreshing: Bools = np.zeros(0, dtype=bool)
        self._asked: Bools = np.zeros((0, 0), dtype=bool)
        self._masked: Bools | None = None
        self._tested: list[list[int]] = []
        self._tops: list[set[int]] = []

    def start(self) -> None:
        self._queries.clear()
        self._pass = self._masked = None
        self._tops = []

    def fresh(self, layer: Layer, known: Bools, due: bool) -> Bools:
        if position_of(layer) is not self._pass:
            self._begin(layer)
        everything = self._everything(layer) | due
        return np.asarray(~known | self._asked | everything[:, None])

    def needed(self, masked: Bools) -> Bools:
        return np.asarray(masked & (masked.cumsum(1) <= self.window))

    def watch(self, layer: Layer, before: Tensor | None) -> None:
        past, now = self._queries.get(layer.index), layer.query.detach().clone()
        for sample in range(len(now)):
            rows = self._tested[sample]
            if rows and before is not None and past is not None and self._tests(sample):
                drift = _similarity(layer, sample, rows, (past, before), (now, layer.key))
                if drift < self.threshold:
                    self._fired(sample, layer)
            self._tops[sample] |= self._most_attended(layer, sample)
        self._queries[layer.index] = now

    def _begin(self, layer: Layer) -> None:
        """A new pass: which positions are computed in all layers."""
        masked = layer.state.masked
        self._first = self._pass is None
        self._pass = position_of(layer)
        self._tested = [[] for _ in masked] if self._first else [sorted(tops) for tops in self._tops]
        self._tops = [set() for _ in masked]
        self._refreshing = np.full(len(masked), self._first)
        self._asked = np.zeros(masked.shape, dtype=bool)
        for sample, row in enumerate(masked):
            self._asked[sample, np.flatnonzero(row)[: self.window]] = True
            self._asked[sample, self._tested[sample]] = True
        if self._masked is not None:
            self._asked |= _padded(self._masked, masked.shape[1]) & ~masked
            self._asked[:, self._masked.shape[1] :] = True  # appended since
        self._masked = masked.copy()

    def _everything(self, layer: Layer) -> Bools:
        """(batch,): whether a sample's layer is computed as a whole."""
        return self._refreshing

    def _tests(self, sample: int) -> bool:
        return not self._refreshing[sample]

    def _fired(self, sample: int, layer: Layer) -> None:
        self._refreshing[sample] = True

    def _most_attended(self, layer: Layer, sample: int) -> set[int]:
        masked, real = layer.state.masked[sample], position_of(layer).real[sample]
        window = np.flatnonzero(masked)[: self.window].tolist()
        known = np.flatnonzero(real & ~masked)
        if not window or not len(known):
            return set()
        received = attention_rows(layer, sample, window, layer.query, layer.key).sum((0, 1)).cpu().numpy()
        return {int(known[received[known].argmax()])}


class ElasticRandom(Elastic):
    """The control: the same test, but every refresh of a layer that it calls for is made in a later step and a random
    layer. In each step each one that is still to be made is made with probability one half."""

    def __init__(self, threshold: float, window: int, layers: tuple[int, ...], seed: int) -> None:
        super().__init__(threshold, window, layers)
        self.seed = seed
        self._owed: list[int] = []
        self._called = self._left = 0
        self._drawn: list[set[int]] = []

    def start(self) -> None:
        self._left += sum(self._owed)
        self._owed = []
        super().start()

    def numbers(self) -> dict[str, float]:
        """ "unmatched": the share of the refreshes called for that were not made before the text was finished."""
        return {"unmatched": (self._left + sum(self._owed)) / self._called} if self._called else {}

    def _begin(self, layer: Layer) -> None:
        super()._begin(layer)
        position = position_of(layer)
        self._owed = self._owed or [0] * len(self._refreshing)
        self._drawn = []
        for sample, mark in enumerate(position.run.fingerprints):
            random = np.random.default_rng([self.seed, mark, position.step])
            count = min(int(random.binomial(self._owed[sample], 0.5)), len(self.layers))
            self._drawn.append({int(one) for one in random.permutation(self.layers)[:count]})
            self._owed[sample] -= count

    def _everything(self, layer: Layer) -> Bools:
        return np.array([self._first or layer.index in drawn for drawn in self._drawn])

    def _fired(self, sample: int, layer: Layer) -> None:
        super()._fired(sample, layer)
        count = sum(one > layer.index for one in self.layers)
        self._owed[sample] += count
        self._called += count


def _similarity(
    layer: Layer, sample: int, rows: list[int], before: tuple[Tensor, Tensor], now: tuple[Tensor, Tensor]
) -> float:
    """Cosine of attention rows with those of the pass before, over heads and keys; mean over the rows."""
    then, later = (attention_rows(layer, sample, rows, *states).transpose(0, 1) for states in (before, now))
    keys = min(then.shape[-1], later.shape[-1])
    first, second = (part[..., :keys].flatten(1).double() for part in (then, later))
    return float(torch.nn.functional.cosine_similarity(first, second, dim=-1).mean())


def attention_rows(layer: Layer, sample: int, rows: list[int], query: Tensor, key: Tensor) -> Tensor:
    """(head, row, key): softmax attention of some rows of one sample, from a layer's queries and keys."""
    heads, device, keys = query.shape[1], query.device, key.shape[2]
    own = key[sample].repeat_interleave(heads // key.shape[1], 0).float()
    logits = (query[sample][:, rows].float() @ own.transpose(-1, -2)) * layer.scaling
    if layer.softcap is not None:
        logits = (logits / layer.softcap).tanh() * layer.softcap
    mask, here = layer.mask, slice(sample, sample + 1)
    alike = not (mask.irregular or mask.causal)
    seen = torch.zeros(heads, len(rows), keys, dtype=torch.bool, device=device)
    for place, row in enumerate(rows[:1] if alike else rows):
        stop = min(keys, mask.key_stop(row + 1))
        part = slice(None) if alike else slice(place, place + 1)
        seen[:, part, :stop] = mask.sees(row, row + 1, here, slice(0, heads), stop, device)[0]
    return logits.masked_fill(~seen, -torch.inf).softmax(-1).nan_to_num(0.0)


def _padded(flags: Bools, width: int) -> Bools:
    """(batch, width): the flags with False for positions that did not exist."""
    return np.pad(flags, ((0, 0), (0, max(0, width - flags.shape[1]))))[:, :width]
