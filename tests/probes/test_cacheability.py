"""The probe `cacheability` against states recomputed pass by pass, and its kernels by hand and by loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from floatlens import trace
from floatlens.core.errors import FloatlensError
from floatlens.probes import Cacheability, Matrix
from floatlens.probes.cacheability import keys_holding, mass_ahead
from floatlens.probes.shares import DISTANCES

PROMPT = [5, 9, 12, 33, 21, 40]
Model = Callable[[str], Any]


def cosine(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    a, b = a.astype(np.float64), b.astype(np.float64)
    return (a * b).sum(-1) / np.linalg.norm(a, axis=-1) / np.linalg.norm(b, axis=-1)


def flat(states: np.ndarray) -> np.ndarray:
    """(key, kv head × dim) of (kv head, key, dim)."""
    return states.transpose(1, 0, 2).reshape(states.shape[1], -1)


def test_a_whole_trace_against_passes_on_their_own(tiny_model: Model, observe: Any) -> None:
    """Keys, values and weights by the witness, states from transformers, in every step of a diffusion model."""
    model = tiny_model("llada")
    data = trace(model, prompt_ids=PROMPT, probes=[Cacheability(rows=3)], gen_length=4, steps=4).data
    passes, states = [], []
    for ids in data["sequence"].values:
        passes.append(observe(model, torch.tensor(ids, dtype=torch.long)[None]).layers)
        with torch.inference_mode():
            out = model.module(input_ids=torch.tensor(ids, dtype=torch.long)[None], output_hidden_states=True)
        states.append([one[0].numpy() for one in out.hidden_states])
    assert np.isnan(data["key_reuse"].isel(step=0)).all()
    for step in range(1, 4):
        masked = [data["sequence"].values[s] == model.mask_id for s in (step - 1, step)]
        for layer in range(model.num_layers):
            before, now, here = passes[step - 1][layer], passes[step][layer], data.isel(step=step, layer=layer)
            assert np.allclose(here["key_reuse"], cosine(flat(now.key[0]), flat(before.key[0])), atol=1e-4)
            assert np.allclose(here["value_reuse"], cosine(flat(now.value[0]), flat(before.value[0])), atol=1e-4)
            assert np.allclose(here["state_reuse"], cosine(states[step][layer], states[step - 1][layer]), atol=1e-4)
            top = before.weights[0][:, masked[0]].sum((0, 1)).argmax()
            rows = masked[0] & masked[1]
            columns = [one.weights[0][:, rows, top].mean(0) for one in (before, now)]
            assert here["top_reuse"].item() == pytest.approx(cosine(*columns), abs=1e-3)
    for step in range(4):
        among = np.flatnonzero(data["sequence"].values[step] == model.mask_id)
        chosen = among[np.linspace(0, len(among) - 1, min(3, len(among))).round().astype(int)]
        for layer in range(model.num_layers):
            weights, here = passes[step][layer].weights[0][:, chosen], data.isel(step=step, layer=layer)
            for share in (90, 95, 99):
                counts = [[fewest(row, share / 100) for row in head] for head in weights]
                assert np.allclose(here[f"keys_{share}"], np.mean(counts, axis=-1), atol=0.5)
                assert np.abs(here[f"keys_{share}"] - np.mean(counts, axis=-1)).mean() < 0.1  # but for ties
            masked_now = data["sequence"].values[step] == model.mask_id
            ahead = [
                np.mean(
                    [
                        row[[j for j in range(len(row)) if masked_now[j] and first <= j - i < last]].sum()
                        for head in weights
                        for i, row in zip(chosen, head, strict=True)
                    ]
                )
                for first, last in zip(DISTANCES, (*DISTANCES[1:], 10**9), strict=True)
            ]
            assert np.allclose(here["mass_ahead"], ahead, atol=1e-5)


def fewest(row: np.ndarray, share: float) -> int:
    held = np.sort(row)[::-1].cumsum()
    return int((held < share - 1e-5).sum()) + 1


@pytest.mark.parametrize("cache", [True, False])
def test_an_autoregressive_model_changes_nothing(cache: bool, tiny_model: Model) -> None:
    data = trace(tiny_model("llama"), prompt_ids=PROMPT, probes=["cacheability"], gen_length=3, use_cache=cache).data
    for name in ("key_reuse", "value_reuse", "state_reuse"):
        for step in range(1, data.sizes["step"]):
            values = data[name].values[step][:, : len(PROMPT) + step - 1]
            assert np.allclose(values, 1, atol=1e-5)
    assert np.isnan(data["top_reuse"]).all()
    assert (data["mass_ahead"] == 0).all()


def test_by_hand() -> None:
    rows = torch.tensor([[[[0.5, 0.3, 0.15, 0.05], [0.94, 0.02, 0.02, 0.02]]]])
    assert keys_holding(rows, 0.90).tolist() == [[2.0]]  # 3 and 1
    assert keys_holding(rows, 0.99).tolist() == [[4.0]]
    masked = torch.tensor([[False, True, True, True]])
    found = mass_ahead(rows, torch.tensor([0, 2]), masked)[0]  # row 2 has one mask ahead, at distance 1
    assert found.tolist() == pytest.approx([(0.3 + 0.02) / 2, (0.15 + 0.05) / 2, 0, 0, 0, 0, 0])
    assert mass_ahead(rows[:, :, :0], torch.tensor([], dtype=torch.long), masked).isnan().all()
    assert keys_holding(rows[:, :, :0], 0.9).isnan().all()


@given(st.integers(0, 2**16), st.integers(1, 6), st.integers(1, 12), st.sampled_from([0.9, 0.95, 0.99]))
def test_keys_holding_equals_a_count(seed: int, rows: int, keys: int, share: float) -> None:
    weights = np.random.default_rng(seed).dirichlet(np.ones(keys), size=(1, 2, rows))
    found = keys_holding(torch.from_numpy(weights), share)
    assert found.tolist() == [
        [pytest.approx(np.mean([fewest(row, share) for row in weights[0, head]])) for head in range(2)]
    ]


def test_what_is_refused(tiny_model: Model) -> None:
    with pytest.raises(FloatlensError, match=r'probe "cacheability": keys, values and states of .* max_bytes'):
        trace(tiny_model("llada"), prompt_ids=PROMPT, probes=[Cacheability(max_bytes=10)], gen_length=2)
    with pytest.raises(FloatlensError, match=r"Cacheability\(rows=0\): give a whole number from 2"):
        Cacheability(rows=0)


def test_it_stands_beside_other_probes(tiny_model: Model) -> None:
    probes = ["received", "smoothing", "cacheability", Matrix()]
    data = trace(tiny_model("dream"), prompt_ids=PROMPT, probes=probes, gen_length=2).data
    assert {"received", "row_distance", "key_reuse", "matrix"} <= set(data.data_vars)
