"""Base class of the built-in edits: which rows an edit changes in which step, its strength, and its report.

An autoregressive row is edited as in the step that first computed it, also where it is computed again in later passes:
so answers are the same with and without a cache.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from floatlens.attention.edit import Change, ChangeTotals, Edit, Site
from floatlens.attention.probe import Layer, Shape
from floatlens.attention.run_tracker import DecodingRun, PassPosition
from floatlens.attention.select import Select
from floatlens.attention.setting import RowGroup, Setting, read_number, read_word
from floatlens.core.errors import FloatlensError, did_you_mean
from floatlens.models.base import LanguageModel

__all__ = ["ROWS", "STRENGTH", "RowEdit", "Rows", "Site", "check_rows", "position_of", "rows_return"]

STRENGTH = Setting("strength", read_number, about="how much is moved, 0 to 1")
ROWS = Setting("rows", read_word, about="whose attention defines anchors: all, answer or last")


def check_rows(who: object, rows: str) -> RowGroup:
    """The row group of this name."""
    for known in get_args(RowGroup):
        if rows == known:
            return known  # type: ignore[no-any-return]
    raise FloatlensError(f'{type(who).__name__}(rows="{rows}"){did_you_mean(str(rows), get_args(RowGroup))}')


def position_of(layer: Layer) -> PassPosition:
    position = layer.state.position
    assert position is not None, "the session tracks the run while edits are active"
    return position


def rows_return(layer: Layer) -> bool:
    """Whether rows of earlier steps are computed again, so what was noted for them is still needed."""
    return layer.state.causal and not position_of(layer).cached


@dataclass(frozen=True)
class Rows:
    """Rows of a block that were first computed in one step, of the heads that an edit changes."""

    site: Site
    step: int
    queries: slice
    heads: tuple[int, ...]

    @property
    def inside(self) -> slice:
        """The rows, relative to the block's first."""
        start = self.site.queries.start
        return slice(self.queries.start - start, self.queries.stop - start)

    @property
    def local(self) -> list[int]:
        """The heads, relative to the block's first."""
        return [h - self.site.heads.start for h in self.heads]

    def pick(self, whole: Tensor, keys: int) -> Tensor:
        """The block's part of (batch, head, key) or (batch, key), padded with 0: (batch, head or 1, 1, key)."""
        part = whole[self.site.batch]
        part = part[:, list(self.heads)] if part.ndim == 3 else part.unsqueeze(1)
        return torch.nn.functional.pad(part, (0, max(0, keys - part.shape[-1])))[..., None, :keys]

    def visible(self, keys: int) -> Tensor:
        """(batch, head or 1, query, key) bool: which keys each row may see."""
        site, mask = self.site, self.site.layer.mask
        per_head = mask.explicit is not None and mask.explicit.shape[1] > 1
        heads = self.site.heads if per_head else slice(0, 1)
        rows, device = self.queries, site.layer.query.device
        seen = mask.sees(rows.start, rows.stop, site.batch, heads, keys, device)
        return seen[:, [h - heads.start for h in self.heads]] if per_head else seen

    def seen(self, keys: int) -> Tensor:
        """The same, with a single row (batch, head or 1, 1, key) where all rows see the same keys."""
        one = replace(self, queries=slice(self.queries.start, self.queries.start + 1))
        return (self if self.partial else one).visible(keys)

    def sees(self, chosen: Tensor, keys: int) -> Tensor:
        """(batch, head, query, n) bool: which of the given real keys (batch, head, n) each row may see."""
        mask = self.site.layer.mask
        if self.windowed:
            visible = self.visible(keys).expand(-1, chosen.shape[1], -1, -1)
            at = chosen.clamp(max=keys - 1).unsqueeze(2).expand(-1, -1, visible.shape[2], -1)
            return visible.gather(-1, at) & (chosen < keys).unsqueeze(2)
        row = torch.arange(self.queries.start, self.queries.stop, device=chosen.device) + mask.q_offset
        return chosen.unsqueeze(2) + mask.kv_offset <= row[:, None]

    @property
    def windowed(self) -> bool:
        """Whether rows may see less than all preceding keys: a sliding window or an explicit mask."""
        return self.site.layer.mask.irregular

    @property
    def partial(self) -> bool:
        """Whether rows may see different keys: windows, or a causal mask over several rows."""
        mask = self.site.layer.mask
        return self.windowed or (mask.causal and mask.q_length > 1)


class RowEdit(Edit):
    """An edit with `strength` from 0 (nothing is moved) to 1, and a report of how much attention it moved.

    Subclasses implement `change`, which edits logits or weights in place and calls `count` with what it moved.
    """

    needs_copy = False

    def __init__(self, select: Select | None, strength: float, **given: Any) -> None:
        if not isinstance(strength, int | float) or not 0 <= strength <= 1:
            raise FloatlensError(f"{type(self).__name__}(strength={strength!r}): give a number from 0 to 1")
        self.select = select if select is not None else Select()
        self.strength = float(strength)
        self.given = given
        self._totals = ChangeTotals()
        self._shares: list[tuple[slice, Tensor, NDArray[np.int64]]] = []
        self._run: DecodingRun | None = None
        self._steps = 0

    def __repr__(self) -> str:
        given = dict(self.given)
        if self.strength != 1:
            given["strength"] = self.strength
        given |= {f"select.{k}" if k in given else k: v for k, v in vars(self.select).items() if v is not None}
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in given.items())})"

    @property
    def active(self) -> bool:
        return self.strength > 0

    def report(self) -> list[Change]:
        """What the edit did since it was made, by step (of its run) and layer. `pandas.DataFrame(edit.report())`."""
        return self._totals.changes(repr(self))

    def reset(self) -> None:
        """Clear the report."""
        self._totals.clear()
        self._shares.clear()

    def moved_shares(self) -> list[float]:
        samples = 0 if self._run is None else len(self._run.fingerprints)
        mass, rows = np.zeros(samples), np.zeros(samples)
        for batch, moved, counted in self._shares:
            mass[batch] += moved.cpu().numpy()
            rows[batch] += counted
        self._shares.clear()
        self._shares.append((slice(0, samples), torch.from_numpy(mass), rows.astype(np.int64)))
        return [float(m / n) if n else float("nan") for m, n in zip(mass, rows, strict=True)]

    def prepare(self, model: LanguageModel, shape: Shape) -> None:
        super().prepare(model, shape)
        self._steps = shape.steps

    def takes_part(self, layer: Layer, max_steps: int) -> bool:
        return True  # in every step; `rows` decides which rows are changed

    def begin_layer(self, layer: Layer) -> None:
        run = position_of(layer).run
        if run is not self._run:
            self._run = run
            self._shares.clear()
            self.forget()

    def forget(self) -> None:
        """A new run begins: clear everything noted in an earlier one."""

    def acts(self, layer: Layer) -> bool:
        return any(self.acts_in(int(step)) for step in set(position_of(layer).first_step.tolist()))

    def acts_in(self, step: int) -> bool:
        """Whether rows that are first computed in this step are changed."""
        return step >= self.earliest_step and self.select.has_step(step, self._steps)

    def heads_of(self, layer: Layer) -> tuple[int, ...]:
        return self.select.head_ids(layer.query.shape[1])

    def heads_in(self, site: Site) -> tuple[int, ...]:
        """The edited heads of a block, relative to the model's first."""
        return tuple(h for h in self.heads_of(site.layer) if site.heads.start <= h < site.heads.stop)

    def logits(self, site: Site, logits: Tensor) -> Tensor | None:
        return self._apply(site, logits)

    def weights(self, site: Site, weights: Tensor) -> Tensor | None:
        return self._apply(site, weights)

    def rows(self, site: Site) -> Iterator[Rows]:
        """The rows of a block that are changed, step by step."""
        heads = self.heads_in(site)
        first_step = position_of(site.layer).first_step[site.queries]
        for step in sorted(set(first_step.tolist())) if heads else ():
            if self.acts_in(step):
                at = (first_step == step).nonzero()[0] + site.queries.start  # steps are contiguous: one slice each
                yield Rows(site, step, slice(int(at[0]), int(at[-1]) + 1), heads)

    def _apply(self, site: Site, values: Tensor) -> Tensor | None:
        changed = False
        for rows in self.rows(site):
            inside, heads = rows.inside, rows.local
            whole = len(heads) == values.shape[1]
            part = values[:, :, inside] if whole else values[:, heads, inside]
            self.change(rows, part)
            changed = True
            if not whole:
                values[:, heads, inside] = part
        return values if changed else None

    def change(self, rows: Rows, values: Tensor) -> None:
        """Change logits or weights (batch, head, query, key) in place and `count` what was moved."""
        raise NotImplementedError

    def mix(self, rows: Rows, values: Tensor, instead: Tensor) -> None:
        """Change weights in place to 1 − strength of their own and strength of those `instead`, and count that."""
        step = (instead - values).mul_(self.strength)
        if self.strength == 1:
            values.copy_(instead)
        else:
            values += step
        self.count(rows, step.abs_().sum(-1) / 2)

    def count(self, rows: Rows, moved: Tensor) -> None:
        """Add what was moved (batch, head, query) to the report, once per row and not in a preview."""
        if rows.site.lookahead or rows.step != position_of(rows.site.layer).step:
            return
        state = rows.site.layer.state
        counted = state.real if self.row_group == "all" else state.answer_rows
        real = counted[rows.site.batch, None, rows.queries]
        if not real.all():
            moved = moved * torch.from_numpy(real).to(moved.device)
        each = real.sum((1, 2)) * moved.shape[1]
        self._totals.add(rows.step, rows.site.layer.index, moved, int(each.sum()))
        self._shares.append((rows.site.batch, moved.sum((1, 2), dtype=torch.float64), each))

    def row_mask(self, rows: Rows) -> Tensor | None:
        """(batch, 1, query, 1) bool: the rows that are changed, where only those of the answer are; None: all."""
        if self.row_group == "all":
            return None
        within = rows.site.layer.state.answer_rows[rows.site.batch, rows.queries]
        return torch.from_numpy(within[:, None, :, None]).to(rows.site.layer.query.device)
