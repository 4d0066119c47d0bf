"""A tiny random Llama with the scale models' tokenizer, and data of their world: enough to adapt in seconds."""

from __future__ import annotations

import shutil

import pytest
import torch

from floatlens.adaptation import Recipe
from floatlens.scale import WEIGHTS
from floatlens.scale.examples import questions


def make_base(folder, **sizes):
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    given = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
    given |= {"num_key_value_heads": 2, "vocab_size": 485, "max_position_embeddings": 512} | sizes
    config = LlamaConfig(**given, bos_token_id=2, eos_token_id=3, pad_token_id=0)
    LlamaForCausalLM(config).save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(WEIGHTS / "llama" / name, folder / name)
    return folder


@pytest.fixture(scope="session")
def base(tmp_path_factory):
    return make_base(tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    """(questions, text): files of the scale world."""
    folder = tmp_path_factory.mktemp("data")
    made = questions("rag", 60, documents=2)
    (folder / "asked.jsonl").write_text("".join(f"{example.model_dump_json()}\n" for example in made))
    lines = [f"{document.text} {document.text}" for example in made for document in example.documents]
    (folder / "plain.txt").write_text("\n".join(lines))
    return folder / "asked.jsonl", folder / "plain.txt"


@pytest.fixture
def small():
    return Recipe(steps=4, rows=2, width=64, rank=2, learning_rate=5e-3, warmup=1)
