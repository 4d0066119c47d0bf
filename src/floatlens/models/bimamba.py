"""Bidirectional Mamba (Caduceus) on the parameters of transformers' MambaMixer; no CUDA package is needed.

A layer adds to the residual stream what a scan from the left and a scan from the right write. The reverse-complement
form (PS) carries both strands of DNA as two halves of the channels. Parameter names are those of the published files.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import MambaConfig
from transformers.modeling_outputs import BaseModelOutput, MaskedLMOutput
from transformers.models.mamba.modeling_mamba import MambaMixer, MambaPreTrainedModel, MambaRMSNorm

from .fast_linear import FastLinear, linear
from .selective_scan import selective_scan

__all__ = ["BiMamba", "CaduceusConfig", "CaduceusForMaskedLM", "Scan", "ScanMixer", "StrandsMixer"]


class CaduceusConfig(MambaConfig):  # type: ignore[no-untyped-call]
    """MambaConfig, and whether the directions share projections, and how the two strands are handled."""

    model_type = "caduceus"

    num_attention_heads: int = 1
    """A layer without heads counts as one head."""
    tied_directions: bool = True
    rcps: bool = False
    swaps_strands: bool = False
    complement: list[int] | None = None


@dataclass(frozen=True)
class Scan:
    """What a selective scan reads: y_i = Σ_{j≤i} Σ_n C_i[n] exp(A[n] Σ_{j<k≤i} Δ_k) Δ_j B_j[n] x_j, for each channel.

    `inputs` (x), `delta` (Δ) and `gate` are (batch, position, channel), `before` (B) and `after` (C) are (batch,
    position, state), `decay` (A) is (channel, state), `skip` (D) is (channel,): the output is (y + D x) ∘ gate.
    """

    inputs: Tensor
    delta: Tensor
    before: Tensor
    after: Tensor
    gate: Tensor
    decay: Tensor
    skip: Tensor

    def run(self) -> Tensor:
        """(batch, position, channel): the gated output, by the recurrence."""
        read = selective_scan(self.inputs, self.delta, self.before, self.after, self.decay)
        return (read + self.skip * self.inputs) * self.gate


class ScanMixer(MambaMixer):
    """transformers' MambaMixer with its arithmetic in the open, so contributions can be taken from the same numbers."""

    kept: Tensor | None = None
    """(batch, position), set by edits: False where a position adds nothing to the states (Δ_j B_j x_j is left out)."""

    def __init__(self, config: MambaConfig, layer_idx: int, **more: Any) -> None:
        super().__init__(config, layer_idx, **more)
        for name in ("in_proj", "x_proj", "dt_proj", "out_proj"):
            setattr(self, name, FastLinear.of(getattr(self, name)))

    def scan(self, states: Tensor, attention_mask: Tensor | None = None) -> Scan:
        """The scan of states (batch, position, width); padding adds nothing to it and decays nothing."""
        states = states if attention_mask is None else states * attention_mask[..., None].to(states.dtype)
        return self.scan_projected(self.in_proj(states), attention_mask)

    def scan_projected(self, projected: Tensor, attention_mask: Tensor | None = None) -> Scan:
        """The same from what `in_proj` gives for them."""
        real = None if attention_mask is None else attention_mask[..., None].to(projected.dtype)
        inputs, gate = projected.chunk(2, dim=-1)
        inputs = self.act(self.conv1d(inputs.transpose(1, 2))[..., : inputs.shape[1]].transpose(1, 2))
        inputs = inputs if real is None else inputs * real
        sizes = [self.time_step_rank, self.ssm_state_size, self.ssm_state_size]
        step, before, after = self.x_proj(inputs).float().split(sizes, dim=-1)
        weight, bias = self.dt_proj.weight.float(), self.dt_proj.bias.float()
        delta = nn.functional.softplus(linear(step, weight, bias))
        delta = delta if real is None else delta * real
        before = before if self.kept is None else before * self.kept[..., None]
        gate = nn.functional.silu(gate.float())
        return Scan(inputs.float(), delta, before, after, gate, -self.A_log.float().exp(), self.D.float())

    def forward(self, hidden_states: Tensor, attention_mask: Tensor | None = None, **_: Any) -> Tensor:
        """(batch, position, width), as the input."""
        out: Tensor = self.out_proj(self.scan(hidden_states, attention_mask).run().to(hidden_states.dtype))
        return out


class BiMamba(nn.Module):
    """Two Mamba mixers, one of which reads the sequence from its end; their outputs are added."""

    def __init__(self, config: CaduceusConfig, layer_idx: int) -> None:
        super().__init__()
        self.layer_idx = layer_idx
        self.mamba_fwd = ScanMixer(config, layer_idx, initialize_mixer_weights=False)
        self.mamba_rev = ScanMixer(config, layer_idx, initialize_mixer_weights=False)

    def forward(self, states: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """(batch, position, width), as the input."""
        back = None if attention_mask is None else attention_mask.flip(1)
        if not self._tied("in_proj"):
            forward: Tensor = self.mamba_fwd(states, attention_mask=attention_mask)
            reverse: Tensor = self.mamba_rev(states.flip(1), attention_mask=back)
            return forward + reverse.flip(1)
        states = states if attention_mask is None else states * attention_mask[..., None].to(states.dtype)
        projected = self.mamba_fwd.in_proj(states)
        left = self.mamba_fwd.scan_projected(projected, attention_mask).run().to(states.dtype)
        right = self.mamba_rev.scan_projected(projected.flip(1), back).run().to(states.dtype).flip(1)
        project: Callable[[Tensor], Tensor] = self.mamba_fwd.out_proj
        if self.training and self._tied("out_proj") and not self.mamba_fwd.use_bias:
            return project(left + right)  # a product less; otherwise in the order of the published code
        other: Tensor = self.mamba_rev.out_proj(right)
        return project(left) + other

    def _tied(self, part: str) -> bool:
        """Whether both directions have this projection in common."""
        left, right = getattr(self.mamba_fwd, part), getattr(self.mamba_rev, part)
        return bool(left.weight is right.weight and left.bias is right.bias)


class StrandsMixer(nn.Module):
    """The same mixer over both strands; the second half of the channels is the reverse complement, turned around."""

    def __init__(self, config: CaduceusConfig, layer_idx: int) -> None:
        super().__init__()
        self.layer_idx = layer_idx
        self.submodule = BiMamba(config, layer_idx)

    def forward(self, states: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """(batch, position, 2 × width), as the input."""
        own, other = states.chunk(2, dim=-1)
        back = None if attention_mask is None else attention_mask.flip(1)
        turned: Tensor = self.submodule(_turn(other), back)
        return torch.cat([self.submodule(own, attention_mask), _turn(turned)], dim=-1)


def _turn(states: Tensor) -> Tensor:
    """One strand as the other: positions and channels reversed."""
    return states.flip(-2, -1)


class _Layer(nn.Module):
    def __init__(self, config: CaduceusConfig, layer_idx: int) -> None:
        super().__init__()
        self._both, self._swaps = config.rcps, config.rcps and config.swaps_strands
        self.norm = MambaRMSNorm(config.hidden_size, eps=config.layer_norm_epsilon)  # type: ignore[no-untyped-call]
        self.mixer = StrandsMixer(config, layer_idx) if config.rcps else BiMamba(config, layer_idx)

    def forward(self, states: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        if self._swaps:  # the published fused kernel takes the halves in the other order, in every layer
            states = torch.cat(states.chunk(2, dim=-1)[::-1], dim=-1)
        mixed: Tensor = self.mixer(_normed(self.norm, states, self._both), attention_mask)
        return states + mixed


def _normed(norm: nn.Module, states: Tensor, both: bool) -> Tensor:
    if not both:
        return norm(states)  # type: ignore[no-any-return]
    own, other = states.chunk(2, dim=-1)
    return torch.cat([norm(own), _turn(norm(_turn(other)))], dim=-1)


class _StrandsEmbedding(nn.Module):
    def __init__(self, config: CaduceusConfig) -> None:
        super().__init__()
        self.embedding = nn.Embedding(config.vocab_size, config.hidden_size)
        self.register_buffer("complement_map", torch.tensor(config.complement, dtype=torch.long))

    @property
    def weight(self) -> Tensor:
        return self.embedding.weight

    def forward(self, ids: Tensor) -> Tensor:
        reverse = self.complement_map[ids.flip(-1)]  # type: ignore[index]
        return torch.cat([self.embedding(ids), _turn(self.embedding(reverse))], dim=-1)


class _StrandsHead(nn.Module):
    def __init__(self, config: CaduceusConfig) -> None:
        super().__init__()
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.register_buffer("complement_map", torch.tensor(config.complement, dtype=torch.long))

    def forward(self, states: Tensor) -> Tensor:
        own, other = states.chunk(2, dim=-1)
        weight = self.lm_head.weight
        there = nn.functional.linear(other.flip(-1), weight[self.complement_map])  # type: ignore[index]
        return nn.functional.linear(own, weight) + there


class _Embeddings(nn.Module):
    def __init__(self, config: CaduceusConfig) -> None:
        super().__init__()
        plain = nn.Embedding(config.vocab_size, config.hidden_size)
        self.word_embeddings = _StrandsEmbedding(config) if config.rcps else plain


class _Backbone(nn.Module):
    def __init__(self, config: CaduceusConfig) -> None:
        super().__init__()
        self.embeddings = _Embeddings(config)
        self.layers = nn.ModuleList(_Layer(config, index) for index in range(config.num_hidden_layers))
        self.norm_f = MambaRMSNorm(config.hidden_size, eps=config.layer_norm_epsilon)  # type: ignore[no-untyped-call]


class _Caduceus(nn.Module):
    def __init__(self, config: CaduceusConfig) -> None:
        super().__init__()
        self.config = config
        self.backbone = _Backbone(config)

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None, **_: Any) -> BaseModelOutput:
        """States after the last norm: (batch, position, width)."""
        states = self.backbone.embeddings.word_embeddings(input_ids)
        for layer in self.backbone.layers:
            states = layer(states, attention_mask)
        last = _normed(self.backbone.norm_f, states, self.config.rcps)
        return BaseModelOutput(last_hidden_state=last)  # type: ignore[arg-type]


class CaduceusForMaskedLM(MambaPreTrainedModel):  # type: ignore[no-untyped-call]
    """The whole model, with tied embeddings. Padding is kept out of both scans; the published code reads it."""

    config_class = CaduceusConfig
    base_model_prefix = "caduceus"
    _no_split_modules = ["_Layer"]  # noqa: RUF012
    _supports_sdpa = True  # there is no attention to be computed in another way
    _supports_attention_backend = True

    def __init__(self, config: CaduceusConfig) -> None:
        super().__init__(config)
        self.caduceus = _Caduceus(config)
        embedding = "caduceus.backbone.embeddings.word_embeddings"
        self.lm_head: nn.Module
        if config.rcps:
            self.lm_head = _StrandsHead(config)
            tied = {"lm_head.lm_head.weight": f"{embedding}.embedding.weight"}
        else:
            self.lm_head = FastLinear(config.hidden_size, config.vocab_size, bias=False)
            tied = {"lm_head.weight": f"{embedding}.weight"}
        if config.tied_directions:
            for index in range(config.num_hidden_layers):
                mixer = f"caduceus.backbone.layers.{index}.mixer" + (".submodule" if config.rcps else "")
                for part in _shared(config):
                    tied[f"{mixer}.mamba_rev.{part}"] = f"{mixer}.mamba_fwd.{part}"
        self._tied_weights_keys = tied
        self.post_init()  # type: ignore[no-untyped-call]

    def get_input_embeddings(self) -> nn.Module:
        return self.caduceus.backbone.embeddings.word_embeddings

    def get_output_embeddings(self) -> nn.Module:
        return self.lm_head

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None, **_: Any) -> MaskedLMOutput:
        """Logits (batch, position, vocabulary)."""
        states = self.caduceus(input_ids, attention_mask).last_hidden_state
        return MaskedLMOutput(logits=self.lm_head(states))


def _shared(config: CaduceusConfig) -> list[str]:
    """The parameters that both directions of a layer have in common, where they are tied."""
    kinds = ("weight", "bias") if config.use_bias else ("weight",)
    return [f"{part}.{kind}" for part in ("in_proj", "out_proj") for kind in kinds]
