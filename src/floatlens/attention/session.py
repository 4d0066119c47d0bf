"""`capture`: a context in which a model's attention runs through the streamed function, with probes and edits.

The session observes passes and the layers that call the attention function, and it always restores the model.
Statistics are computed by the probes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from floatlens.attention.backend import Backend
from floatlens.attention.blocks import Block, attend
from floatlens.attention.edit import Edit, applies, hooks_of
from floatlens.attention.edit_checks import EditChecks
from floatlens.attention.installation import SESSIONS, Installation
from floatlens.attention.mask import BlockMask, as_block_mask, describe_mask
from floatlens.attention.mixer_observer import MixerObserver
from floatlens.attention.probe import Layer, Layout, PassState, Probe, Shape
from floatlens.attention.received import ReceivedAttention
from floatlens.attention.recorder import Recorder
from floatlens.attention.run_tracker import RunTracker
from floatlens.attention.select import Select
from floatlens.attention.softmax import Workspace
from floatlens.core.errors import FloatlensError
from floatlens.models.base import LanguageModel, Pass
from floatlens.models.readout import readout

__all__ = ["MANY_STEPS", "Session", "ambient_edits", "capture", "installed"]

MANY_STEPS = 1 << 20
"""Upper bound where the number of steps is not known."""
T = TypeVar("T")
Before = Callable[[list[Block]], None]
"""Called with all blocks of some heads before any of them is edited."""
IMPLEMENTATION = "floatlens_streamed"

_HARMLESS_WORDS = """
    cache_position deterministic is_causal layer_idx logits_to_keep output_attentions output_hidden_states
    output_router_logits past_key_value past_key_values position_embeddings position_ids return_dict sliding_window
    use_cache
"""
_HARMLESS = frozenset(_HARMLESS_WORDS.split())
"""Arguments of attention modules that change no weight (windows and causality are in the mask)."""


@dataclass(eq=False, repr=False)
class Session(MixerObserver):
    """One active capture; made by `capture`. `recorder` holds the results of the probes."""

    model: LanguageModel
    probes: Sequence[Probe]
    edits: Sequence[Edit]
    recorder: Recorder
    workspace: Workspace
    ambient: bool = False
    """Opened by `edit`: a capture inside it takes its edits over, and steps restart at 0 in each run."""

    def __post_init__(self) -> None:
        self.edits = [edit for edit in self.edits if edit.active]
        self.tracker = RunTracker(self.model) if self.edits else None
        self.needs = frozenset(need for probe in self.probes for need in probe.needs)
        self.full_passes = bool(self.edits)
        self.state: PassState | None = None
        self._blocks: BlockMask | None = None  # of the pass, where its model says what each query sees
        self._residual: Tensor | None = None
        self._open: Layer | None = None  # watched, and its output not seen yet
        self._calls = 0

    def begin(self, info: Pass) -> None:
        self._calls = 0
        position = None if self.tracker is None else self.tracker.follow(info)
        if self.ambient and position is not None:
            self.recorder.passes = position.step
        self._blocks = None if info.visible is None else BlockMask.of(info.visible)
        self.state = self.recorder.open_pass(self.model, info)
        self.state.position = position

    def end(self) -> None:
        self.recorder.close_pass()
        self.state = self._blocks = None

    def note_residual(self, _: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Forward pre-hook of every layer: the state that enters it."""
        self._residual = args[0] if args else kwargs["hidden_states"]

    def note_output(self, _: nn.Module, __: Any, output: Any) -> None:
        """Forward hook of every layer: the state that leaves it."""
        if self._open is not None and self._open.state.is_step and self.recorder.files(self._open.state.step):
            for probe in self.probes:
                probe.output(self._open, output[0] if isinstance(output, tuple) else output)
        self._open = None

    def attention(
        self,
        module: nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: BlockMask,
        scaling: float,
        softcap: float | None,
    ) -> Tensor:
        layer_idx = getattr(module, "layer_idx", None)
        index = self._calls if layer_idx is None else int(layer_idx)
        self._calls += 1
        mask = mask if self._blocks is None else self._blocks
        run = partial(attend, query, key, value, mask, scaling=scaling, softcap=softcap, workspace=self.workspace)
        if self.state is None:
            return run()
        layer = Layer(index, query, key, value, mask, scaling, self.state, residual=self._residual, softcap=softcap)
        layer.module, layer.root = module, self.model.module
        watched = self.recorder.wants(layer)
        edits, before = self._begin_edits(layer, run) if self.edits else ([], None)
        backend = self.recorder.backend
        edited = before is not None or any(edit.acts(layer) or edit.wants_review(layer) for edit in edits)
        if backend is not None and backend.takes(layer, self.probes if watched else [], edited):
            out = self._by_fused_passes(backend, layer, run, watched)
            for edit in edits:
                edit.end_layer(layer)
            return out
        groups = {edit.row_group for edit in edits if edit.wants_review(layer)}
        reviews = {rows: ReceivedAttention(layer, rows) for rows in groups}
        columns = watched and "columns" in self.needs
        gathered = not self.state.causal and bool(reviews or before is not None)
        checks = EditChecks(layer)
        out = run(
            visit=self._visitor(layer, watched, list(reviews.values())),
            before=before,
            classes=self.state.classes if columns or gathered else None,
            needed=self.state.needed if index == self.model.num_layers - 1 else None,
            with_entropy=watched and "entropy" in self.needs,
            hooks=hooks_of(edits, layer, self.model, checks=checks),
        )
        checks.finish(out, [edit for edit in edits if edit.acts(layer)])
        if watched:
            self._take(layer)
        for edit in edits:
            if edit.row_group in reviews and edit.wants_review(layer):
                edit.review(layer, reviews[edit.row_group].received)
            edit.end_layer(layer)
        return out

    def _take(self, layer: Layer) -> None:
        self._open = layer
        for probe in self.probes:
            self.recorder.take(probe, layer)

    def _by_fused_passes(self, backend: Backend, layer: Layer, run: Callable[..., Tensor], watched: bool) -> Tensor:
        """Output and statistics of a layer by fused passes; the few rows that probes ask for are streamed."""
        if not watched:
            return backend.attend(layer).out
        for probe in self.probes:
            probe.begin(layer)
        asked = [(probe, values) for probe in self.probes if (values := probe.averaged(layer)) is not None]
        weighing = [(probe, weights) for probe in self.probes if (weights := probe.key_weights(layer)) is not None]
        found = backend.attend(
            layer,
            columns="columns" in self.needs,
            entropy="entropy" in self.needs,
            averaged=[values for _, values in asked],
            weights=weighing[0][1] if weighing else None,
            most_bytes=(8 if layer.query.device.type == "cpu" else 64) * self.workspace.block_bytes,
        )
        layer.columns, layer.entropy = found.columns, found.entropy
        for (probe, _), average in zip(asked, found.averages or [], strict=True):
            probe.averages(layer, average)
        if found.weighed is not None:
            weighing[0][0].weighed_columns(layer, found.weighed)
        unused = np.zeros(layer.state.queries, dtype=bool)
        for probe in self.probes:
            rows = probe.rows_wanted(layer)
            for within in [] if rows is None else _runs(rows):
                run(visit=partial(probe.block, layer), needed=unused, within=within)
        self._take(layer)
        return found.out

    def _begin_edits(self, layer: Layer, run: Callable[..., Tensor]) -> tuple[list[Edit], Before | None]:
        """The edits that take part in this layer, after their previews (or with a callback that makes them)."""
        edits = [edit for edit in self.edits if applies(edit, layer, self.model, self.recorder.max_steps)]
        for edit in edits:
            edit.begin_layer(layer)
        previewing = [at for at, edit in enumerate(edits) if edit.wants_preview(layer)]
        previewing.sort(key=lambda at: edits[at].edits_weights)  # edits of logits act first, so they choose first
        before = None
        for at in previewing:
            earlier = [other for other in edits[:at] if other.edits_weights and other.acts(layer)]
            alone = edits[at].edits_weights and not earlier and len(previewing) == 1
            before = self._preview(layer, run, edits, at, alone)
        return edits, before

    def _preview(
        self, layer: Layer, run: Callable[..., Tensor], edits: list[Edit], at: int, alone: bool
    ) -> Before | None:
        """Show one edit what the keys would receive without it, by an extra pass over the layer's blocks.

        If it is the first edit of weights and the only one with a preview (`alone`), blocks are kept and shown to it
        before they are edited, without an extra pass; for an autoregressive pass the last rows are enough.
        """
        edit, gather, state = edits[at], ReceivedAttention(layer, edits[at].preview_group), layer.state
        groups = layer.query.shape[1] // layer.key.shape[1]
        rows = slice(0, state.queries)
        if alone and state.causal and state.queries > 1:
            rows = slice(int(state.last_rows.min()), int(state.last_rows.max()) + 1)
        elif alone and self.workspace.keeps(state.queries, layer.key.shape[2], groups):

            def before(blocks: list[Block]) -> None:
                for block in blocks:
                    gather.block(block)
                samples, heads = blocks[0].batch, blocks[0].heads
                edit.preview(layer, gather.received[samples, heads], samples, heads)

            return before
        earlier = [other for other in edits[:at] if other.edits_weights and edit.edits_weights]
        others = [other for other in edits if other is not edit and not other.edits_weights]
        hooks = hooks_of([*earlier, *others], layer, self.model, lookahead=True)
        unused = np.zeros(state.queries, dtype=bool)
        run(visit=gather.block, classes=gather.classes, needed=unused, within=rows, hooks=hooks)
        edit.preview(layer, gather.received, *(slice(0, size) for size in layer.query.shape[:2]))
        return None

    def _visitor(
        self, layer: Layer, watched: bool, reviews: Sequence[ReceivedAttention]
    ) -> Callable[[Block], None] | None:
        def gather(block: Block) -> None:
            for review in reviews:
                review.block(block)

        if not watched:
            return gather if reviews else None
        if "entropy" in self.needs:
            layer.entropy = torch.empty(layer.query.shape[:3], device=layer.query.device)
        for probe in self.probes:
            probe.begin(layer)

        def visit(block: Block) -> None:
            if "columns" in self.needs:
                layer.add_columns(block)
            if block.entropy is not None and layer.entropy is not None:
                layer.entropy[block.batch, block.heads, block.queries] = block.entropy
            for probe in self.probes:
                probe.block(layer, block)
            gather(block)

        return visit


def _runs(rows: NDArray[np.int64], gap: int = 32) -> list[slice]:
    """Slices that cover sorted rows; a gap shorter than `gap` is streamed along, which is cheaper than a new start."""
    parts = np.split(rows, np.flatnonzero(np.diff(rows) > gap) + 1)
    return [slice(int(part[0]), int(part[-1]) + 1) for part in parts if len(part)]


def _streamed(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: object,
    scaling: float | None = None,
    dropout: float = 0.0,
    softcap: float | None = None,
    is_causal: bool | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """The attention function that transformers calls; it finds the session of the calling module."""
    for name, given in kwargs.items():
        if given is not None and name not in _HARMLESS:
            raise FloatlensError(
                f'{type(module).__name__} passes "{name}" to its attention, which may change the weights '
                f"in a way that capture does not support; this model cannot be traced yet"
            )
    causal = bool(getattr(module, "is_causal", False)) if is_causal is None else is_causal
    mask = as_block_mask(attention_mask, query.shape[2], key.shape[2], causal)
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    session = SESSIONS.get(module)
    if session is None:
        name = type(module).__name__
        raise FloatlensError(f"{name} runs the streamed attention outside a capture; reload the model")
    return session.attention(module, query, key, value, mask, scale, softcap), None


def capture(
    model: LanguageModel,
    probes: Sequence[Probe] = (),
    *,
    edits: Sequence[Edit] = (),
    layout: Layout | None = None,
    select: Select | None = None,
    steps: int = MANY_STEPS,
    length: int | None = None,
    mean_heads: bool = False,
    workspace: Workspace | None = None,
    backend: str | Backend = "auto",
) -> Installation[Recorder]:
    """Observe every pass of `model`; the recorder that is yielded holds the results of the probes.

    `layout` names the regions of the sequence (default: everything is "question"). `steps` and `length` are upper
    bounds of the run: probes check their size against them, and arrays are padded to `length`. `backend` is "auto",
    "rows" or "fused" (see `Backend`).

    Example: `with capture(model, [Received()]) as rec: model.forward(ids)`
    """
    made = list(probes)
    how = backend if isinstance(backend, Backend) else Backend(backend, model.device)
    chosen = [*ambient_edits(model), *edits]
    longest = length or model.max_length or 0
    shape = Shape(model.num_layers, model.num_heads, steps, longest, partial(readout, model), model.mask_id)
    for part in made:
        if part.attention_only and not model.attention_layers:
            raise FloatlensError(
                f'{model.ref} has no attention, so the probe "{part.name}" finds nothing in it; use "contribution"'
            )
        part.prepare(shape)
    for edit in edits:
        edit.prepare(model, shape)
    recorder = Recorder(model, made, layout, select or Select(), steps, length, mean_heads)
    recorder.edits, recorder.backend = tuple(chosen), how
    session = Session(model, made, chosen, recorder, workspace or Workspace())
    return installed(model, session, recorder, recorder.release)


def ambient_edits(model: LanguageModel) -> Sequence[Edit]:
    """The edits of the enclosing `edit` context; an error while the model is being captured."""
    model.check_caller()
    outer = SESSIONS.get(model.module)
    if outer is None:
        return []
    if not outer.ambient:
        raise FloatlensError(f"{model.ref} is being captured already; end that capture first")
    return outer.edits


def installed(
    model: LanguageModel, session: Session, result: T, release: Callable[[], None] = lambda: None
) -> Installation[T]:
    """A context in which the module's attention is routed to the session; `with` gives `result`.

    Everything is restored afterwards, including an outer session, and then `release` is called.
    """
    from transformers import AttentionInterface, AttentionMaskInterface

    AttentionInterface.register(IMPLEMENTATION, _streamed)
    AttentionMaskInterface.register(IMPLEMENTATION, describe_mask)
    return Installation(model, session, IMPLEMENTATION, result, release)
