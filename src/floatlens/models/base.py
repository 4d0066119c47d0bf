"""`LanguageModel`: one interface for every family, so decoding and capture need not know the family.

It wraps a transformers module and adds what diffusion decoding needs to know: the mask token, whether logits are
shifted, and logits at chosen rows only. It does not sample, and it does not look at attention.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn

from floatlens.core.errors import FloatlensError
from floatlens.models.caller import OneCaller, alone
from floatlens.models.chosen_rows import chosen_rows, short_tail
from floatlens.models.finite import check_logits
from floatlens.models.observer import PassObserver
from floatlens.models.told import check_block_size
from floatlens.models.visibility import Visibility, causal_blocks, layers_with_attention, position_blocks

if TYPE_CHECKING:
    from transformers import Cache, PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

    from floatlens.models.course import Course

__all__ = ["Attention", "Kind", "LanguageModel", "Pass", "PassObserver"]

Kind = Literal["arm", "mdm"]
Attention = Literal["causal", "full", "block", "block_causal"]

_POSITION_WISE = frozenset({"LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM"})
"""Classes whose last layer may skip rows: after its attention every position goes its own way to the head."""


@dataclass(frozen=True)
class Pass:
    """What one forward pass is about to work on; handed to observers before the module runs.

    `ids` and `attention_mask` are (batch, query) and (batch, key): with a cache the keys reach back over what it holds,
    and `offset` is the number of cached keys before the first query.
    """

    ids: Tensor
    attention_mask: Tensor | None
    offset: int
    needed: Tensor | None = None
    """(query,) bool: the rows that the last layer computes in full; None when it computes all of them."""
    visible: Visibility | None = None
    """What each query sees, where that is neither all keys nor those before it."""
    keep: bool = False
    """Whether a cache holds this pass's keys afterwards."""
    step: bool = True
    """Whether the pass is a step of decoding; one that only fills the cache is not."""
    asked: Tensor | None = None
    """(query,) bool: rows whose logits are asked for; None where all are."""
    continues: bool | None = None
    """Whether the pass belongs to the same decoding run as the last one; None where the caller does not say."""


@dataclass(eq=False, repr=False)
class LanguageModel(OneCaller):
    """A loaded model. `kind` is "arm" (autoregressive) or "mdm" (masked diffusion).

    `shift` says that the logits of row i decide position i + 1. `head` is the module whose input is cut to the rows
    that `logits_at` asks for (None: the module's output embedding). `position_offset` is what an absolute position
    table adds to a position (RoBERTa: padding_idx + 1). `attention` is "causal", "full", "block_causal" (a position
    sees its block of `block_size` positions and all blocks before), or "block": causal, but what is being written is
    bidirectional in itself; it follows from `kind` unless given.
    `control` is set on a model that serves as a control of another (see `shuffled`): `of` is that model's reference,
    `kind` and `seed` say how it was made. `course` is set on a snapshot of a training course; its traces carry it.

    Example: `fl.load("scale:llada").forward(torch.tensor([[5, 7, 9]])).shape  # (batch, position, vocabulary)`
    """

    module: PreTrainedModel
    family: str
    kind: Kind
    ref: str
    shift: bool
    mask_id: int | None = None
    tokenizer: PreTrainedTokenizerBase | None = None
    bos_id: int | None = None
    eos_ids: tuple[int, ...] = ()
    pad_id: int | None = None
    max_length: int | None = None
    revision: str | None = None
    head: nn.Module | None = None
    position_offset: int = 0
    attention: Attention | None = None
    block_size: int | None = None
    control: Mapping[str, Any] | None = None
    sampler: str | None = None
    """The sampler that `decode` takes unless told otherwise; None: the one that goes with `kind` and `shift`."""
    course: Course | None = None
    observers: list[PassObserver] = field(default_factory=list)
    whole_rows: bool = False
    """The last layer computes all rows, also those whose logits nobody asks for; set while its output is observed."""
    describes_masks: bool = False
    """The attention function reads `Pass.visible`, so no (query, key) mask is built; set while it is captured."""

    def __post_init__(self) -> None:
        self._peak: Tensor | None = None
        if self.kind == "mdm" and self.mask_id is None:
            raise FloatlensError(f"{self.ref}: a masked diffusion model needs a mask token, and none was given")
        if self.attention is None:
            self.attention = "causal" if self.kind == "arm" else "full"
        if self.attention == "block_causal":
            check_block_size(self.block_size)
        self.module.train(False)
        self.module.requires_grad_(False)

    def __repr__(self) -> str:
        kind = "autoregressive" if self.kind == "arm" else "masked diffusion"
        return (
            f"LanguageModel({self.ref!r}: family {self.family}, {kind}, {self.num_layers} layers × {self.num_heads} "
            f"heads, vocabulary {self.vocab_size}, {str(self.dtype).removeprefix('torch.')} on {self.device})"
        )

    # -- facts of the configuration -------------------------------------------------------------------------------

    @property
    def config(self) -> PreTrainedConfig:
        """The configuration of the text model (a multimodal checkpoint nests it)."""
        text: PreTrainedConfig = self.module.config.get_text_config()
        return text

    @property
    def num_layers(self) -> int:
        return self._number("num_hidden_layers")

    @property
    def num_heads(self) -> int:
        return self._number("num_attention_heads")

    @property
    def attention_layers(self) -> tuple[int, ...]:
        return layers_with_attention(getattr(self.config, "layer_types", None), self.num_layers)

    @property
    def num_kv_heads(self) -> int:
        given = getattr(self.config, "num_key_value_heads", None)
        return self.num_heads if given is None else int(given)

    @property
    def head_dim(self) -> int:
        given = getattr(self.config, "head_dim", None)
        return self._number("hidden_size") // self.num_heads if given is None else int(given)

    @property
    def vocab_size(self) -> int:
        return self._number("vocab_size")

    @property
    def device(self) -> torch.device:
        """Where ids go; with a `device_map` that is where the embedding lives."""
        return self._embedding.device

    @property
    def dtype(self) -> torch.dtype:
        return self._embedding.dtype

    @property
    def full_passes(self) -> bool:
        """Whether an observer needs every pass in full, as edits do; samplers then use no cache for blocks."""
        return any(getattr(observer, "full_passes", False) for observer in self.observers)

    # -- running --------------------------------------------------------------------------------------------------

    @torch.inference_mode()
    @alone
    def forward(
        self,
        ids: Tensor,
        attention_mask: Tensor | None = None,
        positions: Tensor | None = None,
        logits_at: Tensor | None = None,
        *,
        writing: Tensor | None = None,
        blocks: Tensor | None = None,
        cache: Cache | None = None,
        keep: bool = True,
        step: bool = True,
        continues: bool | None = None,
        observed: bool = True,
    ) -> Tensor:
        """Raw (never shifted) logits of `ids` (batch, query).

        `attention_mask` (batch, key), 1 for a real token, spans all keys, cached ones included. `positions` (batch,
        query) defaults to counting real tokens, so padding on either side moves no token. `logits_at`: None gives
        (batch, query, vocabulary); a 1-D tensor of rows (batch, rows, vocabulary); a 2-D bool tensor (batch, query)
        (true entries, vocabulary), row by row; only those rows go through the head. `writing` (batch, query) bool marks
        what is being written, for block attention (None: the masks). `blocks` (batch, key) are block numbers that
        replace the model's own mask: a query sees the keys whose number is not larger than its own. `cache` is updated
        in place, or left as it was with `keep=False`. `step=False` marks a pass that only fills the cache;
        `continues` says whether the pass belongs to the run of the last one, where ids do not show it;
        `observed=False` leaves the observers out of this pass.
        """
        if cache is not None and not keep and not cache.get_seq_length():
            cache = None  # nothing to read, and nothing is to be kept
        offset = self._check(ids, attention_mask, logits_at, cache, blocks)
        ids = ids.to(self.device)
        mask = None if attention_mask is None else attention_mask.to(self.device)
        inputs = self._inputs(ids, mask, positions, offset, cache)
        visible = self._visible(ids, mask, positions, offset, writing, blocks)
        if visible is not None:
            inputs["attention_mask"] = None if self.describes_masks else visible.dense()
        needed, head = self._needed(logits_at), None if logits_at is None else self._output
        asked = logits_at.any(0) if logits_at is not None and logits_at.ndim == 2 else None
        info = Pass(ids, mask, offset, needed, visible, keep and cache is not None, step, asked, continues)
        try:
            with self._announce(info, observed), chosen_rows(head, logits_at), short_tail(self._last_layer, needed):
                logits: Tensor = self.module(**inputs).logits
        finally:
            if cache is not None and not keep:
                cache.crop(offset - int(cache.get_seq_length()))
        self._peak = check_logits(self, logits, self._peak, inputs if cache is None else None)
        return logits[0] if logits_at is not None and logits_at.ndim == 2 else logits

    def new_cache(self, *, own_blocks: bool = False) -> Cache:
        """An empty key/value cache that keeps every key, for `forward(cache=...)`.

        `own_blocks` says that passes bring their own block numbers (`blocks`), as where a causal context precedes what
        is written by a model with full attention.
        """
        from transformers import DynamicCache

        if self.attention == "full" and not own_blocks:
            raise FloatlensError(f"{self.ref} is bidirectional ({self.family}): it has no use for a key/value cache")
        kinds = set(getattr(self.config, "layer_types", None) or ())
        if kinds <= {"full_attention", "sliding_attention"}:
            return DynamicCache()  # told nothing of windows, it drops no key; the mask keeps the window
        return DynamicCache(config=self.config)

    def row_of(self, position: int) -> int:
        """The query whose logits decide `position`; a shifted MDM decides position 0 with row 0."""
        if not self.shift:
            return position
        if position == 0 and self.kind == "arm":
            raise FloatlensError("no row of an autoregressive model decides position 0: it is always given")
        return max(position - 1, 0)

    # -- inside ---------------------------------------------------------------------------------------------------

    @cached_property
    def _accepts(self) -> frozenset[str]:
        """Names of the module's forward arguments; what **kwargs would swallow may be dropped on the way."""
        return frozenset(inspect.signature(self.module.forward).parameters)

    @property
    def _embedding(self) -> Tensor:
        embedding: Any = self.module.get_input_embeddings()
        weight: Tensor = embedding.weight
        return weight

    def _number(self, name: str) -> int:
        value = getattr(self.config, name, None)
        if not isinstance(value, int):
            raise FloatlensError(f"{self.ref}: its configuration has no `{name}`, which floatlens needs")
        return value

    def _check(
        self, ids: Tensor, mask: Tensor | None, logits_at: Tensor | None, cache: Cache | None, blocks: Tensor | None
    ) -> int:
        """Refuse shapes that torch would broadcast into something else; give the number of cached keys."""
        if ids.ndim != 2:
            raise FloatlensError(f"ids must be (batch, query), not {tuple(ids.shape)}")
        if cache is not None and blocks is None and self.attention in ("full", "block"):
            raise FloatlensError(f"{self.ref} is bidirectional ({self.family}): it cannot use a key/value cache")
        offset = 0 if cache is None else int(cache.get_seq_length())
        keys = (ids.shape[0], offset + ids.shape[1])
        if mask is not None and tuple(mask.shape) != keys:
            raise FloatlensError(f"attention_mask must be (batch, key) = {keys}, not {tuple(mask.shape)}")
        if blocks is not None and tuple(blocks.shape) != keys:
            raise FloatlensError(f"blocks must be (batch, key) = {keys}, not {tuple(blocks.shape)}")
        if logits_at is None:
            return offset
        by_mask = logits_at.dtype == torch.bool and logits_at.shape == ids.shape
        by_row = logits_at.dtype == torch.long and logits_at.ndim == 1
        if not (by_mask or by_row):
            raise FloatlensError(
                f"logits_at must be 1-D long (rows) or bool {tuple(ids.shape)}, "
                f"not {logits_at.dtype} {tuple(logits_at.shape)}"
            )
        return offset

    def _inputs(
        self, ids: Tensor, mask: Tensor | None, positions: Tensor | None, offset: int, cache: Cache | None
    ) -> dict[str, Any]:
        inputs: dict[str, Any] = {"input_ids": ids, "attention_mask": mask}
        if mask is None and positions is not None:
            # Without a mask transformers reads a gap in the positions as the seam between two packed sequences.
            inputs["attention_mask"] = ids.new_ones((ids.shape[0], offset + ids.shape[1]))
        if "position_ids" in self._accepts:
            inputs["position_ids"] = self._positions(ids, mask, positions, offset)
        elif positions is not None:
            raise FloatlensError(f"{self.ref}: {type(self.module).__name__} takes no positions")
        if "use_cache" in self._accepts:
            inputs["use_cache"] = cache is not None
        if cache is not None:
            inputs["past_key_values"] = cache
        return inputs

    def _visible(
        self,
        ids: Tensor,
        mask: Tensor | None,
        positions: Tensor | None,
        offset: int,
        writing: Tensor | None,
        blocks: Tensor | None,
    ) -> Visibility | None:
        """What each query sees; None for full and causal attention, whose masks transformers makes."""
        together, (batch, keys) = None, (ids.shape[0], offset + ids.shape[1])
        if blocks is not None:
            blocks = blocks.to(ids.device)
        elif self.attention == "block":
            assert self.mask_id is not None  # block attention is for what writes by filling masks
            together = ids.eq(self.mask_id) if writing is None else writing.to(ids.device)
            if together.shape != ids.shape:
                raise FloatlensError(f"writing must be {tuple(ids.shape)} as ids, not {tuple(together.shape)}")
            blocks = causal_blocks(batch, keys, ids.device)
        elif self.attention == "block_causal":
            assert self.block_size is not None
            if positions is not None and offset:
                raise FloatlensError("positions with a cache leave the blocks of cached keys open; give blocks as well")
            if positions is None:
                real = torch.ones(batch, keys, dtype=torch.long, device=ids.device) if mask is None else mask.long()
                positions = (real.cumsum(dim=1) - 1).clamp(min=0)
            blocks = position_blocks(positions.to(ids.device), self.block_size)
        else:
            return None
        return Visibility(blocks, offset, None if mask is None else mask.bool(), together)

    def _positions(self, ids: Tensor, mask: Tensor | None, positions: Tensor | None, offset: int) -> Tensor:
        length = ids.shape[1]
        if positions is not None:
            if positions.shape != ids.shape:
                raise FloatlensError(f"positions must be {tuple(ids.shape)} as ids, not {tuple(positions.shape)}")
            positions = positions.to(ids.device)
        elif mask is not None:
            positions = (mask.long().cumsum(dim=1) - 1).clamp(min=0)[:, offset : offset + length]
        else:
            positions = torch.arange(offset, offset + length, device=ids.device).expand(ids.shape[0], -1)
        if self._table is not None and int(positions.max()) >= self._table:
            raise FloatlensError(
                f"{self.ref} has {self._table} positions and was given a sequence that needs {int(positions.max()) + 1}"
            )
        return positions + self.position_offset

    @cached_property
    def _table(self) -> int | None:
        """Length of a learned position table, past which there is nothing to look up; None for rotary models."""
        for name, part in self.module.named_modules():
            if isinstance(part, nn.Embedding) and name.rsplit(".", 1)[-1] in ("position_embeddings", "wpe"):
                return int(part.num_embeddings) - self.position_offset
        return None

    @contextmanager
    def _announce(self, info: Pass, observed: bool) -> Iterator[None]:
        """Tell the observers; whoever was told of a beginning is told of the end, also when something raises."""
        told: list[PassObserver] = []
        try:
            for observer in self.observers if observed else ():
                told.append(observer)
                observer.begin(info)
            yield
        finally:
            for observer in reversed(told):
                observer.end()

    @cached_property
    def _last_layer(self) -> nn.Module | None:
        """The last layer of the classes whose layers are known to be attention, then a position-wise MLP; else None."""
        if type(self.module).__name__ not in _POSITION_WISE:
            return None
        layers: Any = self.module.get_submodule("model.layers")
        return layers[-1]  # type: ignore[no-any-return]

    def _needed(self, logits_at: Tensor | None) -> Tensor | None:
        """(query,) bool: rows that the last layer has to finish, where it can leave the others out."""
        if self.whole_rows or logits_at is None or logits_at.ndim != 2 or self._last_layer is None:
            return None
        needed: Tensor = logits_at.any(0)
        return needed

    @property
    def _output(self) -> nn.Module:
        """The module whose input is cut to the chosen rows."""
        head: Any = self.head if self.head is not None else self.module.get_output_embeddings()  # type: ignore[no-untyped-call]
        if head is None:
            raise FloatlensError(f"{type(self.module).__name__} names no output embedding, so no rows can be chosen")
        found: nn.Module = head
        return found
