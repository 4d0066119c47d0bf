"""`AblateHeads`: chosen heads no longer attend; with `matched_random`, as many others in the same layers instead.

    zero      the head has no output
    mean      every row becomes the mean row, so the output is its mean over positions, the same everywhere
    uniform   every row is uniform over the keys it can see (as in [Wu]'s code)

The mean is over the real rows of the pass; for an autoregressive model over the rows up to and including each one.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import index
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from floatlens.attention.blocks import Block
from floatlens.attention.edit import Site
from floatlens.attention.probe import Layer, Shape
from floatlens.attention.select import Select
from floatlens.attention.setting import ControlKind, Setting, read_heads, read_whole, read_word
from floatlens.attention.softmax import QueryClasses
from floatlens.core.errors import FloatlensError, did_you_mean
from floatlens.edits.fast_path import replace_rows, scale_heads, uniform_rows
from floatlens.edits.row_edit import STRENGTH, RowEdit, Rows
from floatlens.edits.rules import check_seed
from floatlens.models.base import LanguageModel
from floatlens.models.facts import Facts

__all__ = ["AblateHeads"]

Mode = Literal["zero", "mean", "uniform"]
Pair = tuple[int, int]


class AblateHeads(RowEdit):
    """`AblateHeads([(5, 3), (7, 0)])` by (layer, head), or `AblateHeads("retrieval", scores=copy, top=8)`: the highest.

    Heads with NaN scores are never chosen; of equals, the earlier is. Without `scores` the edit can be planned, but not
    run. `strength` a mixes 1 − a of the head's own rows with a of their replacement. After `prepare`, `chosen` lists
    the ablated heads (random ones for a control).

    Example: `fl.edits.AblateHeads(scores=result.estimate("copy").mean, top=4, mode="uniform")`
    """

    title = "Heads ablated"
    about = "chosen heads no longer attend"
    settings = (
        Setting("top", read_whole, 4, instead="heads", about="so many retrieval heads"),
        Setting("heads", read_heads, about="layer.head, several with +, such as 5.3+7.0"),
        Setting("mode", read_word, about="zero, mean or uniform"),
        STRENGTH,
    )
    selects_layers = False
    controls = ("count",)
    edits_weights = True

    def __init__(
        self,
        heads: Iterable[Pair] | Literal["retrieval"] | None = None,
        *,
        scores: ArrayLike | None = None,
        top: int | None = None,
        mode: Mode = "zero",
        matched_random: bool = False,
        seed: int = 0,
        strength: float = 1.0,
        select: Select | None = None,
    ) -> None:
        if mode not in get_args(Mode):
            raise FloatlensError(f'AblateHeads: unknown mode "{mode}"{did_you_mean(str(mode), get_args(Mode))}')
        if heads is None and top is not None:
            heads = "retrieval"
        _check_choice(heads, scores is not None, top)
        self.mode: Mode = mode
        self.top = top
        self.scores = None if scores is None else np.asarray(scores, dtype=np.float64)
        if top is not None and scores is None:
            self.needs = frozenset({"retrieval scores"})
            self.heads: tuple[Pair, ...] = ()
        else:
            self.heads = _highest(self.scores, top) if top is not None else _pairs(heads)
        self.matched_random, self.seed = matched_random, check_seed(self, seed)
        extra: dict[str, Any] = {"matched_random": True, "seed": seed} if matched_random else {}
        chosen = {"heads": "retrieval", "top": top} if self.needs else {"heads": list(self.heads)}
        super().__init__(select, strength, **chosen, mode=mode, **extra)
        self.chosen = self.heads
        self._mean: dict[int, Tensor] = {}
        self._past: dict[int, tuple[Tensor, Tensor]] = {}
        self._open: tuple[Tensor, Tensor] | None = None
        self._prefix: Tensor | None = None

    @property
    def active(self) -> bool:
        return super().active and bool(self.heads or self.needs)

    def control(self, seed: int = 0, kind: ControlKind = "count") -> AblateHeads:
        """The same number of other heads, in the same layers as far as possible."""
        if self.matched_random:
            raise FloatlensError("this AblateHeads is itself a control")
        more: dict[str, Any] = {**self.given, "strength": self.strength, "select": self.select}
        return AblateHeads(**more, matched_random=True, seed=seed)

    def check(self, facts: Facts) -> None:
        super().check(facts)
        self._check_heads(facts.layers, facts.heads)
        total, taken = facts.layers * facts.heads, self.top if self.needs and self.top is not None else len(self.heads)
        if taken * (1 + self.matched_random) > total:
            others = " and as many for the random control" * self.matched_random
            raise FloatlensError(f"AblateHeads: {taken} heads{others} are more than the {total} of {facts.ref}")

    def _check_heads(self, layers: int, heads: int) -> None:
        for layer, head in self.heads:
            if not (0 <= layer < layers and 0 <= head < heads):
                ends = f"layers end at {layers - 1}, heads at {heads - 1}"
                raise FloatlensError(f"AblateHeads: there is no head ({layer}, {head}); {ends}")

    def prepare(self, model: LanguageModel, shape: Shape) -> None:
        super().prepare(model, shape)
        if self.needs:
            raise FloatlensError(
                f"{self!r}: the retrieval heads of {model.ref} are not known; give scores=… (see retrieval_heads)"
            )
        if self.scores is not None and self.scores.shape != (shape.layers, shape.heads):
            wanted = f"{shape.layers} layers × {shape.heads} heads"
            raise FloatlensError(f"AblateHeads: scores are {self.scores.shape} and {model.ref} has {wanted}")
        self._check_heads(shape.layers, shape.heads)
        layers, numbers = self.select.layer_ids(shape.layers), self.select.head_ids(shape.heads)
        within = [(layer, head) for layer in layers for head in numbers]
        self.chosen = _others(self.heads, within, self.seed) if self.matched_random else self.heads

    def heads_of(self, layer: Layer) -> tuple[int, ...]:
        mine = {head for at, head in self.chosen if at == layer.index}
        return tuple(h for h in super().heads_of(layer) if h in mine)

    def acts(self, layer: Layer) -> bool:
        return bool(self.heads_of(layer)) and (self._runs_on(layer) or super().acts(layer))

    def forget(self) -> None:
        self._mean.clear()
        self._past.clear()

    def wants_preview(self, layer: Layer) -> bool:
        return self.mode == "mean" and not layer.state.causal and self.acts(layer)

    def preview(self, layer: Layer, received: Tensor, batch: slice, heads: slice) -> None:
        mean = self._mean.get(layer.index)
        if mean is None or mean.shape[-1] != received.shape[-1]:  # a layer may be shown in parts; blocks are appended
            mean = self._mean[layer.index] = received.new_zeros(*layer.query.shape[:2], received.shape[-1])
        mean[batch, heads] = received

    def begin_layer(self, layer: Layer) -> None:
        super().begin_layer(layer)
        if self._runs_on(layer) and self.heads_of(layer):
            self._open = None

    def weights(self, site: Site, weights: Tensor) -> Tensor | None:
        if self._runs_on(site.layer) and (heads := list(self.heads_in(site))):
            self._prefix = self._running(site, heads, weights[:, [h - site.heads.start for h in heads]])
        return super().weights(site, weights)

    def _runs_on(self, layer: Layer) -> bool:
        """Whether the mean is a running mean over rows and steps."""
        return self.mode == "mean" and layer.state.causal

    def _running(self, site: Site, heads: list[int], weights: Tensor) -> Tensor:
        """(batch, head, query, key) of some heads: the mean of the rows up to each one, in place.

        Blocks come in the order of their queries. Rows are added one by one, so the result does not depend on the block
        size or on a cache, to the last bit.
        """
        layer, device = site.layer, weights.device
        if self._open is None:
            shape = (*layer.query.shape[:2], layer.key.shape[2])
            self._open = torch.zeros(shape, device=device), torch.zeros(shape[:2], device=device)
        sums, counts = self._open
        if site.queries.start == 0:  # a layer may be computed twice
            sums[site.batch, heads], counts[site.batch, heads] = 0.0, 0.0
            if layer.state.offset and layer.index in self._past:
                past, number = self._past[layer.index]
                sums[site.batch, heads, : past.shape[-1]] = past[site.batch, heads]
                counts[site.batch, heads] = number[site.batch, heads]
        real = torch.from_numpy(layer.state.real[site.batch, None, site.queries]).to(device)
        keys = weights.shape[-1]
        if not real.all():
            weights *= real[..., None]
        last = sums[site.batch, heads, :keys]
        for row in weights.unbind(2):
            last = row.add_(last)
        number = real.cumsum(2) + counts[site.batch, heads, None]
        sums[site.batch, heads, :keys] = last
        counts[site.batch, heads] = number[:, :, -1]
        return weights.div_(number.clamp(min=1)[..., None])

    def end_layer(self, layer: Layer) -> None:
        if self._open is not None:
            self._past[layer.index], self._open = self._open, None

    def has_fast_path(self, layer: Layer) -> bool:
        if self.mode == "zero":
            return True
        plain = not layer.mask.irregular or (self.mode == "mean" and layer.state.causal)
        return self.strength == 1 and plain

    def edit_block(self, site: Site, block: Block, classes: QueryClasses | None) -> Block:
        mean, heads = None, list(self.heads_in(site))
        if self._runs_on(site.layer) and heads:
            local = [h - site.heads.start for h in heads]
            mean = self._running(site, heads, block.exp[:, local] * block.inverse[:, local, :, None])
        for rows in self.rows(site):
            if self.mode == "zero":
                block, total = scale_heads(block, rows, 1 - self.strength, classes)
                self.count(rows, total * self.strength)
                continue
            if self.mode == "mean":
                new = rows.pick(self._mean[site.layer.index], block.keys) if mean is None else mean[:, :, rows.inside]
                entropy = -torch.xlogy(new, new).sum(-1)
            else:
                new, entropy = uniform_rows(rows.seen(block.keys).float())
            block, moved = replace_rows(block, rows, new, entropy, classes, total=self.mode == "uniform")
            self.count(rows, moved)
        return block

    def change(self, rows: Rows, values: Tensor) -> None:
        if self.mode == "zero":
            self.count(rows, values.sum(-1) * self.strength)
            values *= 1 - self.strength
            return
        self.mix(rows, values, self._instead(rows, values))

    def _instead(self, rows: Rows, values: Tensor) -> Tensor:
        if self.mode == "uniform":
            seen = rows.visible(values.shape[-1]).float()
            return seen / seen.sum(-1, keepdim=True).clamp(min=1) * values.sum(-1, keepdim=True)
        if self._prefix is None or not rows.site.layer.state.causal:
            mean = rows.pick(self._mean[rows.site.layer.index], values.shape[-1]).expand_as(values)
            if not rows.windowed:
                return mean
            mean = mean * rows.visible(values.shape[-1])  # a row never sees more than its mask allows
            return mean / mean.sum(-1, keepdim=True).clamp(min=1e-30) * values.sum(-1, keepdim=True)
        return self._prefix[:, :, rows.inside]


def _check_choice(heads: object, scored: bool, top: int | None) -> None:
    """Heads by number, or the `top` heads by score, but not both."""
    if isinstance(heads, str) and heads != "retrieval":
        raise FloatlensError(f'AblateHeads("{heads}"){did_you_mean(heads, ["retrieval"])}')
    by_score = isinstance(heads, str) or (heads is None and scored)
    by_number = heads is not None and not by_score
    if by_score == (top is None) or by_score == by_number or (scored and by_number):
        raise FloatlensError('AblateHeads: give heads=[(layer, head), …], or "retrieval" with scores and top=N')
    if top is not None and (isinstance(top, bool) or not isinstance(top, int) or top < 0):
        raise FloatlensError(f"AblateHeads(top={top!r}): give a whole number from 0")


def _pairs(heads: Any) -> tuple[Pair, ...]:
    try:
        return tuple(sorted({(index(layer), index(head)) for layer, head in heads}))
    except (TypeError, ValueError):
        raise FloatlensError("AblateHeads: heads is a list of (layer, head), such as [(5, 3), (7, 0)]") from None


def _highest(scores: NDArray[np.float64] | None, top: int | None) -> tuple[Pair, ...]:
    if scores is None or scores.ndim != 2:
        raise FloatlensError("AblateHeads: scores are one number per layer and head, (layer, head)")
    defined = int(np.isfinite(scores).sum())
    if top is None or top > defined:
        raise FloatlensError(f"AblateHeads(top={top}): {defined} heads have a score; give a number from 0 to {defined}")
    order = np.argsort(np.where(np.isfinite(scores), -scores, np.inf), axis=None, kind="stable")[:top]
    return tuple(sorted((int(i) // scores.shape[1], int(i) % scores.shape[1]) for i in order))


def _others(heads: tuple[Pair, ...], within: list[Pair], seed: int) -> tuple[Pair, ...]:
    """As many heads as are given `within` the selected ones, none of them given: in the same layers first."""
    free, heads = [pair for pair in within if pair not in heads], tuple(pair for pair in heads if pair in within)
    if len(free) < len(heads):
        raise FloatlensError(f"AblateHeads: {len(heads)} of {len(within)} heads leave too few for a random control")
    random = np.random.default_rng([seed, len(heads)])
    mixed = [free[i] for i in random.permutation(len(free))]
    wanted = [layer for layer, _ in heads]
    taken: list[Pair] = []
    for layer in sorted(set(wanted)):
        taken += [pair for pair in mixed if pair[0] == layer][: wanted.count(layer)]
    rest = [pair for pair in mixed if pair not in taken]
    return tuple(sorted(taken + rest[: len(heads) - len(taken)]))
