"""The golden checkpoints of the later families, seen through capture: logits within 1e-4, attention within 1e-5."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.torch import load_file
from torch import Tensor

from floatlens.models import load
from floatlens.models.base import LanguageModel
from floatlens.probes import Matrix
from shared.capture import capture

CASES = {
    "illada": ("illada", {}, "forward"),
    "llada2": ("llada2", {"block_size": 8, "mask_id": 150}, "forward"),
    "nemotron-diffusion": ("nemotron-diffusion", {}, "forward"),
    "nemotron-ar": ("nemotron-diffusion", {"mode": "ar"}, "forward_ar"),
}


@pytest.fixture(scope="module", params=CASES)
def case(request: pytest.FixtureRequest, golden: Callable[[str], Path]) -> tuple[LanguageModel, dict[str, Tensor]]:
    """A model, and the ids, logits and attention of one of its passes."""
    name, told, which = CASES[request.param]
    tensors = load_file(golden(name) / "golden.safetensors")
    wanted = {part: tensors[f"{which}.{part}"] for part in ("input_ids", "logits", "attention")}
    return load(golden(name), **told), wanted


def test_logits_and_attention(case: tuple[LanguageModel, dict[str, Tensor]]) -> None:
    model, published = case
    probe, ids = Matrix(), published["input_ids"]
    assert (model.forward(ids) - published["logits"]).abs().max() <= 1e-4
    with capture(model, [probe], steps=1, length=ids.shape[1]):
        assert (model.forward(ids) - published["logits"]).abs().max() <= 1e-4
    weights = np.stack([probe.taken[0, layer][0] for layer in range(model.num_layers)])
    assert (np.isnan(weights) <= (published["attention"].numpy() == 0)).all()  # NaN: a key that a query cannot see
    assert np.abs(np.nan_to_num(weights) - published["attention"].numpy()).max() <= 1e-5


def test_received(case: tuple[LanguageModel, dict[str, Tensor]]) -> None:
    model, published = case
    with capture(model, ["received"]) as recorder:
        model.forward(published["input_ids"])
    expected = published["attention"].double().mean(2).numpy()
    assert np.abs(recorder.variables["received"].stack()[0, 0] - expected).max() <= 1e-5
