"""Edits change attention while the model runs, in the same function that probes observe.

An edit is shown one block at a time and returns what to use instead; probes then see the edited weights. Tokens and
cache stay unchanged. `hooks_of` joins the edits of one layer into the hooks that the attention function takes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import torch
from torch import Tensor

from floatlens.attention.blocks import NO_HOOKS, Block, EditHooks, EditValues, ExtraKey
from floatlens.attention.edit_checks import EditChecks
from floatlens.attention.mask import HIDDEN
from floatlens.attention.probe import Layer, PassState, Shape
from floatlens.attention.select import Select
from floatlens.attention.setting import ControlKind, RowGroup, Setting, span
from floatlens.attention.softmax import QueryClasses
from floatlens.core.errors import FloatlensError
from floatlens.models.base import LanguageModel
from floatlens.models.facts import Facts

if TYPE_CHECKING:
    from floatlens.attention.mixing import InputChange, MixerLayer
    from floatlens.prompts.types import Prompt

__all__ = ["Change", "ChangeTotals", "Edit", "ExtraKey", "Site", "applies", "check_layers", "hooks_of"]


@dataclass(frozen=True)
class Site:
    """The place of a block: its layer (with the step, masks and regions of the pass), samples, heads and queries."""

    layer: Layer
    batch: slice
    heads: slice
    queries: slice
    lookahead: bool = False
    """A preview for another edit: the block comes again later, so nothing is counted yet."""

    @property
    def step(self) -> int:
        return self.layer.state.step


@dataclass(frozen=True)
class Change:
    """What an edit did in one step of one layer, over all samples and runs: `mass` is the attention moved in `rows`.

    A row is one query of one head of one sample. Padding is not counted; a row that is computed again counts once.
    """

    edit: str
    step: int
    layer: int
    rows: int
    mass: float
    total: int = 0
    """Number of rows that the edit looked at, changed or not."""

    @property
    def mean(self) -> float:
        """Attention moved per changed row, 0 … 1."""
        return self.mass / self.rows if self.rows else 0.0


class ChangeTotals:
    """Running sums of one edit, kept on the model's device and copied to the CPU only when they are read."""

    def __init__(self) -> None:
        self._sums: dict[tuple[int, int], Tensor] = {}
        self._rows: dict[tuple[int, int], int] = {}

    def add(self, step: int, layer: int, moved: Tensor, rows: int) -> None:
        """`moved` (…): the attention moved in each row, 0 in rows that do not count; `rows` is how many count."""
        some = torch.stack([(moved > 0).sum(dtype=torch.float64), moved.sum(dtype=torch.float64)])
        held = self._sums.get((step, layer))
        self._sums[step, layer] = some if held is None else held + some.to(held.device)
        self._rows[step, layer] = self._rows.get((step, layer), 0) + rows

    def clear(self) -> None:
        self._sums.clear()
        self._rows.clear()

    def changes(self, edit: str) -> list[Change]:
        found = []
        for (step, layer), sums in sorted(self._sums.items()):
            rows, mass = sums.tolist()
            found.append(Change(edit, step, layer, int(rows), mass, self._rows[step, layer]))
        return found


class Edit:
    """Base class of all edits. `select` limits an edit to layers, heads and steps; the session enforces it.

    A subclass implements `logits` (after masking, before the softmax; −∞ may be written) or `weights` (normalised
    rows), and sets `edits_logits` or `edits_weights`. Both are (batch, head, query, key) and may be changed in place;
    None leaves a block unchanged. Edits of one kind act in the order of the list. To be used by name, it also sets
    `title` and `about`, lists its constructor's arguments in `settings`, and is entered in `floatlens.edits.EDITS` or
    in the entry-point group "floatlens.edits".
    """

    title: ClassVar[str] = ""
    """Noun phrase for tables and figures, such as "Anchors dropped"."""
    about: ClassVar[str] = ""
    """One sentence: what the edit does."""
    settings: ClassVar[tuple[Setting, ...]] = ()
    selects_layers: ClassVar[bool] = True
    """Whether `on=0-3` may limit it to layers; False where its own settings name the layers."""
    controls: tuple[ControlKind, ...] = ()
    """The kinds of matched random edits that `control` gives."""
    needs: frozenset[str] = frozenset()
    """What it reads. One that needs "retrieval scores" waits for traces that show which heads retrieve, one that needs
    a "refresh schedule" for those that show how the keys of each layer turn."""
    earliest_step: int = 0
    """The first step in which it can change anything."""
    row_group: RowGroup = "all"
    """The rows whose received attention `review` shows, and `preview` unless `preview_group` is another."""
    select: Select = Select()
    edits_logits: bool = False
    edits_weights: bool = False
    adds_key: bool = False
    edits_mixers: ClassVar[bool] = False
    """True for an edit of layers without attention, which does nothing in the others (`change_inputs`, `zeroes`)."""
    reads_totals: bool = False
    reads_prompts: bool = False
    """Whether it acts on parts of the prompt; it is then shown the prompts (`place`) before they are decoded."""
    needs_copy: bool = True
    """False if the edit writes only to the heads and rows it selects, nothing below `HIDDEN`, nothing that is not
    finite, and returns the tensor it was given (or None, having written nothing). It is then given the block itself
    instead of a copy."""

    @property
    def preview_group(self) -> RowGroup:
        """The rows whose received attention `preview` shows."""
        return self.row_group

    @property
    def active(self) -> bool:
        """False for an edit that changes nothing (strength 0): it is left out, and results are bit-identical."""
        return True

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> Self:
        """The edit with these settings, by name; `on` and `steps` limit its layers and steps."""
        made = cls(**{one.name: one.argument(settings[one.name]) for one in cls.settings if one.name in settings})
        limits: dict[str, Any] = {}
        if "on" in settings:
            limits["layers"] = span(settings["on"])
        if "steps" in settings:  # as a slice: how many steps there will be is not known
            limits["steps"] = slice(span(settings["steps"]).start, span(settings["steps"]).stop)
        if limits:
            made.select = replace(made.select, **limits)
        return made

    def __repr__(self) -> str:
        given = {one.name: getattr(self, one.name) for one in self.settings if hasattr(self, one.name)}
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in given.items())})"

    def control(self, seed: int = 0, kind: ControlKind = "count") -> Edit | None:
        """The matched random control of this edit, at the same strength and place; None where there is none."""
        return None

    def check(self, facts: Facts) -> None:
        """Refuse layers, heads and tokens that a model does not have, before its weights are read."""
        self.select.head_ids(facts.heads)
        own = range(facts.layers) if facts.attention_layers is None else facts.attention_layers
        check_layers(self, facts.ref, facts.layers, own)

    def check_prompt(self, prompt: Prompt) -> None:
        """Refuse a prompt that lacks what the edit acts on."""

    def place(self, prompts: Sequence[Prompt]) -> None:
        """With `reads_prompts`: the prompts of the samples that are decoded next, in order."""

    def report(self) -> list[Change]:
        """What the edit did since it was made, by step (of its run) and layer, where it keeps count."""
        return []

    def moved_shares(self) -> list[float]:
        """For each sample of the latest run the attention moved per row, 0 … 1, over all rows that the edit looked at;
        NaN where it looked at none. [] where it keeps no count."""
        return []

    def saved_shares(self) -> list[float]:
        """For each sample of the latest run, of an edit that stands for a cache: the share of the passes'
        multiplications that a server would not do; NaN where there was no pass. [] for other edits."""
        return []

    def refreshes(self) -> str | None:
        """Of an edit that stands for a cache, once it is in use: its refresh intervals by layer, such as "0-3/8+4-7/2";
        None where it has none."""
        return None

    def saved_passes(self) -> list[float]:
        """The same in passes: the sum of the shares over the passes of a sample."""
        return []

    def numbers(self) -> dict[str, float]:
        """Further numbers on what the edit did since it was made, by name; see `measurement`."""
        return {}

    def prepare(self, model: LanguageModel, shape: Shape) -> None:
        """Before the first pass: check the settings against the model."""
        self.select.layer_ids(shape.layers)
        self.select.head_ids(shape.heads)
        self.select.has_step(0, shape.steps)

    def takes_part(self, layer: Layer, max_steps: int) -> bool:
        """Whether the edit is informed of this pass at all."""
        return self.select.has_step(layer.state.step, max_steps)

    def acts(self, layer: Layer) -> bool:
        """Whether it is shown this layer's blocks in this pass."""
        return True

    def begin_layer(self, layer: Layer) -> None:
        """Before the layer's first block of a pass."""

    def end_layer(self, layer: Layer) -> None:
        """After the layer's last block."""

    def wants_preview(self, layer: Layer) -> bool:
        """Whether it needs `preview` before this layer is edited."""
        return False

    def preview(self, layer: Layer, received: Tensor, batch: slice, heads: slice) -> None:
        """What the keys of some samples and heads would receive without this edit: (batch, head, key), each once.

        All other edits of logits are already applied, and for an edit of weights those earlier in the list.
        """

    def wants_review(self, layer: Layer) -> bool:
        return False

    def review(self, layer: Layer, received: Tensor) -> None:
        """What the keys received in this pass, after all edits: (batch, head, key)."""

    def logits(self, site: Site, logits: Tensor) -> Tensor | None:
        return None

    def weights(self, site: Site, weights: Tensor) -> Tensor | None:
        return None

    def has_fast_path(self, layer: Layer) -> bool:
        """For an edit of weights: whether `edit_block` can replace `weights` in this layer of this pass."""
        return False

    def edit_block(self, site: Site, block: Block, classes: QueryClasses | None) -> Block:
        """The effect of `weights` where not every weight is computed: the block with its entropy and column sums.

        `exp` may be changed in place and must stay contiguous.
        """
        raise NotImplementedError

    def totals(self, site: Site, totals: Tensor) -> None:
        """With `reads_totals`: the log-sum-exp of each row (batch, head, query), after all edits of logits."""

    def extra(self, site: Site) -> ExtraKey | None:
        """With `adds_key`: a key outside the sequence, for the queries of this block."""
        return None

    def change_inputs(self, layer: MixerLayer) -> InputChange | None:
        """With `edits_mixers`: before a selected layer without attention, in every step; it is shown as unedited."""
        return None

    def zeroes(self, state: PassState) -> bool:
        """With `edits_mixers`: whether zeros replace the output of the selected layers in this pass."""
        return False


def check_layers(edit: Edit, ref: str, layers: int, attention: Collection[int]) -> None:
    """Refuse, by name, an edit of layers that a model does not have; `attention` are its layers with attention."""
    chosen = edit.select.layer_ids(layers)
    if edit.edits_mixers and all(layer in attention for layer in chosen):
        where = ref if len(attention) == layers else f"layers {', '.join(map(str, chosen))} of {ref}"
        raise FloatlensError(f"{edit!r} is an edit of layers without attention; {where}: all have attention")
    if not edit.edits_mixers and not any(layer in attention for layer in chosen):
        where = f"layers {', '.join(map(str, chosen))} of {ref} have" if attention else f"{ref} has"
        raise FloatlensError(
            f"{edit!r} is an edit of attention, and {where} none; edits of other layers: drop_inputs, pin_inputs, "
            "zero_mixers"
        )


def applies(edit: Edit, layer: Layer, model: LanguageModel, max_steps: int) -> bool:
    return layer.index in edit.select.layer_ids(model.num_layers) and edit.takes_part(layer, max_steps)


def hooks_of(
    edits: Sequence[Edit],
    layer: Layer,
    model: LanguageModel,
    lookahead: bool = False,
    checks: EditChecks | None = None,
) -> EditHooks:
    """The hooks of the edits that act on this layer; what they return goes through `checks`."""
    acting = [edit for edit in edits if edit.acts(layer)]
    if not acting:
        return NO_HOOKS
    adding = [edit for edit in acting if edit.adds_key]
    checked = checks or EditChecks(layer)

    def extras(batch: slice, heads: slice, queries: slice) -> list[ExtraKey]:
        found = [edit.extra(Site(layer, batch, heads, queries, lookahead)) for edit in adding]
        return [extra for extra in found if extra is not None]

    reading = [] if lookahead else [edit for edit in acting if edit.reads_totals]

    def totals(batch: slice, heads: slice, queries: slice, values: Tensor) -> None:
        for edit in reading:
            edit.totals(Site(layer, batch, heads, queries), values)

    weighing = [edit for edit in acting if edit.edits_weights]

    def edit_block(block: Block, classes: QueryClasses | None) -> Block:
        for edit in weighing:
            site = Site(layer, block.batch, block.heads, block.queries, lookahead)
            block = checked.block(edit, edit.edit_block(site, block, classes), block)
        return block

    fast = bool(weighing) and not adding and all(edit.has_fast_path(layer) for edit in weighing)
    return EditHooks(
        logits=_chain(acting, layer, model, "logits", lookahead, checked),
        weights=None if fast else _chain(acting, layer, model, "weights", lookahead, checked),
        blocks=edit_block if fast else None,
        extras=extras if adding else None,
        totals=totals if reading else None,
    )


def _chain(
    edits: list[Edit],
    layer: Layer,
    model: LanguageModel,
    what: Literal["logits", "weights"],
    lookahead: bool,
    checks: EditChecks,
) -> EditValues | None:
    """One function that applies the edits of this layer in order, each to the heads it selects; None without any."""
    active = [edit for edit in edits if (edit.edits_logits if what == "logits" else edit.edits_weights)]
    if not active:
        return None

    def apply(batch: slice, heads: slice, queries: slice, values: Tensor) -> Tensor | None:
        changed = False
        for edit in active:
            shown = values.clone() if edit.needs_copy else values
            new: Tensor | None = getattr(edit, what)(Site(layer, batch, heads, queries, lookahead), shown)
            if new is None:
                continue
            changed, new = True, checks.values(edit, what, new, shown)
            if not edit.needs_copy:
                continue
            if what == "logits":
                new.clamp_(min=HIDDEN)
            checks.add(edit, what, new)
            chosen = [h - heads.start for h in edit.select.head_ids(model.num_heads) if heads.start <= h < heads.stop]
            if len(chosen) == values.shape[1]:
                values = new
            else:
                values[:, chosen] = new[:, chosen]
        return values if changed else None

    return apply
