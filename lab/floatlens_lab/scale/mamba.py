"""`scale:mamba`: a bidirectional Mamba of the size of the other scale models, in the format of Caduceus.

The weights it starts from do for it what `initial.py` does for attention. A layer finds a token again when what it
reads with (C) resembles what it stores under (B), so both start alike, computed from the token itself in a quarter of
the state and from the token one, two and three places back in the others; convolutions start as such shifts. Decays and
step sizes start as published. Nothing is held fixed afterwards.
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
_EMBEDDING = 0.5  # standard deviation, as in the attention models
_LOUDNESS = 0.1  # the last norm's weight: embeddings are the output layer as well, and too large for it
_ALIKE = 0.95  # cosine of what a state is read with and what it is stored under
_STEPS = (1e-3, 1e-1)  # Δ, as published: log-uniform


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
    normal_(module.get_input_embeddings().weight, std=_EMBEDDING)
    backbone = module.caduceus.backbone
    backbone.norm_f.weight.fill_(_LOUDNESS)
    for layer in backbone.layers:
        _draw_projections(layer.mixer.mamba_fwd, len(backbone.layers))
        for mixer in (layer.mixer.mamba_fwd, layer.mixer.mamba_rev):
            _shift(mixer)
            _store_and_find(mixer)
            _decay(mixer)


def _draw_projections(mixer: Any, layers: int) -> None:
    """The tied ones: all quarters of the channels see the same of a token, and what they hold is written back alike."""
    inner, width = mixer.out_proj.weight.shape[::-1]
    quarter = normal_(torch.empty(inner // _TAPS, width), std=width**-0.5)
    gate = normal_(torch.empty(inner, width), std=width**-0.5)
    mixer.in_proj.weight.copy_(torch.cat([quarter.repeat(_TAPS, 1), gate]))
    mixer.out_proj.weight.copy_(quarter.repeat(_TAPS, 1).T * math.sqrt(width / (inner * layers)))


def _shift(mixer: Any) -> None:
    """Each quarter of the channels holds the token so many places back."""
    taps = torch.eye(_TAPS).flip(1).repeat_interleave(mixer.conv1d.weight.shape[0] // _TAPS, dim=0)
    mixer.conv1d.weight.copy_((taps + 0.1 * torch.randn_like(taps))[:, None])
    mixer.conv1d.bias.zero_()


def _store_and_find(mixer: Any) -> None:
    weight: Tensor = mixer.x_proj.weight
    rank, size, inner = mixer.time_step_rank, mixer.ssm_state_size, weight.shape[1]
    normal_(weight[:rank], std=inner**-0.5)
    own = torch.eye(_TAPS).repeat_interleave(size // _TAPS, dim=0).repeat_interleave(inner // _TAPS, dim=1)
    stored = torch.randn(size, inner) * own * math.sqrt(_TAPS / inner)
    other = torch.randn(size, inner) * own * math.sqrt(_TAPS / inner)
    weight[rank : rank + size] = stored
    weight[rank + size :] = _ALIKE * stored + math.sqrt(1 - _ALIKE**2) * other


def _decay(mixer: Any) -> None:
    """S4D-real decays, step sizes log-uniform, the skip at one: as published."""
    mixer.A_log.copy_(torch.arange(1, mixer.ssm_state_size + 1).float().log().expand_as(mixer.A_log))
    mixer.D.fill_(1.0)
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
