"""Published configurations and tensor lists, as data: what `config.json` and the index of real checkpoints hold.

Values are from the checkpoints' own files, or from copies of them; sizes that decide no tensor (dropout, versions) are
left out where no copy was seen. `tensors` are names and shapes as they are on disk, written from the published tables
and not from any code of floatlens.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

__all__ = ["CHECKPOINTS", "DREAM_7B", "LLADA_8B", "Checkpoint"]

Tensors = dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class Checkpoint:
    """A published checkpoint: its family, its config.json, its tensors, and the number of its parameters."""

    family: str
    config: dict[str, Any]
    tensors: Tensors
    parameters: int
    """As published, or the sum over the published tensor list."""
    told: dict[str, Any] = field(default_factory=dict)
    """What the user has to say, as for `load`."""


LLADA_8B = {
    "activation_type": "silu",
    "alibi": False,
    "alibi_bias_max": 8.0,
    "architectures": ["LLaDAModelLM"],
    "attention_dropout": 0.0,
    "attention_layer_norm": False,
    "attention_layer_norm_with_affine": True,
    "auto_map": {"AutoConfig": "configuration_llada.LLaDAConfig", "AutoModel": "modeling_llada.LLaDAModelLM"},
    "bias_for_layer_norm": False,
    "block_group_size": 1,
    "block_type": "llama",
    "d_model": 4096,
    "embedding_dropout": 0.0,
    "embedding_size": 126464,
    "eos_token_id": 126081,
    "flash_attention": False,
    "include_bias": False,
    "include_qkv_bias": False,
    "init_cutoff_factor": None,
    "init_device": "meta",
    "init_fn": "mitchell",
    "init_std": 0.02,
    "input_emb_norm": False,
    "layer_norm_type": "rms",
    "layer_norm_with_affine": True,
    "mask_token_id": 126336,
    "max_sequence_length": 4096,
    "mlp_hidden_size": 12288,
    "mlp_ratio": 4,
    "model_type": "llada",
    "multi_query_attention": None,
    "n_heads": 32,
    "n_kv_heads": 32,
    "n_layers": 32,
    "pad_token_id": 126081,
    "precision": "amp_bf16",
    "residual_dropout": 0.0,
    "rms_norm_eps": 1e-05,
    "rope": True,
    "rope_full_precision": True,
    "rope_theta": 500000.0,
    "scale_logits": False,
    "transformers_version": "4.46.3",
    "use_cache": False,
    "vocab_size": 126464,
    "weight_tying": False,
}
DREAM_7B = {
    "architectures": ["DreamModel"],
    "attention_dropout": 0.0,
    "auto_map": {"AutoModel": "modeling_dream.DreamModel"},
    "bos_token_id": 151643,
    "eos_token_id": 151643,
    "hidden_act": "silu",
    "hidden_size": 3584,
    "initializer_range": 0.02,
    "intermediate_size": 18944,
    "mask_token_id": 151666,
    "max_position_embeddings": 131072,
    "max_window_layers": 28,
    "model_type": "Dream",
    "num_attention_heads": 28,
    "num_hidden_layers": 28,
    "num_key_value_heads": 4,
    "pad_token_id": 151643,
    "rms_norm_eps": 1e-06,
    "rope_scaling": None,
    "rope_theta": 1000000.0,
    "sliding_window": None,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "transformers_version": "4.46.2",
    "use_cache": True,
    "use_mrope": False,
    "use_sliding_window": False,
    "vocab_size": 152064,
}


def _decoder(
    layers: int,
    width: int,
    heads: tuple[int, int],
    head_dim: int,
    inner: int,
    vocabulary: int,
    *,
    biased: bool = False,
    normed: bool = False,
    tied: bool = False,
) -> Tensors:
    """The tensors of Llama, Qwen2 (`biased`) and Qwen3 (`normed` queries and keys); `heads` are (query, key/value)."""
    queries, keys = heads[0] * head_dim, heads[1] * head_dim
    found: Tensors = {"model.embed_tokens.weight": (vocabulary, width), "model.norm.weight": (width,)}
    if not tied:
        found["lm_head.weight"] = (vocabulary, width)
    for layer in range(layers):
        at = f"model.layers.{layer}."
        found |= {f"{at}{name}_layernorm.weight": (width,) for name in ("input", "post_attention")}
        found |= {f"{at}self_attn.{name}_proj.weight": (rows, width) for name, rows in _rows(queries, keys)}
        found[f"{at}self_attn.o_proj.weight"] = (width, queries)
        found |= {f"{at}mlp.{name}_proj.weight": (inner, width) for name in ("gate", "up")}
        found[f"{at}mlp.down_proj.weight"] = (width, inner)
        if biased:
            found |= {f"{at}self_attn.{name}_proj.bias": (rows,) for name, rows in _rows(queries, keys)}
        if normed:
            found |= {f"{at}self_attn.{name}_norm.weight": (head_dim,) for name in "qk"}
    return found


def _rows(queries: int, keys: int) -> tuple[tuple[str, int], ...]:
    return ("q", queries), ("k", keys), ("v", keys)


def _llada() -> Tensors:
    width, inner, vocabulary = 4096, 12288, 126464
    found: Tensors = {f"model.transformer.{name}.weight": (vocabulary, width) for name in ("wte", "ff_out")}
    found["model.transformer.ln_f.weight"] = (width,)
    for layer in range(32):
        at = f"model.transformer.blocks.{layer}."
        found |= {f"{at}{name}.weight": (width,) for name in ("attn_norm", "ff_norm")}
        found |= {f"{at}{name}.weight": (width, width) for name in ("q_proj", "k_proj", "v_proj", "attn_out")}
        found |= {f"{at}{name}.weight": (inner, width) for name in ("ff_proj", "up_proj")}
        found[f"{at}ff_out.weight"] = (width, inner)
    return found


ILLADA_8B = {
    "architectures": ["ILLaDAForCausalLM"],
    "attention_bias": False,
    "attention_dropout": 0.0,
    "bos_token_id": 0,
    "eos_token_id": 2,
    "hidden_act": "silu",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "layer_norm_eps": None,
    "max_position_embeddings": 8192,
    "mlp_bias": False,
    "model_type": "illada",
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "pad_token_id": 1,
    "resid_pdrop": 0.0,
    "rms_norm_eps": 1e-06,  # published value not seen; it decides no shape
    "rope_scaling": None,
    "rope_theta": 500000.0,  # likewise
    "tie_word_embeddings": True,
    "vocab_size": 155136,
}

CHECKPOINTS = {
    "GSAI-ML/LLaDA-8B-Instruct": Checkpoint("llada", LLADA_8B, _llada(), 8_015_581_184),
    "Dream-org/Dream-v0-Instruct-7B": Checkpoint(
        "dream", DREAM_7B, _decoder(28, 3584, (28, 4), 128, 18944, 152064, biased=True), 7_615_616_512
    ),
    "GSAI-ML/iLLaDA-8B-Instruct": Checkpoint(
        "illada", ILLADA_8B, _decoder(32, 4096, (32, 8), 128, 14336, 155136, tied=True), 7_615_025_152
    ),
}
