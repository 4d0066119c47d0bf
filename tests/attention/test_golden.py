"""What the published models compute on the golden checkpoints, seen through capture."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.torch import load_file
from torch import Tensor

from floatlens import Select, trace
from floatlens.models.base import LanguageModel
from floatlens.probes import QK, Matrix
from shared.capture import capture

LENGTH = 37


@pytest.fixture(params=["llada", "dream"])
def case(
    request: pytest.FixtureRequest, golden: Callable[[str], Path], tiny_model: Callable[[str], LanguageModel]
) -> tuple[LanguageModel, dict[str, Tensor]]:
    return tiny_model(request.param), load_file(golden(request.param) / "golden.safetensors")


def test_logits(case: tuple[LanguageModel, dict[str, Tensor]]) -> None:
    """Under capture within 2e-5 instead of 1e-5: attention logits reach ±36 here, and transformers' own eager attention
    differs from its sdpa by 1.2e-5 for the same reason."""
    model, published = case
    ids = published["forward.input_ids"]
    assert (model.forward(ids) - published["forward.logits"]).abs().max() <= 1e-5
    with capture(model, ["received", "entropy"]):
        assert (model.forward(ids) - published["forward.logits"]).abs().max() <= 2e-5


def test_attention(case: tuple[LanguageModel, dict[str, Tensor]]) -> None:
    model, published = case
    probe = Matrix()
    with capture(model, [probe], steps=1, length=LENGTH):
        model.forward(published["forward.input_ids"])
    weights = np.stack([probe.taken[0, layer][0] for layer in range(model.num_layers)])
    expected = published["forward.attention"].numpy()
    assert weights.shape == expected.shape == (3, 4, LENGTH, LENGTH)
    assert np.abs(weights - expected).max() <= 1e-5
    if "forward.attention_head_mean_published" in published:
        mean = published["forward.attention_head_mean_published"].numpy()
        assert np.abs(weights.mean(1) - mean).max() <= 1e-5


def test_received_and_entropy(case: tuple[LanguageModel, dict[str, Tensor]]) -> None:
    model, published = case
    with capture(model, ["received", "entropy"]) as recorder:
        model.forward(published["forward.input_ids"])
    attention = published["forward.attention"].double()
    received = recorder.variables["received"].stack()[0, 0]
    assert np.abs(received - attention.mean(2).numpy()).max() <= 1e-5
    entropy = -(attention * attention.clamp(min=1e-300).log()).sum(-1)
    assert np.abs(recorder.variables["entropy"].stack()[0, 0] - entropy.numpy()).max() <= 5e-5


def test_queries_and_keys(golden: Callable[[str], Path], tiny_model: Callable[[str], LanguageModel]) -> None:
    """Products of published queries and keys; the bound is 1e-5 of |q||k|, since a product near 0 has no digits."""
    model, published = tiny_model("llada"), load_file(golden("llada") / "golden.safetensors")
    probe = QK(heatmaps=Select())
    with capture(model, [probe], steps=1, length=LENGTH) as recorder:
        model.forward(published["forward.input_ids"])
    q, k = published["forward.query"].double(), published["forward.key"].double()
    norms = q.norm(dim=-1)[..., :, None] * k.norm(dim=-1)[..., None, :]
    products = q @ k.transpose(-1, -2)
    got = np.stack([probe.taken[0, layer][0] for layer in range(3)])
    assert (np.abs(got - products.numpy()) <= 1e-5 * norms.numpy()).all()
    for name, whole in {"qk_dot": products, "qk_cos": products / norms, "qk_norm": norms}.items():
        expected = whole.mean(2).numpy()
        values = recorder.variables[name].stack()[0, 0]
        assert np.abs(values - expected).max() <= 1e-5 * np.abs(whole.numpy()).max()
    assert np.abs(recorder.variables["key_norm"].stack()[0, 0] - k.norm(dim=-1).numpy()).max() <= 1e-4


def test_the_published_trace(golden: Callable[[str], Path], tiny_model: Callable[[str], LanguageModel]) -> None:
    published = load_file(golden("llada") / "golden.safetensors")
    settings: dict[str, Any] = json.loads((golden("llada") / "golden.json").read_text())["cases"]["one_block"]
    ours = trace(
        tiny_model("llada"), prompt_ids=published["sample.prompt_ids"], probes=["received", "entropy"], **settings
    ).data
    assert (ours["sequence"].values == published["trace.sequence"].numpy()).all()
    assert (ours["final"].values == published["sample.one_block"][0].numpy()).all()
    expected = published["trace.received"].numpy()
    assert ours["received"].dims == ("step", "layer", "head", "key")
    assert ours["received"].shape == expected.shape == (8, 3, 4, LENGTH)
    assert np.abs(ours["received"].values - expected).max() <= 1e-5
    assert np.abs(ours["received"].values.sum(-1) - 1).max() <= 1e-5
