"""The five scale models: one size, three architectures, two ways of reading. And how each is written to disk.

`llama` and `llada` are the same Llama; `qwen` and `dream` the same Qwen2 with grouped-query heads. The first of each
reads from left to right and predicts the next token; the second reads both ways and fills masks, `dream` with shifted
logits. `mamba` has no attention: it fills masks as `llada` does, from a scan in each direction. Folders are written in
the formats of the published families, so the ordinary loaders read them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch

from floatlens.core.errors import FloatlensError, did_you_mean
from floatlens.models.llada import published_name
from floatlens.subjects.scale.tokenizer import (
    BOS,
    EOS,
    MASK,
    PAD,
    make_tokenizer,
    special_id,
    vocabulary,
    wrapped_tokenizer,
)
from floatlens_lab.scale.mamba import build_mamba, describe_mamba

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel

__all__ = ["BLUEPRINTS", "STORED", "Blueprint", "blueprint", "build_module", "write_checkpoint"]

_LAYERS, _HEADS, _WIDTH = 8, 8, 128
_LENGTH, _EPS = 1024, 1e-5
STORED = torch.float16
"""What weights are stored in."""


@dataclass(frozen=True)
class Blueprint:
    """What one model is. `base` names the model whose trained weights it starts from."""

    name: str
    kind: Literal["arm", "mdm"]
    shift: bool
    architecture: Literal["llama", "qwen2", "mamba"]
    kv_heads: int
    mlp_width: int
    rope_theta: float
    about: str
    base: str | None = None


BLUEPRINTS = {
    b.name: b
    for b in (
        Blueprint("llama", "arm", True, "llama", 8, 288, 5e5, "autoregressive Llama"),
        Blueprint("qwen", "arm", True, "qwen2", 2, 352, 1e6, "autoregressive Qwen2, four query heads to a key head"),
        Blueprint("llada", "mdm", False, "llama", 8, 288, 5e5, "masked diffusion from scratch, in LLaDA's format"),
        Blueprint(
            "dream", "mdm", True, "qwen2", 2, 352, 1e6, "masked diffusion adapted from qwen, in Dream's format", "qwen"
        ),
        Blueprint(
            "mamba", "mdm", False, "mamba", 1, 0, 0.0, "masked diffusion without attention, in Caduceus's format"
        ),
    )
}
"""A wider MLP gives the Qwen2 pair what their fewer key heads save: all four have the same number of weights but for
Qwen2's biases. Rotary bases are those of the families' published models: with heads of 16 dimensions, a smaller one
would leave too few of them to compare contents over a few hundred tokens. The Mamba has their width and layers, and a
state so large that it has as many weights; heads, MLP width and rotary base do not apply to it."""


def blueprint(name: str) -> Blueprint:
    """The blueprint of that name, or an error that says which there are."""
    if name not in BLUEPRINTS:
        raise FloatlensError(f'no scale model "{name}"{did_you_mean(name, BLUEPRINTS)}')
    return BLUEPRINTS[name]


def build_module(plan: Blueprint) -> PreTrainedModel:
    """The module with new weights drawn from torch's generator: seed it first."""
    from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM

    from floatlens_lab.scale.initial import draw_weights

    tokens = _tokens()
    common: dict[str, Any] = {
        "vocab_size": len(vocabulary()),
        "hidden_size": _WIDTH,
        "num_hidden_layers": _LAYERS,
        "max_position_embeddings": _LENGTH,
        **{key: tokens[key] for key in ("bos_token_id", "eos_token_id", "pad_token_id")},
    }
    if plan.architecture == "mamba":
        return build_mamba({**common, "layer_norm_epsilon": _EPS})
    values = {
        **common,
        "intermediate_size": plan.mlp_width,
        "num_attention_heads": _HEADS,
        "num_key_value_heads": plan.kv_heads,
        "rms_norm_eps": _EPS,
        "rope_parameters": {"rope_type": "default", "rope_theta": plan.rope_theta},
        "tie_word_embeddings": False,
        "attn_implementation": "sdpa",
    }
    module: PreTrainedModel
    if plan.architecture == "llama":
        module = LlamaForCausalLM(LlamaConfig(**values))  # type: ignore[no-untyped-call]
    else:
        module = Qwen2ForCausalLM(Qwen2Config(**values, use_sliding_window=False))  # type: ignore[no-untyped-call]
    if plan.kind == "mdm":
        module.config.is_causal = False
    draw_weights(module)
    return module


def write_checkpoint(plan: Blueprint, module: PreTrainedModel, folder: Path) -> None:
    """Weights in float16, configuration and tokenizer, as the published family lays them out."""
    from safetensors.torch import save_file

    describe, rename = _FORMATS[plan.name]
    kept = dict(module.named_parameters())  # a tied one once
    tensors = {rename(name): tensor.detach().to(STORED).contiguous() for name, tensor in kept.items()}
    if not all(bool(torch.isfinite(tensor).all()) for tensor in tensors.values()):
        raise FloatlensError(f"{plan.name}: its weights do not fit into float16; nothing was written")
    folder.mkdir(parents=True, exist_ok=True)
    wrapped_tokenizer().save_pretrained(folder)
    config = describe(module.config, {**_tokens(), "dtype": "float16"})
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def _tokens() -> dict[str, int]:
    names = {"bos_token_id": BOS, "eos_token_id": EOS, "pad_token_id": PAD, "mask_token_id": MASK}
    tokenizer = make_tokenizer()
    return {key: special_id(tokenizer, token) for key, token in names.items()}


def _hugging_face(config: PreTrainedConfig, common: dict[str, Any]) -> dict[str, Any]:
    """Llama and Qwen2 as transformers itself writes them; an autoregressive model has no mask token."""
    own = config.to_diff_dict()
    drop = ("mask_token_id", "_attn_implementation", "transformers_version")
    return {key: value for key, value in {**own, **common}.items() if key not in drop}


def _dream(config: PreTrainedConfig, common: dict[str, Any]) -> dict[str, Any]:
    keys = """hidden_act hidden_size intermediate_size max_position_embeddings num_attention_heads num_hidden_layers
        num_key_value_heads rms_norm_eps tie_word_embeddings vocab_size"""
    own = {key: getattr(config, key) for key in keys.split()}
    head = {"architectures": ["DreamModel"], "model_type": "Dream"}
    return {**head, **own, "rope_theta": config.rope_parameters["rope_theta"], "use_sliding_window": False, **common}


def _llada(config: PreTrainedConfig, common: dict[str, Any]) -> dict[str, Any]:
    sizes = {
        "d_model": config.hidden_size,
        "n_layers": config.num_hidden_layers,
        "n_heads": config.num_attention_heads,
        "n_kv_heads": config.num_key_value_heads,
        "mlp_hidden_size": config.intermediate_size,
        "vocab_size": config.vocab_size,
        "embedding_size": config.vocab_size,
        "max_sequence_length": config.max_position_embeddings,
        "rms_norm_eps": config.rms_norm_eps,
        "rope_theta": config.rope_parameters["rope_theta"],
    }
    kinds = {
        "activation_type": "silu",
        "block_type": "llama",
        "layer_norm_type": "rms",
        "block_group_size": 1,
        "rope": True,
    }
    off = """alibi attention_layer_norm bias_for_layer_norm flash_attention include_bias include_qkv_bias input_emb_norm
        scale_logits weight_tying"""
    head = {"architectures": ["LLaDAModelLM"], "model_type": "llada"}
    return {**head, **sizes, **kinds, **dict.fromkeys(off.split(), False), **common}


_Describe = Callable[["PreTrainedConfig", dict[str, Any]], dict[str, Any]]
_FORMATS: dict[str, tuple[_Describe, Callable[[str], str]]] = {
    "llama": (_hugging_face, str),
    "qwen": (_hugging_face, str),
    "llada": (_llada, published_name),
    "dream": (_dream, str),
    "mamba": (describe_mamba, str),
}
