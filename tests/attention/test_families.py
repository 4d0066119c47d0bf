"""Every family under capture: its logits stay sdpa's, and its weights are those that eager attention hands out."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from floatlens.attention.softmax import Workspace
from floatlens.core.errors import FloatlensError
from floatlens.models.base import LanguageModel
from floatlens.probes import Matrix
from shared.capture import capture

LENGTH = 24
GOLDEN = ("llada", "dream")
"""Their random weights give attention logits of ±40, where one rounding of a logit moves a weight by 40 · 2⁻²⁴. sdpa is
then itself off by 1–4e-5 from float64 attention, so there the measure is: not further from the truth than sdpa is."""


@pytest.mark.parametrize("side", [None, "left", "right"])
def test_logits_are_those_of_sdpa(
    any_name: str,
    side: str | None,
    tiny_model: Callable[[str], LanguageModel],
    observe: Callable[..., Any],
    draw: Callable[..., Tensor],
    padded: Callable[..., Tensor],
    blocks: Callable[..., Workspace],
) -> None:
    model = tiny_model(any_name)
    ids = draw(3, LENGTH, mask_id=model.mask_id, masked=6)
    mask = None if side is None else padded(LENGTH, [0, 5, 11], side)
    real = torch.ones_like(ids, dtype=torch.bool) if mask is None else mask
    assert model.module.config._attn_implementation == "sdpa"
    plain = model.forward(ids, mask)[real]
    with capture(model):
        ours = model.forward(ids, mask)[real]
    with capture(
        model, ["received", "entropy", "flow", "answer_rows", "rollout", "qk", "extremes"], workspace=blocks(5, 1)
    ):
        watched = model.forward(ids, mask)[real]
    if any_name not in GOLDEN:
        assert (ours - plain).abs().max() <= 1e-5
        assert (watched - plain).abs().max() <= 1e-5
        return
    exact = observe(model, ids, mask).logits[real]
    allowed = 2 * (plain - exact).abs().max()
    assert allowed < 1e-4
    assert (ours - exact).abs().max() <= allowed
    assert (watched - exact).abs().max() <= allowed


@pytest.mark.parametrize("side", [None, "left", "right"])
def test_matrix_is_eager_attention(
    any_name: str,
    side: str | None,
    tiny_model: Callable[[str], LanguageModel],
    observe: Callable[..., Any],
    draw: Callable[..., Tensor],
    padded: Callable[..., Tensor],
) -> None:
    """transformers' own `output_attentions=True`, all layers and heads; what causality hides is NaN here, 0 there."""
    model = tiny_model(any_name)
    ids = draw(2, LENGTH, mask_id=model.mask_id, masked=6)
    mask = None if side is None else padded(LENGTH, [0, 7], side)
    attentions = eager_attentions(model, ids, mask)
    assert len(attentions) == model.num_layers
    probe = Matrix()
    with capture(model, [probe], steps=1, length=LENGTH):
        model.forward(ids, mask)
    assert sorted(probe.taken) == [(0, layer) for layer in range(model.num_layers)]
    real = np.ones(ids.shape, dtype=bool) if mask is None else mask.numpy()
    future = np.triu(np.ones((LENGTH, LENGTH), dtype=bool), 1) & (model.kind == "arm")
    exact = observe(model, ids, mask).layers
    for layer, expected in enumerate(attentions):
        got = probe.taken[0, layer]
        assert got.shape == (2, model.num_heads, LENGTH, LENGTH)
        assert (np.isnan(got) == future).all()
        for b in range(2):
            rows = real[b]
            eager, truth = expected[b].numpy()[:, rows], exact[layer].weights[b][:, rows]
            allowed = max(1e-5, 2 * np.abs(eager - truth).max()) if any_name in GOLDEN else 1e-5
            assert allowed < 1e-4
            assert np.abs(np.nan_to_num(got[b][:, rows]) - eager).max() <= allowed


def eager_attentions(model: LanguageModel, ids: Tensor, mask: Tensor | None) -> tuple[Tensor, ...]:
    """With the positions that `LanguageModel.forward` gives by contract: real tokens counted from 0."""
    module = model.module
    before = module.config._attn_implementation
    module.set_attn_implementation("eager")
    try:
        with torch.no_grad():
            inputs: dict[str, Any] = {"input_ids": ids, "attention_mask": mask, "output_attentions": True}
            if mask is not None and "position_ids" in inspect.signature(module.forward).parameters:
                inputs["position_ids"] = (mask.long().cumsum(1) - 1).clamp(min=0) + model.position_offset
            return tuple(module(**inputs).attentions)
    finally:
        module.set_attn_implementation(before)


@pytest.mark.parametrize("how", ["bool", "rows"])
def test_fewer_logits_change_no_statistic(
    any_name: str,
    how: str,
    tiny_model: Callable[[str], LanguageModel],
    draw: Callable[..., Tensor],
    padded: Callable[..., Tensor],
    blocks: Callable[..., Workspace],
) -> None:
    """Decoders ask for a few rows only, and the last layer then skips work; what probes see must not depend on it."""
    model = tiny_model(any_name)
    ids, mask = draw(2, LENGTH, mask_id=model.mask_id, masked=6), padded(LENGTH, [0, 5], "left")
    wanted = torch.zeros(2, LENGTH, dtype=torch.bool)
    wanted[0, [7, LENGTH - 2]] = wanted[1, [7, 9]] = True
    at = wanted if how == "bool" else torch.tensor([7, 9, LENGTH - 2])
    probes = ["received", "entropy", "flow", "answer_rows", "rollout", "qk", "extremes"]
    found, logits = [], []
    for logits_at in (None, at):
        with capture(model, probes, steps=1, workspace=blocks(4, 2)) as recorder:
            logits.append(model.forward(ids, mask, logits_at=logits_at))
        found.append({name: store.stack() for name, store in recorder.variables.items()})
    expected = logits[0][wanted] if how == "bool" else logits[0][:, at]
    assert (logits[1] - expected).abs().max() <= 1e-5
    for name, values in found[0].items():
        assert np.array_equal(values, found[1][name], equal_nan=True), name


def test_windows_are_really_there(tiny_model: Callable[[str], LanguageModel], draw: Callable[..., Tensor]) -> None:
    """The comparison above would prove little if no layer had a window: ModernBERT's first layer is global, the rest
    local (8, so 4 to either side); Mistral sees itself and the 3 tokens before."""
    for name, (layer, reach) in {"modernbert": (1, 4), "mistral": (0, 3)}.items():
        model, probe = tiny_model(name), Matrix()
        with capture(model, [probe], steps=1, length=LENGTH):
            model.forward(draw(1, LENGTH))
        weights = np.nan_to_num(probe.taken[0, layer])
        far = np.abs(np.subtract.outer(np.arange(LENGTH), np.arange(LENGTH))) > reach
        assert (weights[..., far] == 0).all()
        assert (np.diagonal(weights, -reach, 2, 3) > 0).all()
    assert (probe.taken[0, 0].shape[1]) == 4
    bert = tiny_model("modernbert")
    probe = Matrix()
    with capture(bert, [probe], steps=1, length=LENGTH):
        bert.forward(draw(1, LENGTH))
    assert (probe.taken[0, 0] > 0).all()


def test_softcapped_attention() -> None:
    """Gemma 2 caps its logits and mixes sliding with full layers; transformers runs it in eager."""
    from transformers import Gemma2Config, Gemma2ForCausalLM

    torch.manual_seed(0)
    sizes = {"vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 2, "intermediate_size": 32, "head_dim": 8}
    config = Gemma2Config(
        **sizes, num_attention_heads=4, num_key_value_heads=2, sliding_window=4, attn_logit_softcapping=1.5
    )
    module = Gemma2ForCausalLM(config)
    for parameter in module.parameters():
        parameter.data.normal_(std=0.4)
    module.set_attn_implementation("eager")
    model = LanguageModel(module, "causal", "arm", "tiny-gemma2", True)
    ids = torch.arange(5, 17)[None]
    plain, attentions = model.forward(ids), eager_attentions(model, ids, None)
    probe = Matrix()
    with capture(model, [probe], steps=1, length=12):
        ours = model.forward(ids)
    assert (ours - plain).abs().max() <= 1e-5
    for layer in range(2):
        assert np.abs(np.nan_to_num(probe.taken[0, layer]) - attentions[layer].numpy()).max() <= 1e-5
    module.config.attn_logit_softcapping = 50.0  # the cap must matter, or the comparison above says nothing
    for layer in module.model.layers:
        layer.self_attn.attn_logit_softcapping = 50.0
    assert (model.forward(ids) - plain).abs().max() > 1e-3


def test_attention_that_capture_does_not_know_is_refused() -> None:
    """gpt-oss adds a learned sink to every row, so that weights do not sum to one: refused by name, model restored."""
    from transformers import GptOssConfig, GptOssForCausalLM

    sizes = {"vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 1, "intermediate_size": 32, "head_dim": 8}
    config = GptOssConfig(
        **sizes, num_attention_heads=4, num_key_value_heads=2, num_local_experts=2, num_experts_per_tok=1
    )
    model = LanguageModel(GptOssForCausalLM(config), "causal", "arm", "tiny-gpt-oss", True)
    before = model.module.config._attn_implementation
    with pytest.raises(FloatlensError, match='GptOssAttention passes "s_aux"'), capture(model, ["received"]):
        model.forward(torch.arange(5, 9)[None])
    assert model.module.config._attn_implementation == before
    assert model.observers == []


def test_a_class_that_lets_nobody_into_its_attention_is_refused() -> None:
    """Bloom computes its attention by itself. An empty trace would be a lie by silence."""
    from transformers import BloomConfig, BloomForCausalLM

    config = BloomConfig(vocab_size=64, hidden_size=32, n_layer=2, n_head=4)
    model = LanguageModel(BloomForCausalLM(config), "causal", "arm", "tiny-bloom", True)
    with pytest.raises(FloatlensError, match=r"tiny-bloom.*BloomForCausalLM"), capture(model, ["received"]):
        model.forward(torch.arange(5, 9)[None])
    assert model.observers == []
    assert model.forward(torch.arange(5, 9)[None]).isfinite().all()
