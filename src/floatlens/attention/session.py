"""`capture`: a context in which a model's attention runs through the streamed function, past probes and edits.

The session follows passes (as an observer of the model), layers (as they call the attention function) and commits (as
the decoder reports them). It restores the model whatever happens, and it computes no statistic itself: probes do.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor, nn

from floatlens.attention.blocks import Block, attend
from floatlens.attention.edit import Edit
from floatlens.attention.edit_hooks import applies, changes
from floatlens.attention.mask import BlockMask, as_block_mask, describe_mask
from floatlens.attention.probe import Layer, Layout, PassState, Probe, Shape
from floatlens.attention.received import ReceivedAttention, last_rows
from floatlens.attention.recorder import Recorder
from floatlens.attention.run_tracker import RunTracker
from floatlens.attention.select import Select
from floatlens.attention.softmax import Workspace
from floatlens.core.errors import FloatlensError
from floatlens.models.base import LanguageModel, Pass

__all__ = ["MANY_STEPS", "Session", "ambient_edits", "capture", "installed"]

MANY_STEPS = 1 << 20
"""Upper bound where a caller does not say how many steps there will be."""
Before = Callable[[list[Block]], None]
"""What looks at all blocks of some heads before any of them is edited."""
IMPLEMENTATION = "floatlens_streamed"
_SESSIONS: WeakKeyDictionary[nn.Module, Session] = WeakKeyDictionary()

_HARMLESS = frozenset(
    {
        "cache_position",
        "deterministic",
        "is_causal",
        "layer_idx",
        "logits_to_keep",
        "output_attentions",
        "output_hidden_states",
        "output_router_logits",
        "past_key_value",
        "past_key_values",
        "position_embeddings",
        "position_ids",
        "return_dict",
        "sliding_window",
        "use_cache",
    }
)
"""Arguments that models pass along and that change no weight (the mask already carries windows and causality)."""


class Session:
    """One capture under way; made by `capture`. `recorder` holds what the probes found, a record per pass."""

    def __init__(
        self,
        model: LanguageModel,
        probes: list[Probe],
        edits: Sequence[Edit],
        recorder: Recorder,
        workspace: Workspace,
        ambient: bool = False,
    ) -> None:
        self.model = model
        self.probes = probes
        self.edits = [edit for edit in edits if edit.active]
        self.ambient = ambient
        """Opened by `edit`: it gives way to a capture, which takes its edits over; steps count anew in each run."""
        self.timeline = RunTracker(model) if self.edits else None
        self.recorder = recorder
        self.workspace = workspace
        self.needs = frozenset(need for probe in probes for need in probe.needs)
        self.state: PassState | None = None
        self._residual: Tensor | None = None
        self._calls = 0

    # -- what the model tells us ----------------------------------------------------------------------------------

    def begin(self, info: Pass) -> None:
        self._calls = 0
        position = None if self.timeline is None else self.timeline.follow(info)
        if self.ambient and position is not None:
            self.recorder.passes = position.step
        self.state = self.recorder.open_pass(self.model, info)
        self.state.position = position

    def end(self) -> None:
        self.recorder.close_pass()
        self.state = None

    def note_residual(self, _: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Forward pre-hook of every layer: the state that enters it."""
        self._residual = args[0] if args else kwargs["hidden_states"]

    # -- what a layer asks for ------------------------------------------------------------------------------------

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
        run = partial(attend, query, key, value, mask, scaling=scaling, softcap=softcap, workspace=self.workspace)
        if self.state is None:
            return run()
        layer = Layer(index, query, key, value, mask, scaling, self.state, residual=self._residual, softcap=softcap)
        watched = self.recorder.wants(layer)
        edits, before = self._begin_edits(layer, run) if self.edits else ([], None)
        review = ReceivedAttention(layer) if any(edit.wants_review(layer) for edit in edits) else None
        columns = watched and "columns" in self.needs
        gathered = not self.state.causal and (review is not None or before is not None)
        out = run(
            visit=self._visitor(layer, watched, review),
            before=before,
            classes=self.state.classes if columns or gathered else None,
            needed=self.state.needed if index == self.model.num_layers - 1 else None,
            with_entropy=watched and "entropy" in self.needs,
            **changes(edits, layer, self.model),
        )
        if watched:
            for probe in self.probes:
                self.recorder.take(probe, layer)
        for edit in edits:
            if review is not None and edit.wants_review(layer):
                edit.review(layer, review.received)
            edit.end_layer(layer)
        return out

    def _begin_edits(self, layer: Layer, run: Callable[..., Tensor]) -> tuple[list[Edit], Before | None]:
        """The edits that take part in this layer; those that ask for it have looked ahead, or will between the blocks.

        A look ahead is a pass over the layer's blocks without values, with every edit of logits but the one that looks,
        and with the edits of weights that stand before it. Most looks need less: see `_look`.
        """
        edits = [edit for edit in self.edits if applies(edit, layer, self.model, self.recorder.max_steps)]
        for edit in edits:
            edit.begin_layer(layer)
        looking = [at for at, edit in enumerate(edits) if edit.wants_preview(layer)]
        before = None
        for at in looking:
            earlier = [other for other in edits[:at] if other.edits_weights and other.acts(layer)]
            alone = edits[at].edits_weights and not earlier and len(looking) == 1
            before = self._look(layer, run, edits, at, alone)
        return edits, before

    def _look(self, layer: Layer, run: Callable[..., Tensor], edits: list[Edit], at: int, alone: bool) -> Before | None:
        """Show one edit what the keys would receive without it.

        The first edit of weights, and the only one that looks, needs no pass of its own: as much of a layer as may be
        kept is shown to it before any of that is edited. Of an autoregressive pass the last rows are enough.
        """
        edit, gather, state = edits[at], ReceivedAttention(layer), layer.state
        groups = layer.query.shape[1] // layer.key.shape[1]
        rows = slice(0, state.queries)
        if alone and state.causal and state.queries > 1:
            last = last_rows(layer)
            rows = slice(int(last.min()), int(last.max()) + 1)
        elif alone and self.workspace.keeps(state.queries, layer.key.shape[2], groups):

            def before(blocks: list[Block]) -> None:
                for block in blocks:
                    gather.block(block)
                samples, heads = blocks[0].batch, blocks[0].heads
                edit.preview(layer, gather.received[samples, heads], samples, heads)

            return before
        others = [other for other in edits if other is not edit and not other.edits_weights]
        told = changes([*(e for e in edits[:at] if e.edits_weights), *others], layer, self.model, lookahead=True)
        unused = np.zeros(state.queries, dtype=bool)
        run(visit=gather.block, classes=gather.classes, needed=unused, within=rows, **told)
        edit.preview(layer, gather.received, *(slice(0, size) for size in layer.query.shape[:2]))
        return None

    def _visitor(self, layer: Layer, watched: bool, review: ReceivedAttention | None) -> Callable[[Block], None] | None:
        if not watched:
            return None if review is None else review.block
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
            if review is not None:
                review.block(block)

        return visit


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
    """The attention function that transformers calls; finds the session of the module it serves."""
    for name, given in kwargs.items():
        if given is not None and name not in _HARMLESS:
            raise FloatlensError(
                f'{type(module).__name__} passes "{name}" to its attention, which may change the weights in a way that '
                f"capture does not know; this model cannot be traced yet"
            )
    causal = bool(getattr(module, "is_causal", False)) if is_causal is None else is_causal
    mask = as_block_mask(attention_mask, query.shape[2], key.shape[2], causal)
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    session = _SESSIONS.get(module)
    if session is None:
        name = type(module).__name__
        raise FloatlensError(f"{name} runs the streamed attention outside of a capture; reload the model")
    return session.attention(module, query, key, value, mask, scale, softcap), None


@contextmanager
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
) -> Iterator[Recorder]:
    """Watch every observed pass of `model`; the recorder that is yielded holds what the probes found.

    `layout` names the regions of the sequence (default: everything is "question"). `steps` and `length` are upper
    bounds of the run: probes check their size against them, and arrays are padded to `length`.

    Example: `with capture(model, [Received()]) as rec: model.forward(ids)`
    """
    made = list(probes)
    chosen = [*ambient_edits(model), *edits]
    shape = Shape(model.num_layers, model.num_heads, steps, length or model.max_length or 0)
    for part in made:
        part.prepare(shape)
    for edit in edits:
        edit.prepare(model, shape)
    recorder = Recorder(model, made, layout, select or Select(), steps, length, mean_heads)
    recorder.edits = tuple(chosen)
    session = Session(model, made, chosen, recorder, workspace or Workspace())
    with ExitStack() as stack:
        stack.callback(recorder.release)
        stack.enter_context(installed(model, session))
        yield recorder


def ambient_edits(model: LanguageModel) -> list[Edit]:
    """The edits of the `edit` context that the model is in; an error while it is being captured."""
    outer = _SESSIONS.get(model.module)
    if outer is None:
        return []
    if not outer.ambient:
        raise FloatlensError(f"{model.ref} is being captured already; end that capture first")
    return outer.edits


@contextmanager
def installed(model: LanguageModel, session: Session) -> Iterator[None]:
    """Route the module's attention to the session, and put everything back afterwards, an outer session included."""
    from transformers import AttentionInterface, AttentionMaskInterface

    AttentionInterface.register(IMPLEMENTATION, _streamed)
    AttentionMaskInterface.register(IMPLEMENTATION, describe_mask)
    module = model.module
    before = module.config._attn_implementation
    outer = _SESSIONS.get(module)
    hooks = []
    try:
        if outer is not None:
            model.observers.remove(outer)
        for part in module.modules():
            _SESSIONS[part] = session
        if "residual" in session.needs:
            hooks = [
                layer.register_forward_pre_hook(session.note_residual, with_kwargs=True) for layer in _layers(module)
            ]
        module.set_attn_implementation(IMPLEMENTATION)
        if module.config._attn_implementation != IMPLEMENTATION:  # transformers only logs a warning when it cannot
            name = type(module).__name__
            raise FloatlensError(f"{model.ref}: {name} computes its attention by itself; this model cannot be traced")
        model.observers.append(session)
        yield
    finally:
        if session in model.observers:
            model.observers.remove(session)
        module.set_attn_implementation(before)
        for hook in hooks:
            hook.remove()
        for part in module.modules():
            _SESSIONS.pop(part, None)
            if outer is not None:
                _SESSIONS[part] = outer
        if outer is not None:
            model.observers.append(outer)


def _layers(module: nn.Module) -> list[nn.Module]:
    """The modules whose input is the residual stream: the last numbered ancestor of each attention module."""
    named = dict(module.named_modules())
    found: dict[str, nn.Module] = {}
    for name in named:
        match = re.match(r"(.*\.\d+)\.(?:self_attn|self_attention|attention|attn)(?:\.|$)", name)
        if match:
            found[match[1]] = named[match[1]]
    if not found:
        name = type(module).__name__
        raise FloatlensError(f"{name}: no layers found to read the residual stream from; leave out the probe extremes")
    return list(found.values())
