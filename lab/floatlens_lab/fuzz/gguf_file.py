"""A whole GGUF file of a few kilobytes: a Llama of one layer with random weights and a byte-pair vocabulary."""

from __future__ import annotations

from pathlib import Path

import numpy as np

__all__ = ["write_gguf"]

_WIDTH, _INNER, _HEADS = 32, 64, 2


def write_gguf(path: Path) -> None:
    """Write the file."""
    from gguf import GGUFWriter, TokenType

    letters = [chr(code) for code in range(33, 127)] + ["Ġ"]
    words = ["<unk>", "<s>", "</s>", *letters, "Ġa", "th"]
    writer = GGUFWriter(str(path), "llama")
    writer.add_name("tiny")
    writer.add_context_length(128)
    writer.add_embedding_length(_WIDTH)
    writer.add_block_count(1)
    writer.add_feed_forward_length(_INNER)
    writer.add_head_count(_HEADS)
    writer.add_head_count_kv(_HEADS)
    writer.add_rope_dimension_count(_WIDTH // _HEADS)
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(words))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(words)
    writer.add_token_merges(["Ġ a", "t h"])
    writer.add_token_types([TokenType.UNKNOWN, TokenType.CONTROL, TokenType.CONTROL, *[TokenType.NORMAL] * 97])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    for name, shape in _shapes(len(words)).items():
        weights = np.random.default_rng(len(name)).normal(0, 0.1, shape).astype(np.float32)
        writer.add_tensor(name, weights if len(shape) > 1 else np.ones(shape, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _shapes(words: int) -> dict[str, tuple[int, ...]]:
    square, wide = (_WIDTH, _WIDTH), (_INNER, _WIDTH)
    layer = dict.fromkeys(("attn_q", "attn_k", "attn_v", "attn_output"), square)
    norms = dict.fromkeys(("attn_norm", "ffn_norm"), (_WIDTH,))
    parts: dict[str, tuple[int, ...]] = {**layer, **norms, "ffn_gate": wide, "ffn_up": wide, "ffn_down": wide[::-1]}
    outer: dict[str, tuple[int, ...]] = {
        "token_embd.weight": (words, _WIDTH),
        "output_norm.weight": (_WIDTH,),
        "output.weight": (words, _WIDTH),
    }
    return outer | {f"blk.0.{name}.weight": shape for name, shape in parts.items()}
