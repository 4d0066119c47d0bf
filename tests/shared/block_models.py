"""The block-diffusion goldens as models with a tokenizer, so questions can be asked."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

import floatlens as fl

GOLDEN = Path(__file__).parents[1] / "golden"
NAMES = ("a2d-qwen3-bd3lm", "a2d-llama-bd3lm", "sdar", "fast-dllm-v2", "llada2", "nemotron-diffusion")
TOLD: dict[str, dict[str, Any]] = {
    "a2d-qwen3-bd3lm": {"attention": "block_causal", "block_size": 8, "mask_id": 150},
    "a2d-llama-bd3lm": {"attention": "block_causal", "block_size": 8, "mask_id": 150},
    "sdar": {},
    "fast-dllm-v2": {"mask_id": 150},
}
MORE: dict[str, dict[str, Any]] = {
    "llada2": {"block_size": 8, "mask_id": 150},
    "nemotron-diffusion": {},
    "nemotron-ar": {"mode": "ar"},
    "illada": {},
}
ENDLESS: dict[str, dict[str, Any]] = {
    "bd3lm": {"eos_token_id": 150},
    "sdar": {"stop_token_ids": []},
    "fast_dllm_v2": {"stop_token": 150},
    "llada2": {"eos_id": 150, "threshold": 1.0},
    "nemotron_diffusion": {"eos_token_id": 100},
}
"""Settings by sampler under which decoding goes on to the end: random weights write EOS early, and never the mask."""
QUESTION = {
    "question": "w30 w31 w32 ?",
    "documents": ["w40 w41 w42 .", "w50 w30 w31 w77 .", "w60 w61 , w62 ."],
    "gold": 1,
    "answers": ["w77"],
}


@pytest.fixture(scope="session")
def block_model(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], fl.LanguageModel]:
    """A block-diffusion model by name; one object for the whole session, so leave it as it was."""
    held: dict[str, fl.LanguageModel] = {}

    def get(name: str) -> fl.LanguageModel:
        if name not in held:
            folder = tmp_path_factory.mktemp(name) / name
            shutil.copytree(GOLDEN / f"{name.replace('-ar', '-diffusion')}-tiny", folder)
            _write_tokenizer(folder)
            held[name] = fl.load(folder, **(TOLD | MORE)[name])
        return held[name]

    return get


def _write_tokenizer(folder: Path) -> None:
    """One word per id: special tokens, signs, then w7 … w159, with the mask in its place."""
    words = ["<unk>", "<s>", "</s>", ".", ",", "?", ":", *(f"w{i}" for i in range(7, 160))]
    words[150] = "<|mask|>"
    if "illada" in folder.name:  # whose mask token is 5
        words[5], words[149] = "<[MASK]>", words[5]
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.save(str(folder / "tokenizer.json"))
    values = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(values))
