"""`scale:mamba`: a bidirectional Mamba of the size of the other scale models, in the format of Caduceus.

The weights it starts from do for it what `initial.py` does for attention, since from published ones it learns to look
up words many times more slowly. A layer finds a token again when what it reads with (C) resembles what it stores under
(B), so both start alike, computed from the token itself and from its neighbours; convolutions start as shifts, gates
open, and memory is long. What a layer found is written as the token it is. Nothing is held fixed afterwards.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn.init import normal_

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel

__all__ = ["build_mamba", "describe_mamba"]

_STATE, _TAPS = 48, 4
_EMBEDDING, _SHARED = 0.5, 0.25  # standard deviations of embeddings and of what they share, as in the attention models
_LOUDNESS = 0.1  # the last norm's weight: embeddings are the output layer as well, and too large for it
_MATCHED = (1, 1, 0, 2)  # places back of the tokens that are compared, for each quarter of the state
_ALIKE = 0.95  # cosine of what a state is read with and what it is stored under
_FOUND = 0.5  # how much louder a token that was found again is than one that is not being looked for
_OPEN = 1.5  # where gates begin, before their SiLU
_STEPS = (0.1, 1.0)  # Δ, log-uniform: ten times the published ones, so what is stored is not drowned by the skip
_DECAYS = (5e-4, 0.2)  # A, log-uniform over the state: from all of a row to the last few words


def build_mamba(values: dict[str, Any]) -> PreTrainedModel:
    """The module with new weights, drawn from torch's generator. `values` are those that all scale models share."""
    from floatlens.models.bimamba import CaduceusConfig, CaduceusForMaskedLM

    config = CaduceusConfig(
        **values, state_size=_STATE, conv_kernel=_TAPS, expand=2, use_bias=False, use_conv_bias=True, hidden_act="silu"
    )
    module = CaduceusForMaskedLM(config)
    _draw_weights(module)
    return module


@torch.no_grad()
def _draw_weights(module: Any) -> None:
    embeddings = normal_(module.get_input_embeddings().weight, std=_EMBEDDING)
    width = embeddings.shape[1]
    shared = torch.randn(width)
    shared /= shared.norm()
    embeddings.add_(_SHARED * math.sqrt(width) * shared)
    backbone = module.caduceus.backbone
    backbone.norm_f.weight.fill_(_LOUDNESS)
    for layer in backbone.layers:
        _draw_projections(layer.mixer.mamba_fwd, shared, len(backbone.layers))
        for side, mixer in enumerate((layer.mixer.mamba_fwd, layer.mixer.mamba_rev)):
            _shift(mixer, side)
            _store_and_find(mixer)
            _remember(mixer)


def _draw_projections(mixer: Any, shared: Tensor, layers: int) -> None:
    """Those of both directions. All quarters of the channels see the same of a token; the first writes it back as it
    is, the others, its neighbours, as something new. Gates begin open: all embeddings share a direction."""
    inner, width = mixer.out_proj.weight.shape[::-1]
    quarter = normal_(torch.empty(inner // _TAPS, width), std=width**-0.5)
    seen = _SHARED * math.sqrt(width / (_EMBEDDING**2 + _SHARED**2))  # of `shared`, in an embedding after its norm
    gate = normal_(torch.empty(inner, width), std=0.5 * width**-0.5) + _OPEN / seen * shared
    mixer.in_proj.weight.copy_(torch.cat([quarter.repeat(_TAPS, 1), gate]))
    new = normal_(torch.empty(inner - len(quarter), width), std=width**-0.5)
    mixer.out_proj.weight.copy_(torch.cat([quarter, new]).T / math.sqrt(2 * layers))


def _shift(mixer: Any, side: int) -> None:
    """Each quarter of the channels holds the token so many places back; what is ahead uses the other half of each."""
    inner = mixer.conv1d.weight.shape[0]
    taps = torch.eye(_TAPS).flip(1).repeat_interleave(inner // _TAPS, dim=0)
    mixer.conv1d.weight.copy_((taps + 0.1 * torch.randn_like(taps))[:, None])
    mixer.conv1d.bias.zero_()
    mixer.D.copy_((torch.arange(inner) % 2 == side).float())


def _store_and_find(mixer: Any) -> None:
    """B and C alike, from one quarter of the channels each; rows sum to 0, so the mean of a SiLU is not compared."""
    weight: Tensor = mixer.x_proj.weight
    rank, size, inner = mixer.time_step_rank, mixer.ssm_state_size, weight.shape[1]
    normal_(weight[:rank], std=inner**-0.5)
    places = torch.tensor(_MATCHED).repeat_interleave(size // len(_MATCHED))
    own = (places[:, None] == torch.arange(inner) // (inner // _TAPS)).float()
    stored, other = (_centred(torch.randn(size, inner) * own, own) for _ in range(2))
    weight[rank : rank + size] = stored
    weight[rank + size :] = _ALIKE * stored + math.sqrt(1 - _ALIKE**2) * other
    weight[rank:] *= math.sqrt(_FOUND / (size * 0.3))  # 0.3: variance of the SiLU of a standard normal number


def _centred(rows: Tensor, own: Tensor) -> Tensor:
    rows = (rows - rows.sum(1, keepdim=True) / own.sum(1, keepdim=True)) * own
    made: Tensor = rows / rows.norm(dim=1, keepdim=True)
    return made


def _remember(mixer: Any) -> None:
    """Step sizes and decays, both log-uniform; steps depend on the token as published."""
    low, high = (math.log(decay) for decay in _DECAYS)
    share = torch.rand(mixer.ssm_state_size)
    mixer.A_log.copy_((low + (high - low) * share).expand_as(mixer.A_log))
    torch.nn.init.uniform_(mixer.dt_proj.weight, -(mixer.time_step_rank**-0.5), mixer.time_step_rank**-0.5)
    low, high = (math.log(step) for step in _STEPS)
    step = torch.exp(torch.rand_like(mixer.dt_proj.bias) * (high - low) + low)
    mixer.dt_proj.bias.copy_(step + torch.log(-torch.expm1(-step)))  # softplus gives the step back


def describe_mamba(config: PreTrainedConfig, common: dict[str, Any]) -> dict[str, Any]:
    """config.json in the published layout."""
    mixer = {
        "d_state": config.state_size,
        "d_conv": config.conv_kernel,
        "expand": config.expand,
        "dt_rank": "auto",
        "bias": config.use_bias,
        "conv_bias": config.use_conv_bias,
    }
    return {
        "architectures": ["CaduceusForMaskedLM"],
        "model_type": "caduceus",
        "vocab_size": config.vocab_size,
        "d_model": config.hidden_size,
        "n_layer": config.num_hidden_layers,
        "max_position_embeddings": config.max_position_embeddings,
        "norm_epsilon": config.layer_norm_epsilon,
        "ssm_cfg": mixer,
        "bidirectional": True,
        "bidirectional_strategy": "add",
        "bidirectional_weight_tie": True,
        "rms_norm": True,
        "fused_add_norm": False,
        "residual_in_fp32": True,
        "rcps": False,
        "tie_word_embeddings": True,
        **common,
    }
