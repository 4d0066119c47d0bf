"""The probe `smoothing`: kernels by hand and by loops, traces against transformers' hidden states and `matrix`."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import jensenshannon

from floatlens import trace
from floatlens.core.errors import FloatlensError
from floatlens.probes import Matrix, Smoothing
from floatlens.probes.smoothing import effective_rank, mean_cosine, row_distance

PROMPT = [5, 9, 12, 33, 21, 40]
Model = Callable[[str], Any]
seeds = st.integers(0, 2**16)


def by_pairs(states: np.ndarray) -> float:
    pairs = itertools.combinations(states.astype(np.float64), 2)
    return float(np.mean([a @ b / np.linalg.norm(a) / np.linalg.norm(b) for a, b in pairs]))


def rank_of(states: np.ndarray) -> float:
    values = np.linalg.svd(states.astype(np.float64), compute_uv=False)
    share = values[values > 0] / values.sum()
    return float(np.exp(-(share * np.log(share)).sum()))


def distance_of(rows: np.ndarray) -> float:
    return float(np.mean([jensenshannon(p, q, base=2) for p, q in itertools.combinations(rows, 2)]))


@given(seeds, st.integers(2, 9), st.integers(1, 12))
def test_cosine_and_rank_equal_those_by_pairs_and_by_svd(seed: int, tokens: int, width: int) -> None:
    states = np.random.default_rng(seed).normal(size=(1, tokens, width)).astype(np.float32)
    everyone = torch.ones(1, tokens, dtype=torch.bool)
    assert mean_cosine(torch.from_numpy(states), everyone).item() == pytest.approx(by_pairs(states[0]), abs=1e-5)
    found = effective_rank(torch.from_numpy(states), everyone).item()
    assert found == pytest.approx(rank_of(states[0]), rel=1e-4)
    assert 1 - 1e-5 <= found <= min(tokens, width) + 1e-4


def test_alike_and_apart() -> None:
    """Equal tokens: cosine 1, rank 1. Orthogonal ones: cosine 0, rank 4. Padding counts for nothing."""
    among = torch.tensor([[True] * 4 + [False]])
    equal, apart = torch.ones(1, 5, 8), torch.eye(5, 8)[None]
    equal[0, 4], apart[0, 4] = -7, 100
    assert mean_cosine(equal, among).tolist() == [pytest.approx(1)]
    assert effective_rank(equal, among).tolist() == [pytest.approx(1)]
    assert mean_cosine(apart, among).tolist() == [pytest.approx(0)]
    assert effective_rank(apart, among).tolist() == [pytest.approx(4)]
    assert mean_cosine(apart, torch.tensor([[True] + [False] * 4])).isnan().all()
    assert effective_rank(apart, torch.zeros(1, 5, dtype=torch.bool)).isnan().all()


@given(seeds, st.integers(2, 7), st.integers(2, 9))
def test_row_distance_equals_scipys(seed: int, rows: int, keys: int) -> None:
    weights = np.random.default_rng(seed).dirichlet(np.full(keys, 0.3), size=(1, 2, rows))
    found = row_distance(torch.from_numpy(weights), torch.ones(1, rows, dtype=torch.bool))
    assert found.tolist() == [[pytest.approx(distance_of(weights[0, head]), abs=1e-5) for head in range(2)]]
    few = torch.zeros(1, rows, dtype=torch.bool)
    few[0, :2] = True
    one = row_distance(torch.from_numpy(weights), few)[0, 0].item()
    assert one == pytest.approx(distance_of(weights[0, 0, :2]), abs=1e-5)
    few[0, 1] = False
    assert row_distance(torch.from_numpy(weights), few).isnan().all()


@pytest.mark.parametrize(("name", "how"), [("llada", {"steps": 3}), ("llama", {}), ("llama", {"use_cache": False})])
def test_a_whole_trace(name: str, how: dict[str, Any], tiny_model: Model) -> None:
    """States from transformers; rows from the probe `matrix`, in the first step, where every row is computed."""
    model = tiny_model(name)
    probes = [Smoothing(rows=4), Matrix()]
    data = trace(model, prompt_ids=PROMPT, probes=probes, gen_length=4, **how).data
    for step in range(data.sizes["step"]):
        ids = data["sequence"].values[step]
        ids = ids[ids >= 0]
        with torch.inference_mode():
            out = model.module(input_ids=torch.tensor(ids, dtype=torch.long)[None], output_hidden_states=True)
        for layer in range(model.num_layers):
            states, here = out.hidden_states[layer][0].numpy(), data.isel(step=step, layer=layer)
            assert here["state_cosine"].item() == pytest.approx(by_pairs(states), abs=1e-4)
            assert here["effective_rank"].item() == pytest.approx(rank_of(states), rel=1e-3)
            masked = states[ids == model.mask_id]
            if len(masked) > 1:
                assert here["masked_cosine"].item() == pytest.approx(by_pairs(masked), abs=1e-4)
            else:
                assert np.isnan(here["masked_cosine"].item())
    size = len(PROMPT) if name == "llama" else len(PROMPT) + 4
    chosen = np.arange(0, size, 3)  # ten tokens in the end, at most four rows
    for layer, head in itertools.product(range(model.num_layers), range(model.num_heads)):
        weights = data["matrix"].isel(matrix_step=0, matrix_layer=layer, matrix_head=head).values
        rows = np.nan_to_num(weights[chosen, :size].astype(np.float64))
        rows /= rows.sum(-1, keepdims=True)
        found = data["row_distance"].isel(step=0).sel(layer=layer, head=head).item()
        assert found == pytest.approx(distance_of(rows), abs=2e-3)  # matrix is kept in half precision


def test_a_cache_keeps_no_more_states_than_allowed(tiny_model: Model) -> None:
    with pytest.raises(FloatlensError, match=r'probe "smoothing": the states of 6 tokens in 3 layers take .*use_cache'):
        trace(tiny_model("llama"), prompt_ids=PROMPT, probes=[Smoothing(max_bytes=100)], gen_length=2)
    with pytest.raises(FloatlensError, match="whole number from 2"):
        Smoothing(rows=1)
