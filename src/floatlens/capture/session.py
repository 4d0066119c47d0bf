"""`capture`: a context in which a model's attention runs through the streamed function, past probes and edits.

The session follows passes (as an observer of the model), layers (as they call the attention function) and commits (as
the decoder reports them). It restores the model whatever happens, and it computes no statistic itself: probes do.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from floatlens.capture.attention import Block, attend
from floatlens.capture.edit import Edit, Site
from floatlens.capture.mask import BlockMask, as_block_mask, describe_mask
from floatlens.capture.probe import Layer, Layout, PassState, Probe, Shape, make_probes
from floatlens.capture.recorder import Recorder
from floatlens.capture.select import Select
from floatlens.capture.soften import Workspace
from floatlens.errors import FloatlensError
from floatlens.models.base import LanguageModel, Pass

__all__ = ["Session", "capture"]

MANY_STEPS = 1 << 20
"""Upper bound where a caller does not say how many steps there will be."""
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
        self, model: LanguageModel, probes: list[Probe], edits: list[Edit], recorder: Recorder, workspace: Workspace
    ) -> None:
        self.model = model
        self.probes = probes
        self.edits = edits
        self.recorder = recorder
        self.workspace = workspace
        self.needs = frozenset(need for probe in probes for need in probe.needs)
        self.state: PassState | None = None
        self._residual: Tensor | None = None
        self._calls = 0

    # -- what the model tells us ----------------------------------------------------------------------------------

    def begin(self, info: Pass) -> None:
        self._calls = 0
        self.state = self.recorder.open_pass(self.model, info)

    def end(self) -> None:
        self.recorder.close_pass()
        self.state = None

    def note_residual(self, _: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Forward pre-hook of every layer: the state that enters it."""
        self._residual = args[0] if args else kwargs["hidden_states"]

    # -- what a layer asks for ------------------------------------------------------------------------------------

    def attention(
        self, module: nn.Module, query: Tensor, key: Tensor, value: Tensor, mask: BlockMask, scaling: float, **how: Any
    ) -> Tensor:
        layer_idx = getattr(module, "layer_idx", None)
        index = self._calls if layer_idx is None else int(layer_idx)
        self._calls += 1
        if self.state is None:
            return attend(query, key, value, mask, scaling=scaling, workspace=self.workspace, **how)
        layer = Layer(index, query, key, value, mask, scaling, self.state, residual=self._residual)
        watched = self.recorder.wants(layer)
        edits = [edit for edit in self.edits if _applies(edit, layer, self.model, self.recorder.max_steps)]
        for edit in edits:
            edit.begin_layer(layer)
        visit = self._visitor(layer) if watched else None
        out = attend(
            query,
            key,
            value,
            mask,
            scaling=scaling,
            workspace=self.workspace,
            visit=visit,
            classes=self.state.classes if watched and "columns" in self.needs else None,
            needed=self.state.needed if index == self.model.num_layers - 1 else None,
            with_entropy=watched and "entropy" in self.needs,
            edit_logits=_chain(edits, layer, self.model, "logits"),
            edit_weights=_chain(edits, layer, self.model, "weights"),
            **how,
        )
        if watched:
            for probe in self.probes:
                self.recorder.take(probe, layer)
        for edit in edits:
            edit.end_layer(layer)
        return out

    def _visitor(self, layer: Layer) -> Callable[[Block], None]:
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

        return visit


def _applies(edit: Edit, layer: Layer, model: LanguageModel, max_steps: int) -> bool:
    if layer.index not in edit.select.layer_ids(model.num_layers):
        return False
    return edit.select.has_step(layer.state.step, max_steps)


def _chain(edits: list[Edit], layer: Layer, model: LanguageModel, what: str) -> Any:
    """One function that applies the edits of this layer in order, each to the heads it selects; None without any."""
    active = [edit for edit in edits if getattr(edit, f"edits_{what}")]
    if not active:
        return None

    def apply(batch: slice, heads: slice, queries: slice, values: Tensor) -> Tensor | None:
        changed = False
        for edit in active:
            new = getattr(edit, what)(Site(layer, batch, heads, queries), values.clone())
            if new is None:
                continue
            changed = True
            chosen = [h - heads.start for h in edit.select.head_ids(model.num_heads) if heads.start <= h < heads.stop]
            if len(chosen) == values.shape[1]:
                values = new
            else:
                values[:, chosen] = new[:, chosen]
        return values if changed else None

    return apply


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
    return session.attention(module, query, key, value, mask, scale, softcap=softcap), None


@contextmanager
def capture(
    model: LanguageModel,
    probes: Sequence[str | Probe] = (),
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

    `layout` names the regions of the sequence (default: everything is "query"), `steps` and `length` are upper bounds
    of the run, needed by probes that check their size and for room to grow.

    Example: `with capture(model, ["received"]) as rec: model.forward(ids)`
    """
    made = make_probes(probes)
    if model.module in _SESSIONS:
        raise FloatlensError(f"{model.ref} is being captured already; end that capture first")
    for probe in made:
        probe.prepare(Shape(model.num_layers, model.num_heads, steps, length or model.max_length or 0))
    recorder = Recorder(model, made, layout, select or Select(), steps, length, mean_heads)
    session = Session(model, made, list(edits), recorder, workspace or Workspace())
    with ExitStack() as stack:
        stack.callback(recorder.release)
        stack.enter_context(_installed(model, session))
        yield recorder


@contextmanager
def _installed(model: LanguageModel, session: Session) -> Iterator[None]:
    """Route the module's attention to the session, and put everything back afterwards."""
    from transformers import AttentionInterface, AttentionMaskInterface

    AttentionInterface.register(IMPLEMENTATION, _streamed)
    AttentionMaskInterface.register(IMPLEMENTATION, describe_mask)
    module = model.module
    before = module.config._attn_implementation
    hooks = []
    try:
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
