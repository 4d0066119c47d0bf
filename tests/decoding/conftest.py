"""Short names for the tiny models that the samplers are tested on, and the golden cases of the samplers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from floatlens.models import LanguageModel


@pytest.fixture(scope="session")
def llada(tiny_model: Callable[[str], LanguageModel]) -> LanguageModel:
    return tiny_model("llada")


@pytest.fixture(scope="session")
def dream(tiny_model: Callable[[str], LanguageModel]) -> LanguageModel:
    return tiny_model("dream")


@pytest.fixture(scope="session")
def arm(tiny_model: Callable[[str], LanguageModel]) -> LanguageModel:
    """A causal model with grouped-query attention."""
    return tiny_model("llama")


@pytest.fixture(scope="session")
def bert(tiny_model: Callable[[str], LanguageModel]) -> LanguageModel:
    return tiny_model("bert")


@pytest.fixture
def golden_cases(golden: Callable[[str], Path]) -> Callable[[str], tuple[dict[str, Any], dict[str, Tensor]]]:
    """Settings of the cases and the tensors of a golden folder."""

    def read(name: str) -> tuple[dict[str, Any], dict[str, Tensor]]:
        cases = json.loads((golden(name) / "golden.json").read_text())["cases"]
        return cases, load_file(golden(name) / "golden.safetensors")

    return read


@pytest.fixture
def prompts() -> Callable[..., list[list[int]]]:
    """Prompts of the given lengths, of ids that are neither mask, EOS nor padding in any of the models here."""

    def make(*lengths: int, seed: int = 0) -> list[list[int]]:
        random = torch.Generator().manual_seed(seed)
        return [torch.randint(5, 45, (length,), generator=random).tolist() for length in lengths]

    return make


@pytest.fixture
def shifted_logits() -> Callable[[LanguageModel, list[int]], list[list[float]]]:
    """The logits that decide each position of one unpadded sequence, all of them, as plain lists."""

    def read(model: LanguageModel, ids: list[int]) -> list[list[float]]:
        raw: list[list[float]] = model.forward(torch.tensor([ids]))[0].tolist()
        return [raw[0], *raw[:-1]] if model.shift else raw

    return read
