"""The golden checkpoints of the later families, seen through capture: logits within 1e-4, attention within 1e-5."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.torch import load_file
from torch import Tensor

from floatlens.models.base import LanguageModel
from floatlens.probes import Matrix
from shared.capture import capture

NAMES = ["illada"]


@pytest.fixture(params=NAMES)
def case(
    request: pytest.FixtureRequest, golden: Callable[[str], Path], tiny_model: Callable[[str], LanguageModel]
) -> tuple[LanguageModel, dict[str, Tensor]]:
    return tiny_model(request.param), load_file(golden(request.param) / "golden.safetensors")


def test_logits_and_attention(case: tuple[LanguageModel, dict[str, Tensor]]) -> None:
    model, published = case
    probe, ids = Matrix(), published["forward.input_ids"]
    assert (model.forward(ids) - published["forward.logits"]).abs().max() <= 1e-4
    with capture(model, [probe], steps=1, length=ids.shape[1]):
        assert (model.forward(ids) - published["forward.logits"]).abs().max() <= 1e-4
    weights = np.stack([probe.taken[0, layer][0] for layer in range(model.num_layers)])
    assert np.abs(weights - published["forward.attention"].numpy()).max() <= 1e-5


def test_received(case: tuple[LanguageModel, dict[str, Tensor]]) -> None:
    model, published = case
    with capture(model, ["received"]) as recorder:
        model.forward(published["forward.input_ids"])
    expected = published["forward.attention"].double().mean(2).numpy()
    assert np.abs(recorder.variables["received"].stack()[0, 0] - expected).max() <= 1e-5
