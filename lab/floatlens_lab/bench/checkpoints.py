"""Checkpoints of published families with random weights: tensor names, config.json, shards and index as on the hub.

They are written shard by shard, so writing needs the memory of one shard. Nothing is written where the disk has too
little space.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from floatlens.core.errors import FloatlensError
from floatlens.models.llada import published_name
from floatlens_lab.bench.width import Width

__all__ = ["config_of", "size_of", "tensors_of", "write_checkpoint"]

SHARD_BYTES = 1 << 30
_SPARE = 1 << 28
"""Bytes that are left free on the disk."""
_POOL = 1 << 24
"""Random numbers that are drawn; larger tensors repeat them."""
Shapes = dict[str, tuple[int, ...]]


def tensors_of(size: Width, layers: int) -> Shapes:
    """Names and shapes of the tensors, in the order in which they are stored."""
    queries, keys = size.heads * size.head, size.kv_heads * size.head
    rows = {"q": queries, "k": keys, "v": keys}
    found: Shapes = {"model.embed_tokens.weight": (size.vocabulary, size.width)}
    for layer in range(layers):
        at = f"model.layers.{layer}."
        found |= {f"{at}self_attn.{name}_proj.weight": (count, size.width) for name, count in rows.items()}
        if size.family == "dream":
            found |= {f"{at}self_attn.{name}_proj.bias": (count,) for name, count in rows.items()}
        found[f"{at}self_attn.o_proj.weight"] = (size.width, queries)
        found |= {f"{at}mlp.{name}_proj.weight": (size.mlp, size.width) for name in ("gate", "up")}
        found[f"{at}mlp.down_proj.weight"] = (size.width, size.mlp)
        found |= {f"{at}{name}_layernorm.weight": (size.width,) for name in ("input", "post_attention")}
    found |= {"model.norm.weight": (size.width,), "lm_head.weight": (size.vocabulary, size.width)}
    return {_published(size.family, name): shape for name, shape in found.items()}


def _published(family: str, name: str) -> str:
    """The family's own name of a tensor that Llama calls `name`."""
    if family == "llada":
        return published_name(name)
    if family == "nemotron-diffusion":
        top, _, rest = name.partition(".")
        return ".".join(({"model": "encoder", "lm_head": "diffusion_head"}[top], rest))
    return name


def config_of(size: Width, layers: int) -> dict[str, Any]:
    """config.json, with the keys that decide what the model computes."""
    return _CONFIGS[size.family](size, layers)


def _llada(size: Width, layers: int) -> dict[str, Any]:
    return {
        "architectures": ["LLaDAModelLM"],
        "model_type": "llada",
        "activation_type": "silu",
        "block_type": "llama",
        "layer_norm_type": "rms",
        "include_bias": False,
        "rope": True,
        "weight_tying": False,
        "d_model": size.width,
        "embedding_size": size.vocabulary,
        "vocab_size": size.vocabulary,
        "mlp_hidden_size": size.mlp,
        "n_heads": size.heads,
        "n_kv_heads": size.kv_heads,
        "n_layers": layers,
        "max_sequence_length": 4096,
        "rms_norm_eps": 1e-05,
        "rope_theta": 500000.0,
        "mask_token_id": size.vocabulary - 1,
    }


def _decoder(size: Width, layers: int) -> dict[str, Any]:
    """What Dream, Llama and Nemotron call alike."""
    return {
        "hidden_act": "silu",
        "hidden_size": size.width,
        "intermediate_size": size.mlp,
        "num_attention_heads": size.heads,
        "num_hidden_layers": layers,
        "num_key_value_heads": size.kv_heads,
        "rms_norm_eps": 1e-05,
        "tie_word_embeddings": False,
        "vocab_size": size.vocabulary,
    }


def _dream(size: Width, layers: int) -> dict[str, Any]:
    own: dict[str, Any] = {"model_type": "Dream", "architectures": ["DreamModel"], "mask_token_id": size.vocabulary - 1}
    own |= {"rope_theta": 1000000.0, "max_position_embeddings": 131072, "use_sliding_window": False}
    return _decoder(size, layers) | own


def _llama(size: Width, layers: int) -> dict[str, Any]:
    own: dict[str, Any] = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "head_dim": size.head}
    return _decoder(size, layers) | own | {"rope_theta": 500000.0, "max_position_embeddings": 131072}


def _nemotron(size: Width, layers: int) -> dict[str, Any]:
    rope = {
        "rope_type": "yarn",
        "rope_theta": 1000000.0,
        "factor": 0.25,
        "beta_fast": 32.0,
        "beta_slow": 1.0,
        "mscale": 1.0,
        "mscale_all_dim": 1.0,
        "llama_4_scaling_beta": 0.1,
        "original_max_position_embeddings": 16384,
    }
    own: dict[str, Any] = {"model_type": "nemotron_labs_diffusion", "architectures": ["NemotronLabsDiffusionModel"]}
    own |= {"dlm_paradigm": "bidirectional", "block_size": 32, "mask_token_id": size.vocabulary - 1}
    own |= {"head_dim": size.head, "max_position_embeddings": 4096}
    return _decoder(size, layers) | own | {"rope_parameters": rope}


_CONFIGS: Mapping[str, Callable[[Width, int], dict[str, Any]]] = {
    "llada": _llada,
    "dream": _dream,
    "causal": _llama,
    "nemotron-diffusion": _nemotron,
}


def size_of(size: Width, layers: int, dtype: torch.dtype = torch.bfloat16) -> int:
    """Bytes of the weights."""
    return dtype.itemsize * sum(map(math.prod, tensors_of(size, layers).values()))


def write_checkpoint(
    size: Width,
    layers: int,
    folder: Path,
    shard_bytes: int = SHARD_BYTES,
    say: Callable[[str], object] = lambda _: None,
) -> None:
    """Write random weights in bfloat16 into a folder that is there: shards, their index and config.json."""
    from safetensors.torch import save_file

    needed, free = size_of(size, layers), shutil.disk_usage(folder).free
    if needed + _SPARE > free:
        raise FloatlensError(
            f"{folder}: the checkpoint takes {needed / 2**30:.1f} GiB and {free / 2**30:.1f} GiB are free; "
            "free some space, give fewer --layers, or set TMPDIR to a folder on another disk"
        )
    shards = list(_shards(tensors_of(size, layers), shard_bytes))
    pool = torch.empty(_POOL).uniform_(-0.03, 0.03, generator=torch.Generator().manual_seed(0)).bfloat16()
    files: dict[str, str] = {}
    for number, shapes in enumerate(shards, start=1):
        name = f"model-{number:05d}-of-{len(shards):05d}.safetensors"
        held = {key: torch.empty(shape, dtype=torch.bfloat16) for key, shape in shapes.items()}
        for tensor in held.values():
            for piece in tensor.view(-1).split(_POOL):  # type: ignore[no-untyped-call]
                piece.copy_(pool[: len(piece)])
        save_file(held, folder / name, metadata={"format": "pt"})
        files |= dict.fromkeys(held, name)
        say(f"wrote {name}, {number} of {len(shards)}")
    index = {"metadata": {"total_size": needed}, "weight_map": files}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=1))
    (folder / "config.json").write_text(json.dumps(config_of(size, layers) | {"torch_dtype": "bfloat16"}, indent=1))


def _shards(shapes: Shapes, most: int) -> Iterator[Shapes]:
    """The tensors in order, as many to a shard as fit; one that is larger has a shard of its own."""
    held: Shapes = {}
    taken = 0
    for name, shape in shapes.items():
        took = torch.bfloat16.itemsize * math.prod(shape)
        if held and taken + took > most:
            yield held
            held, taken = {}, 0
        held[name] = shape
        taken += took
    yield held
