"""Which keys each query may see, for one block of queries at a time.

transformers calls the registered mask function once per pass; ours returns a small description instead of a (query,
key) tensor, so masks take no memory at any length.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from floatlens.attention.host import moved
from floatlens.models.visibility import Visibility

__all__ = ["HIDDEN", "BlockMask", "as_block_mask", "describe_mask"]

HIDDEN = -30000.0
"""Logit of a key that a query cannot see. Its weight is exactly 0; being finite, 0 times it is 0 too."""


@dataclass(frozen=True)
class BlockMask:
    """Visibility of `kv_length` keys from `q_length` queries that begin at absolute position `q_offset`.

    `causal` and `full` are the two patterns with a fast path; `rule` is transformers' own (batch, head, query, key)
    predicate for every other one (sliding windows, packed sequences); `blocks` says which blocks each query sees, for
    block diffusion; `padding` is (batch, key), True for real tokens.
    """

    q_length: int
    kv_length: int
    q_offset: int = 0
    kv_offset: int = 0
    causal: bool = False
    rule: Callable[..., Any] | None = None
    padding: Tensor | None = None
    explicit: Tensor | None = None
    """A ready-made (batch, 1 or head, query, key) mask: bool, or additive float."""
    blocks: Visibility | None = None

    @classmethod
    def of(cls, visible: Visibility) -> BlockMask:
        """The mask of a pass whose model says what each query sees."""
        keys = visible.blocks.shape[1]
        visible.bounds  # noqa: B018 (worked out before the first layer, as it is read from the device)
        padding = None if visible.real is None or bool(visible.real.all()) else visible.real
        return cls(keys - visible.offset, keys, visible.offset, padding=padding, blocks=visible)

    @property
    def irregular(self) -> bool:
        """Whether queries may see something else than all keys or those up to their own position."""
        return self.rule is not None or self.explicit is not None or self.blocks is not None

    def key_stop(self, stop: int) -> int:
        """One past the last key that queries before `stop` can see."""
        if self.blocks is not None:
            return int(self.blocks.bounds[1][:stop].max())
        return min(self.kv_length, self.q_offset + stop - self.kv_offset) if self.causal else self.kv_length

    def hide(self, logits: Tensor, start: int, stop: int, batch: slice, heads: slice) -> None:
        """Set the logits of invisible keys to `HIDDEN`, in place. logits: (batch, head, stop − start, key_stop)."""
        if self.explicit is not None:
            self._hide_explicit(logits, start, stop, batch, heads)
            return
        device = logits.device
        if self.causal:
            first = max(0, self.q_offset + start - self.kv_offset)
            future = self._keys(first, logits.shape[-1], device) > self._queries(start, stop, device)[:, None]
            logits[..., first:].masked_fill_(future, HIDDEN)
        elif self.blocks is not None:
            keys, first = logits.shape[-1], int(self.blocks.bounds[0][start:stop].min())
            if first < keys:
                seen = self.blocks.rows(start, stop, batch, first, keys)
                logits[..., first:].masked_fill_(~moved(seen, device), HIDDEN)
        elif self.rule is not None:
            visible = self._by_rule(start, stop, logits.shape[-1], batch, device)
            logits.masked_fill_(~visible, HIDDEN)
        if self.padding is not None:
            self._hide_padding(self.padding, logits, batch)

    def _hide_padding(self, padding: Tensor, logits: Tensor, batch: slice) -> None:
        if logits.device.type == "cpu":  # writes the padded columns alone; a masked fill takes longer than the product
            for sample, runs in zip(logits, self._padded[batch], strict=True):
                for run in runs:
                    sample[..., run].fill_(HIDDEN)
            return
        real = moved(padding[batch, None, None, : logits.shape[-1]], logits.device)
        logits.masked_fill_(~real, HIDDEN)

    @cached_property
    def _padded(self) -> list[list[slice]]:
        """The runs of padded keys of each sample."""
        assert self.padding is not None
        edges = torch.nn.functional.pad(~self.padding, (1, 1)).char().diff(dim=1)
        return [
            [
                slice(*run)
                for run in zip((row == 1).nonzero()[:, 0].tolist(), (row == -1).nonzero()[:, 0].tolist(), strict=True)
            ]
            for row in edges.cpu()
        ]

    def visible(self, start: int, stop: int, batch: int, device: torch.device) -> Tensor:
        """(batch, 1 or head, stop − start, key), True where query sees key. One block of rows at a time, as `hide`."""
        heads = slice(0, 1 if self.explicit is None else self.explicit.shape[1])
        seen = self.sees(start, stop, slice(0, batch), heads, self.key_stop(stop), device)
        return torch.nn.functional.pad(seen, (0, self.kv_length - seen.shape[-1]))

    def sees(self, start: int, stop: int, batch: slice, heads: slice, keys: int, device: torch.device) -> Tensor:
        """The same for some samples and heads and the first `keys` keys, at most `key_stop`."""
        size = (batch.stop - batch.start, heads.stop - heads.start, stop - start, keys)
        logits = torch.zeros(size, device=device)
        self.hide(logits, start, stop, batch, heads)
        return logits > HIDDEN / 2

    def _hide_explicit(self, logits: Tensor, start: int, stop: int, batch: slice, heads: slice) -> None:
        given = self.explicit
        assert given is not None
        rows = given[batch if given.shape[0] > 1 else slice(None)]
        rows = rows[:, heads if given.shape[1] > 1 else slice(None), start:stop, : logits.shape[-1]]
        if rows.dtype == torch.bool:
            logits.masked_fill_(~rows, HIDDEN)
        else:
            logits.add_(rows.float()).clamp_(min=HIDDEN)

    def _by_rule(self, start: int, stop: int, keys: int, batch: slice, device: torch.device) -> Tensor:
        assert self.rule is not None
        b = torch.arange(batch.start, batch.stop, device=device)[:, None, None, None]
        h = torch.zeros(1, 1, 1, 1, dtype=torch.long, device=device)
        q = self._queries(start, stop, device)[None, None, :, None]
        visible: Tensor = self.rule(b, h, q, self._keys(0, keys, device)[None, None, None, :])
        return visible

    def _queries(self, start: int, stop: int, device: torch.device) -> Tensor:
        return torch.arange(start, stop, device=device) + self.q_offset

    def _keys(self, start: int, stop: int, device: torch.device) -> Tensor:
        return torch.arange(start, stop, device=device) + self.kv_offset


def describe_mask(
    batch_size: int,
    q_length: int,
    kv_length: int,
    q_offset: int = 0,
    kv_offset: int = 0,
    mask_function: Callable[..., Any] | None = None,
    attention_mask: Tensor | None = None,
    **_: Any,
) -> BlockMask:
    """The mask function registered with transformers: describes the mask, builds nothing."""
    from transformers.masking_utils import bidirectional_mask_function, causal_mask_function

    padding = None
    if attention_mask is not None:
        padding = attention_mask[:, kv_offset : kv_offset + kv_length].to(torch.bool)
        padding = None if bool(padding.all()) else padding
    causal = mask_function is causal_mask_function
    plain = causal or mask_function is bidirectional_mask_function
    return BlockMask(q_length, kv_length, int(q_offset), kv_offset, causal, None if plain else mask_function, padding)


def as_block_mask(mask: object, q_length: int, kv_length: int, is_causal: bool) -> BlockMask:
    """What an attention module was handed, as a `BlockMask`: ours, a 4D tensor of the caller's, or nothing."""
    if isinstance(mask, BlockMask):
        return mask
    if isinstance(mask, Tensor):
        return BlockMask(q_length, kv_length, explicit=mask)
    return BlockMask(q_length, kv_length, q_offset=kv_length - q_length, causal=is_causal and q_length > 1)
