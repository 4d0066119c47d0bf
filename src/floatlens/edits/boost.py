"""`Boost`: keys of a span get more attention; `BoostRandom` is a control (methods §17).

The exponentials of the span's keys are multiplied by 1 + gain before rows are normalised, so ln(1 + gain) is added to
their logits [PASTA, SpotLight]. `span="dynamics"` finds the keys itself, by how attention rises over depth [PADE].
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from floatlens.attention.edit import Site
from floatlens.attention.mask import HIDDEN
from floatlens.attention.probe import Layer
from floatlens.attention.run_tracker import PassPosition
from floatlens.attention.select import Select
from floatlens.attention.setting import ControlKind, Setting, read_number, read_whole, read_word
from floatlens.core.errors import FloatlensError, did_you_mean
from floatlens.edits.row_edit import RowEdit, Rows, check_rows, position_of, rows_return
from floatlens.edits.rules import check_seed, largest, random_scores

if TYPE_CHECKING:
    from floatlens.prompts.types import Prompt

__all__ = ["SPANS", "Boost", "BoostRandom", "rising_keys"]

SPANS = ("evidence", "gold", "documents", "question", "dynamics")
_DOCUMENT = re.compile(r"doc[1-9]\d*")
_KEYS = 8
"""Keys that "dynamics" chooses where `k` is not given."""
_MOST = 1 - 1e-6
"""The share of a row that a matched gain gives to random keys at most."""
_NOTABLE = 1e-4
"""Attention that a span gains in a row where it has an effect."""


class Boost(RowEdit):
    """`Boost("evidence", gain=1)`: each key of the span counts 1 + gain times in the softmax.

    `span` names tokens of the prompt: "evidence" (the answer in the gold document, else that document), "gold" (all
    gold documents), "documents", "question", or one document, such as "doc3". `characters=(start, stop)` is a part of
    the prompt's text instead. "dynamics" needs no prompt: in each step from the second on it takes the `k` prompt
    tokens whose attention rose most from layer to layer in the step before. `rows="answer"` changes only rows of the
    answer. In `fl.trace` the span is that of its prompt; in `fl.edit`, give `prompts=[…]`, one per sample.

    Example: `fl.trace(model, question="…", documents=["…"], gold=0, edits=[fl.edits.Boost("gold", gain=2)])`
    """

    title = "Attention boosted"
    about = "keys of a span count more in the softmax"
    settings = (
        Setting("span", read_word, "evidence", about=f"{', '.join(SPANS)}, or a document, such as doc3"),
        Setting("gain", read_number, 1.0, about="1 doubles the weight of a key before rows are normalised"),
        Setting("k", read_whole, about=f"keys that dynamics chooses ({_KEYS})"),
        Setting("rows", read_word, about="changed rows: all or answer"),
    )
    controls = ("count", "mass")
    edits_logits = True
    reads_totals = True

    def __init__(
        self,
        span: str | None = None,
        *,
        gain: float = 1.0,
        k: int | None = None,
        characters: tuple[int, int] | None = None,
        rows: str = "all",
        select: Select | None = None,
    ) -> None:
        self.span, self.characters = _read_span(span, characters)
        if isinstance(gain, bool) or not isinstance(gain, int | float) or not 0 <= gain < math.inf:
            raise FloatlensError(f"Boost(gain={gain!r}): give a number from 0; 1 doubles the weight of a key")
        if k is not None and self.span != "dynamics":
            raise FloatlensError(f'Boost(k={k}): only span="dynamics" chooses keys; leave k out')
        if k is not None and (isinstance(k, bool) or not isinstance(k, int) or k < 1):
            raise FloatlensError(f"Boost(k={k!r}): k is a number of keys; give a whole number from 1")
        if rows == "last":
            raise FloatlensError('Boost(rows="last"): give "all" or "answer"')
        self.gain, self.k, self.row_group = float(gain), k or _KEYS, check_rows(self, rows)
        which: dict[str, Any] = {"span": self.span} if characters is None else {"characters": characters}
        which |= {"gain": gain} | ({"k": k} if k is not None else {}) | ({"rows": rows} if rows != "all" else {})
        super().__init__(select, 1.0, **which)
        self.earliest_step = 1 if self.span == "dynamics" else 0
        self.reads_prompts = self.span != "dynamics"
        self._placed: list[tuple[list[int], NDArray[np.bool_]]] = []
        self._owners: list[NDArray[np.bool_]] | None = None
        self._pass: PassPosition | None = None
        self._width = 0
        self._sets: dict[int, Tensor] = {}
        self._depth: dict[int, Tensor] = {}
        self._held: list[tuple[Rows, Tensor]] = []

    @property
    def active(self) -> bool:
        return self.gain > 0

    def control(self, seed: int = 0, kind: ControlKind = "count") -> BoostRandom:
        return BoostRandom(**self.given, select=self.select, kind=kind, seed=seed)

    def check_prompt(self, prompt: Prompt) -> None:
        if self.reads_prompts:
            self.flags_of(prompt)

    def place(self, prompts: Sequence[Prompt]) -> None:
        """The prompts of the samples that are decoded next, in order."""
        if self.reads_prompts:
            self._placed = [(prompt.ids, self.flags_of(prompt)) for prompt in prompts]

    def flags_of(self, prompt: Prompt) -> NDArray[np.bool_]:
        """(token,) true for tokens of the span."""
        if self.characters is not None:
            start, stop = self.characters
            found = (prompt.offsets[:, 0] < stop) & (prompt.offsets[:, 1] > start)
        elif self.span == "evidence":
            found = prompt.evidence
        else:
            wanted = {"gold": [f"doc{i + 1}" for i in prompt.golds]}.get(self.span, [self.span])
            if self.span == "documents":
                wanted = [name for name in prompt.regions if _DOCUMENT.fullmatch(name)]
            found = np.isin(prompt.region_of, [i for i, name in enumerate(prompt.regions) if name in wanted])
        if not found.any():
            what = f"characters {self.characters}" if self.characters else self.span
            raise FloatlensError(f"boost: this prompt has no {what}; name the gold documents, or boost another span")
        return np.asarray(found)

    def forget(self) -> None:
        self._sets.clear()
        self._depth.clear()
        self._owners = None

    def begin_layer(self, layer: Layer) -> None:
        super().begin_layer(layer)
        position = position_of(layer)
        if position is self._pass:
            return
        self._pass = position
        if position.step == 0:
            self._width = position.real.shape[1]
        if not rows_return(layer):
            self._sets.clear()
        if self.acts_in(position.step):
            self._sets[position.step] = self.choose(layer, self._span(position)).to(layer.query.device)
        self._depth.clear()

    def choose(self, layer: Layer, span: Tensor) -> Tensor:
        """(batch, key) bool: the keys that are boosted, from those of the span."""
        return span

    def _span(self, position: PassPosition) -> Tensor:
        """(batch, key) bool: the keys of the span."""
        if self.span == "dynamics":
            received = torch.stack([self._depth[layer] for layer in sorted(self._depth)]).cpu()
            among, known = torch.from_numpy(self.prompt_keys(position)), received.shape[-1]
            return torch.cat([rising_keys(received, among[:, :known], self.k), among[:, known:] & False], dim=1)
        if self._owners is None:
            self._owners = self._matched(position)
        found = np.zeros_like(position.real)
        for sample, flags in enumerate(self._owners):
            there = np.flatnonzero(position.real[sample])[: len(flags)]
            found[sample, there] = flags[: len(there)]
        return torch.from_numpy(found)

    def _matched(self, position: PassPosition) -> list[NDArray[np.bool_]]:
        """The flags of each sample: those of the prompts in their order or, where a sampler decodes some at a time, of
        the prompt that it begins with."""
        if len(self._placed) == len(position.real):
            return [flags for _, flags in self._placed]
        found = []
        for ids, real in zip(position.ids, position.real, strict=True):
            text = ids[real].tolist()
            own = [flags for given, flags in self._placed if text[: len(given)] == given[: len(text)]]
            if not own:
                few = f"{len(self._placed)} prompts are" if self._placed else "no prompt is"
                raise FloatlensError(f"{self!r}: {few} known, none of them this one; give edit(model, …, prompts=[…])")
            found.append(own[0])
        return found

    def prompt_keys(self, position: PassPosition) -> NDArray[np.bool_]:
        """(batch, key) bool: tokens of the prompt."""
        found, written = position.real.copy(), position.run.written
        found[:, self._width :] = False
        if written is not None:
            found[:, : written.shape[1]] &= ~written[:, : found.shape[1]]
        return found

    def wants_review(self, layer: Layer) -> bool:
        return self.span == "dynamics" and self.acts_in(position_of(layer).step + 1)

    def review(self, layer: Layer, received: Tensor) -> None:
        self._depth[layer.index] = received.mean(1)

    def logits(self, site: Site, logits: Tensor) -> Tensor | None:
        self._held.clear()
        return super().logits(site, logits)

    def change(self, rows: Rows, values: Tensor) -> None:
        over = self.keys_in(rows, self._sets[rows.step], values)
        self._held.append((rows, torch.where(over, values, -torch.inf).logsumexp(-1)))
        values.add_(over.float(), alpha=math.log1p(self.gain))

    def keys_in(self, rows: Rows, keys: Tensor, values: Tensor) -> Tensor:
        """(batch, head or 1, query, key) bool: where a row that is changed sees one of the keys."""
        over = (rows.pick(keys, values.shape[-1]) > 0) & (values > HIDDEN / 2)
        within = self.row_mask(rows)
        return over if within is None else over & within

    def totals(self, site: Site, totals: Tensor) -> None:
        """Report how much attention the span gained, from what its keys had and the total that rows have now."""
        for rows, had in self._held:
            part = (had - totals[:, rows.local, rows.inside]).exp().nan_to_num(0.0)
            before = part / (1 - self.gain * part).clamp(min=torch.finfo(part.dtype).eps)
            self.count(rows, ((1 + self.gain) * part - before).clamp(min=0))


class BoostRandom(Boost):
    """The control of `Boost`: as many random other tokens of the prompt, drawn with `seed`.

    By count they have the same gain; by mass each row's gain is such that they gain as much attention as the span would
    have gained in this row, or all that the row has. Where a prompt has fewer other tokens than the span, all of them
    are taken. The tokens are drawn once per run, for "dynamics" in every step.

    Example: `fl.edits.Boost("gold").control(seed=1, kind="mass")`
    """

    def __init__(self, span: str | None = None, *, kind: ControlKind = "count", seed: int = 0, **settings: Any) -> None:
        super().__init__(span, **settings)
        self.kind, self.seed = kind, check_seed(self, seed)
        self.given |= {"kind": kind, "seed": seed}
        self.reads_totals = kind == "count"
        self._wanted: dict[int, Tensor] = {}
        self._short: list[Tensor] = []

    def control(self, seed: int = 0, kind: ControlKind = "count") -> BoostRandom:
        raise FloatlensError("BoostRandom is itself a control; ask Boost for it")

    def forget(self) -> None:
        super().forget()
        self._wanted.clear()

    def numbers(self) -> dict[str, float]:
        """ "unmatched": by count, the share of samples with fewer other tokens than the span has; by mass, of the rows
        with an effect, the share in which random tokens could not gain as much."""
        short, of = (torch.stack(self._short).sum(0).tolist()) if self._short else (0.0, 0.0)
        return {"unmatched": short / of} if of else {}

    def choose(self, layer: Layer, span: Tensor) -> Tensor:
        position = position_of(layer)
        if not rows_return(layer):
            self._wanted.clear()
        self._wanted[position.step] = span.to(layer.query.device)
        free = torch.from_numpy(self.prompt_keys(position)) & ~span
        count = span.sum(-1)
        if self.kind == "count":
            self._short.append(_of(free.sum(-1) < count, count > 0))
        step = position.step if self.span == "dynamics" else 0
        drawn = random_scores(position, self.seed, 1, step)[:, 0].masked_fill(~free, -torch.inf)
        return largest(drawn, torch.minimum(count, free.sum(-1)))

    def change(self, rows: Rows, values: Tensor) -> None:
        if self.kind == "count":
            super().change(rows, values)
            return
        total = values.logsumexp(-1)
        span = self.keys_in(rows, self._wanted[rows.step], values)
        random = self.keys_in(rows, self._sets[rows.step], values)
        held, had = (torch.where(over, values, -torch.inf).logsumexp(-1) - total for over in (span, random))
        held, share, visible = held.exp(), had.exp(), had > -torch.inf
        gained = (1 + self.gain) * held / (1 + self.gain * held) - held
        wanted = (share + gained).clamp(max=_MOST)
        factor = wanted.log() + torch.log1p(-share.clamp(max=_MOST)) - had - torch.log1p(-wanted)  # odds new ÷ old, ln
        factor = torch.where(visible & (gained > 0), factor, 0.0).clamp(min=0)
        values.add_(random * factor.unsqueeze(-1))
        self._short.append(_of(share + gained > _MOST, gained > _NOTABLE))
        self.count(rows, torch.where(visible, (wanted - share).clamp(min=0), 0.0))


def _of(some: Tensor, all_of: Tensor) -> Tensor:
    """How many of all are some, and how many are all."""
    return torch.stack([(some & all_of).sum(), all_of.sum()]).double().cpu()


def rising_keys(received: Tensor, among: Tensor, k: int) -> Tensor:
    """(batch, key) bool: the `k` keys whose attention rises most over depth.

    `received` is (layer, batch, key). The positive parts of the differences between neighbouring layers are summed and
    averaged with those of the two neighbouring keys; `among` (batch, key) may be chosen.

    Example: `rising_keys(torch.tensor([[[0.5, 0.5]], [[0.9, 0.1]]]), torch.ones(1, 2, dtype=torch.bool), 1)`
    """
    rises = received.diff(dim=0).clamp(min=0).sum(0)
    smooth = torch.nn.functional.avg_pool1d(rises, 3, stride=1, padding=1, count_include_pad=False)
    count = among.sum(-1).clamp(max=k)
    return largest(smooth.masked_fill(~among, -torch.inf), count) & among


def _read_span(span: str | None, characters: tuple[int, int] | None) -> tuple[str, tuple[int, int] | None]:
    if characters is not None:
        start, stop = characters
        if span is not None:
            raise FloatlensError("Boost: give a span or characters, not both")
        if not 0 <= start < stop:
            raise FloatlensError(f"Boost(characters={characters}): give (start, stop) with start before stop")
        return "characters", (int(start), int(stop))
    span = "evidence" if span is None else span
    if span not in SPANS and not _DOCUMENT.fullmatch(span):
        raise FloatlensError(f'boost: no span "{span}"{did_you_mean(span, (*SPANS, "doc3"))}')
    return span, None
