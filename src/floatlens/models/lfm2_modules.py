"""LFM2 read in both directions: transformers' Lfm2 with full attention and centred short convolutions."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from transformers import Lfm2Config, Lfm2ForCausalLM
from transformers.models.lfm2.modeling_lfm2 import Lfm2ShortConv

__all__ = ["CentredShortConv", "Lfm2BidirectionalForMaskedLM"]


class CentredShortConv(Lfm2ShortConv):
    """The gated short convolution with as many taps behind a position as before it (one more before, if even)."""

    kept: Tensor | None = None
    """(batch, position), set by edits: what is left of what the taps read at a position; 0 where it is left out."""
    held: tuple[Tensor, tuple[Tensor]] | None = None
    """Set by edits: the positions (batch, position) at which the taps read what is given instead."""

    def forward(self, hidden_states: Tensor, attention_mask: Tensor | None = None, **_: Any) -> Tensor:
        """(batch, position, width); padding is zeroed before it is read."""
        gated, gate = self.gated(hidden_states, attention_mask)
        size = self.conv_kernel_size
        mixed = nn.functional.conv1d(
            gated.transpose(1, 2), self.conv.weight, self.conv.bias, padding=size // 2, groups=gated.shape[-1]
        )[..., : gated.shape[1]]
        out: Tensor = self.out_proj(gate * mixed.transpose(1, 2))
        return out

    def gated(self, hidden_states: Tensor, attention_mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """B ∘ x, which is convolved, and C, by which the result is multiplied; both (batch, position, width)."""
        if attention_mask is not None:
            hidden_states = hidden_states * attention_mask[..., None].to(hidden_states.dtype)
        before, after, states = self.in_proj(hidden_states).chunk(3, dim=-1)
        gated = before * states
        if self.held is not None:
            at, (read,) = self.held
            gated = torch.where(at[..., None], read.to(gated.dtype), gated)
        return gated if self.kept is None else gated * self.kept[..., None].to(gated.dtype), after


class Lfm2BidirectionalForMaskedLM(Lfm2ForCausalLM):  # type: ignore[no-untyped-call]
    """The causal class with its convolutions replaced; parameter names stay the same."""

    def __init__(self, config: Lfm2Config) -> None:
        super().__init__(config)  # type: ignore[no-untyped-call]
        for index, layer in enumerate(self.model.layers):
            if layer.is_attention_layer:
                layer.self_attn.is_causal = False
            else:
                layer.conv = CentredShortConv(config, index)
