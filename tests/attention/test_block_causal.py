"""Block-causal attention in the model call, under capture and with a cache, against explicit masks and the goldens."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from floatlens.attention.mask import BlockMask
from floatlens.core.errors import FloatlensError
from floatlens.models import load
from floatlens.models.base import LanguageModel
from floatlens.models.visibility import Visibility
from floatlens.probes import Matrix
from shared.block_models import TOLD
from shared.capture import capture

BLOCKS = torch.tensor([[0, 0, 0, 1, 1, 3, 3, 3, 3, 4], [0, 0, 0, 0, 0, 0, 2, 2, 5, 5]])
REAL = torch.tensor([[0, 0, 1, 1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]])
IDS = torch.randint(3, 90, (2, 10), generator=torch.Generator().manual_seed(3))
NAMES = ["a2d-qwen3-bd3lm", "a2d-llama-bd3lm"]
SAMPLER = {**dict.fromkeys(NAMES, "bd3lm"), "sdar": "sdar", "fast-dllm-v2": "fast_dllm_v2"}


def dense(blocks: Tensor, real: Tensor | None = None) -> Tensor:
    """(batch, query, key) bool, worked out entry by entry."""
    batch, size = blocks.shape
    seen = torch.zeros(batch, size, size, dtype=torch.bool)
    for b in range(batch):
        for q in range(size):
            for k in range(size):
                seen[b, q, k] = blocks[b, k] <= blocks[b, q] and (real is None or bool(real[b, k]))
    return seen


@pytest.fixture(scope="module")
def model(tiny: Callable[[str], Path]) -> LanguageModel:
    return load(tiny("a2d-qwen3"), attention="block_causal", block_size=4)


# -- the description ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", [0, 4])
def test_a_description_says_what_the_matrix_says(offset: int) -> None:
    mask = BlockMask.of(Visibility(BLOCKS, offset, REAL.bool()))
    expected = dense(BLOCKS, REAL)[:, offset:]
    device = torch.device("cpu")
    assert torch.equal(mask.visible(0, 10 - offset, 2, device)[:, 0], expected)
    assert torch.equal(mask.visible(1, 3, 2, device)[:, 0], expected[:, 1:3])
    stops = [int(expected[:, :stop].any(1).any(0).nonzero().max()) + 1 for stop in range(1, 11 - offset)]
    assert [mask.key_stop(stop) for stop in range(1, 11 - offset)] == stops


def test_positions_together_see_each_other_whatever_their_blocks() -> None:
    together = torch.tensor([[False, True, False, False, True, False]])
    mask = BlockMask.of(Visibility(torch.arange(6)[None], together=together))
    seen = mask.visible(0, 6, 1, torch.device("cpu"))[0, 0]
    expected = torch.ones(6, 6).tril().bool()
    expected[1, 4] = True
    assert torch.equal(seen, expected)
    assert mask.key_stop(1) == 1
    assert mask.key_stop(2) == 5


def test_block_numbers_that_decrease_are_refused(model: LanguageModel) -> None:
    with pytest.raises(FloatlensError, match="must not decrease"):
        model.forward(IDS, blocks=BLOCKS.flip(1))
    with pytest.raises(FloatlensError, match=r"blocks must be \(batch, key\) = \(2, 10\)"):
        model.forward(IDS, blocks=BLOCKS[:, 1:])


# -- the pass -----------------------------------------------------------------------------------------------------


def by_module(model: LanguageModel, seen: Tensor, positions: Tensor | None = None) -> Tensor:
    """Logits of transformers' own class with an explicit 4-D mask."""
    own = seen | torch.eye(seen.shape[-1], dtype=torch.bool)  # a row that sees nothing is NaN
    with torch.inference_mode():
        logits: Tensor = model.module(IDS, attention_mask=own[:, None], position_ids=positions).logits
    return logits


@pytest.mark.parametrize("captured", [False, True])
def test_logits_are_those_of_an_explicit_mask(model: LanguageModel, captured: bool) -> None:
    positions = (REAL.cumsum(1) - 1).clamp(min=0)
    wanted = {
        "own": (by_module(model, dense(torch.arange(10).expand(2, -1) // 4)), {}),
        "padded": (by_module(model, dense(positions // 4, REAL), positions), {"attention_mask": REAL}),
        "given": (by_module(model, dense(BLOCKS)), {"blocks": BLOCKS}),
        "both": (by_module(model, dense(BLOCKS, REAL), positions), {"blocks": BLOCKS, "attention_mask": REAL}),
    }
    for expected, arguments in wanted.values():
        if captured:
            with capture(model, ["received", "entropy"]):
                found = model.forward(IDS, **arguments)
        else:
            found = model.forward(IDS, **arguments)
        real = arguments.get("attention_mask", torch.ones_like(IDS)).bool()
        assert (found - expected)[real].abs().max() <= 2e-5


def test_one_rule_holds_full_and_causal_attention_and_a_block_after_a_causal_context(
    model: LanguageModel, tiny_model: Callable[[str], Any], tiny: Callable[[str], Path]
) -> None:
    full = load(tiny("a2d-qwen3"), attention="full")
    assert torch.allclose(model.forward(IDS, blocks=torch.zeros_like(IDS)), full.forward(IDS), atol=1e-5)
    causal = torch.arange(10).expand(2, -1)
    lower = torch.ones(10, 10).tril().bool().expand(2, -1, -1)
    assert torch.allclose(model.forward(IDS, blocks=causal), by_module(model, lower), atol=1e-5)
    last = lower.clone()
    last[:, 6:, 6:] = True
    assert torch.allclose(model.forward(IDS, blocks=causal.clamp(max=6)), by_module(model, last), atol=1e-5)


def test_a_cache_changes_nothing_and_keeps_what_it_is_told_to(model: LanguageModel) -> None:
    whole, cache = model.forward(IDS), model.new_cache()
    model.forward(IDS[:, :4], cache=cache, step=False)
    for _ in range(2):  # the cache is the same afterwards
        block = model.forward(IDS[:, 4:8], cache=cache, keep=False)
        assert torch.allclose(block, whole[:, 4:8], atol=1e-5)
        assert cache.get_seq_length() == 4
    model.forward(IDS[:, 4:8], cache=cache)
    assert torch.allclose(model.forward(IDS[:, 8:], cache=cache, keep=False), whole[:, 8:], atol=1e-5)
    assert cache.get_seq_length() == 8


def test_a_cache_is_for_blocks(tiny: Callable[[str], Path], model: LanguageModel) -> None:
    full = load(tiny("a2d-qwen3"), attention="full")
    with pytest.raises(FloatlensError, match="it has no use for a key/value cache"):
        full.new_cache()
    with pytest.raises(FloatlensError, match="it cannot use a key/value cache"):
        full.forward(IDS, cache=model.new_cache())
    cache = model.new_cache()
    model.forward(IDS[:, :4], cache=cache)
    with pytest.raises(FloatlensError, match="give blocks as well"):
        model.forward(IDS[:, 4:], cache=cache, positions=torch.arange(6).expand(2, -1))


# -- capture ------------------------------------------------------------------------------------------------------


def statistics(recorder: Any) -> dict[str, np.ndarray]:
    return {name: store.stack()[-1] for name, store in recorder.variables.items() if len(store)}


def test_cached_passes_are_recorded_as_one_full_pass(model: LanguageModel) -> None:
    probes = ["received", "entropy", "flow", "extremes", "qk"]
    with capture(model, probes, length=10) as whole:
        model.forward(IDS)
    with capture(model, probes, length=10) as parts:
        cache = model.new_cache()
        model.forward(IDS[:, :4], cache=cache, step=False)
        model.forward(IDS[:, 4:8].flip(1), cache=cache, keep=False)  # leaves nothing behind
        model.forward(IDS[:, 4:8], cache=cache, step=False)
        model.forward(IDS[:, 8:], cache=cache, keep=False)
    assert (whole.steps, parts.steps) == ([0], [0, 1])
    expected, found = statistics(whole), statistics(parts)
    assert expected.keys() == found.keys()
    for name in expected:
        assert np.allclose(found[name], expected[name], atol=2e-5, equal_nan=True), name


def test_qk_means_are_over_the_queries_that_see_a_key(model: LanguageModel) -> None:
    with capture(model, ["qk"], length=10) as recorder:
        model.forward(IDS, blocks=BLOCKS, attention_mask=REAL)
    found = statistics(recorder)["qk_dot"]
    seen = dense(BLOCKS, REAL) & REAL[:, :, None].bool()
    taken: list[Tensor] = []

    def note(_: Any, args: Any, kwargs: Any, __: Any) -> None:
        taken.append(kwargs.get("hidden_states", args[0] if args else None))

    attention = model.module.get_submodule("model.layers.0.self_attn")
    hook = attention.register_forward_hook(note, with_kwargs=True)
    try:
        model.forward(IDS, blocks=BLOCKS, attention_mask=REAL)
    finally:
        hook.remove()
    query, key = rotated(model, attention, taken[0], (REAL.cumsum(1) - 1).clamp(min=0))
    products = query @ key.repeat_interleave(query.shape[1] // key.shape[1], 1).transpose(2, 3)
    weight = seen[:, None].float()
    expected = (products * weight).sum(2) / weight.sum(2)
    real = REAL[:, None, :].bool().expand_as(expected)
    assert np.allclose(found[:, 0][real], expected[real], atol=1e-4)


def rotated(model: LanguageModel, attention: Any, states: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
    from transformers.models.qwen3.modeling_qwen3 import apply_rotary_pos_emb

    shape = (*states.shape[:2], -1, attention.head_dim)
    query = attention.q_norm(attention.q_proj(states).view(shape)).transpose(1, 2)
    key = attention.k_norm(attention.k_proj(states).view(shape)).transpose(1, 2)
    turned: tuple[Tensor, Tensor] = apply_rotary_pos_emb(query, key, *model.module.model.rotary_emb(states, positions))
    return turned


# -- the goldens --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TOLD)
def test_logits_and_attention_are_the_published_ones(name: str, golden: Callable[[str], Path]) -> None:
    published = load_file(golden(name) / "golden.safetensors")
    model = load(golden(name), **TOLD[name])
    assert (model.attention, model.sampler) == ("block_causal", SAMPLER[name])
    ids = published["forward.input_ids"]
    assert (model.forward(ids) - published["forward.logits"]).abs().max() <= 1e-4
    probe = Matrix()
    with capture(model, [probe], steps=1, length=37):
        assert (model.forward(ids) - published["forward.logits"]).abs().max() <= 1e-4
    weights = np.stack([probe.taken[0, layer][0] for layer in range(3)])
    assert np.abs(weights - published["forward.attention"].numpy()).max() <= 1e-5


@pytest.mark.parametrize("name", NAMES)
def test_the_same_weights_with_full_attention(name: str, golden: Callable[[str], Path]) -> None:
    published = load_file(golden(name) / "golden.safetensors")
    full = load(golden(name), attention="full", mask_id=150)
    found = full.forward(published["forward.input_ids"])
    assert (found - published["forward_full.logits"]).abs().max() <= 1e-4


@pytest.mark.parametrize("name", NAMES)
def test_a2d_goldens_with_padding_on_physical_columns(name: str, golden: Callable[[str], Path]) -> None:
    published = load_file(golden(name) / "golden.safetensors")
    model = load(golden(name), attention="block_causal", block_size=8, mask_id=150)
    ids, pads = published["forward_padded.input_ids"], 3
    real = torch.ones_like(ids)
    real[:, :pads] = 0
    columns = torch.arange(40)[None] // 8
    found = model.forward(ids, real, published["forward_padded.position_ids"], blocks=columns)[:, pads:]
    assert (found - published["forward_padded.logits"]).abs().max() <= 1e-4
