"""Shuffled weights: the values of each matrix stay, their places do not, and nothing else changes."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
import torch

import floatlens as fl
from floatlens.models.names import resolve_name
from floatlens.models.shuffling import shuffle


def _parameters(model):
    return dict(model.module.named_parameters())


@pytest.fixture(scope="module")
def llada():
    return fl.load("scale:llada")


def test_every_matrix_keeps_its_values_and_loses_their_places(llada):
    before = {name: one.clone() for name, one in _parameters(llada).items()}
    made = fl.shuffled(llada, seed=3)
    for name, one in _parameters(made).items():
        old = before[name]
        assert torch.equal(_parameters(llada)[name], old), f"{name} of the original was changed"
        if one.ndim == 1:
            assert torch.equal(one, old), name
            continue
        assert torch.equal(one.flatten().sort().values, old.flatten().sort().values), name
        assert float((one == old).float().mean()) < 0.01, f"{name} is where it was"
    assert any(one.ndim == 1 for one in before.values())


def test_permutation_is_that_of_numpy_for_the_seed_and_the_name(llada):
    name = "model.layers.0.self_attn.q_proj.weight"
    old = _parameters(llada)[name]
    digest = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")
    order = np.arange(old.numel())
    np.random.default_rng([5, digest]).shuffle(order)
    expected = old.flatten()[torch.from_numpy(order)].reshape(old.shape)
    assert torch.equal(_parameters(fl.shuffled(llada, 5))[name], expected)


def test_seeds_and_matrices_are_permuted_differently(llada):
    one, same, other = (_parameters(fl.shuffled(llada, seed)) for seed in (0, 0, 1))
    name = "model.layers.{}.mlp.up_proj.weight"
    assert all(torch.equal(one[key], same[key]) for key in one)
    assert not torch.equal(one[name.format(0)], other[name.format(0)])
    sources = [_sources(_parameters(llada)[name.format(layer)], one[name.format(layer)]) for layer in (0, 1)]
    assert float(np.mean(sources[0] == sources[1])) < 0.01


def _sources(old, new):
    """Where each entry of `new` was in `old`, by rank."""
    ranks = np.argsort(np.argsort(new.flatten().numpy(), kind="stable"), kind="stable")
    return np.argsort(old.flatten().numpy(), kind="stable")[ranks]


def test_half_precision_gives_the_same_places(llada):
    half = fl.shuffled(fl.load("scale:llada", dtype="bfloat16"))
    whole = _parameters(fl.shuffled(llada))
    assert half.dtype == torch.bfloat16
    assert all(torch.equal(one, whole[name].bfloat16()) for name, one in _parameters(half).items())


def test_tied_matrices_stay_tied(any_name, tiny_model):
    """And every family can be shuffled and run."""
    model = tiny_model(any_name)
    made = fl.shuffled(model)
    ids = torch.randint(3, 80, (2, 9), generator=torch.Generator().manual_seed(0))
    assert made.forward(ids).shape == model.forward(ids).shape
    pairs = [
        (one.module.get_input_embeddings().weight.data_ptr(), one.module.get_output_embeddings().weight.data_ptr())
        for one in (model, made)
    ]
    assert (pairs[0][0] == pairs[0][1]) == (pairs[1][0] == pairs[1][1])
    assert pairs[0][0] != pairs[1][0]
    assert not torch.allclose(made.forward(ids), model.forward(ids))


def test_a_tied_matrix_is_permuted_once(tiny_model):
    model = tiny_model("gpt2")
    assert model.module.get_input_embeddings().weight is model.module.get_output_embeddings().weight
    matrix = model.module.get_input_embeddings().weight
    digest = int.from_bytes(hashlib.sha256(b"transformer.wte.weight").digest()[:8], "big")
    order = np.arange(matrix.numel())
    np.random.default_rng([0, digest]).shuffle(order)
    expected = matrix.flatten()[torch.from_numpy(order)].reshape(matrix.shape)
    assert torch.equal(fl.shuffled(model).module.get_output_embeddings().weight, expected)


def test_the_copy_says_what_it_is_a_control_of(llada):
    made = fl.shuffled(llada, 2)
    assert made.ref == "scale:llada, weights shuffled (seed 2)"
    assert made.control == {"of": "scale:llada", "kind": "shuffled_weights", "seed": 2}
    assert (made.family, made.kind, made.mask_id, made.tokenizer) == ("llada", "mdm", llada.mask_id, llada.tokenizer)
    assert llada.control is None
    assert made.observers == []


def test_traces_name_the_control_and_the_model_alone_has_none(llada):
    asked = {"question": "Where does Ann live?", "documents": ["Ann lives here."], "gen_length": 2, "steps": 1}
    plain, control = (fl.trace(one, **asked, probes=["received"]) for one in (llada, fl.shuffled(llada)))
    assert "control" not in plain.model
    assert control.model["control"] == {"of": "scale:llada", "kind": "shuffled_weights", "seed": 0}
    found = fl.absorption([plain, control])
    assert [group.control and group.control["of"] for group in found] == [None, "scale:llada"]
    assert found.models == ("scale:llada", "scale:llada, weights shuffled (seed 0)")


def test_shuffling_in_place_gives_the_same_and_leaves_the_files(llada):
    files = sorted(resolve_name("scale:llada").glob("*.safetensors"))
    before = [hashlib.sha256(file.read_bytes()).hexdigest() for file in files]
    made = shuffle(fl.load("scale:llada"), 4)
    expected = _parameters(fl.shuffled(llada, 4))
    assert all(torch.equal(one, expected[name]) for name, one in _parameters(made).items())
    assert made.ref == "scale:llada, weights shuffled (seed 4)"
    assert [hashlib.sha256(file.read_bytes()).hexdigest() for file in files] == before


def test_a_model_spread_over_devices(llada):
    mapped = fl.load("scale:llada", device_map={"": "cpu"})
    expected = _parameters(fl.shuffled(llada))
    made = fl.shuffled(mapped)
    assert all(torch.equal(one, expected[name]) for name, one in _parameters(made).items())
    ids = torch.tensor([[5, 7, 9]])
    torch.testing.assert_close(made.forward(ids), fl.shuffled(llada).forward(ids))


@pytest.mark.parametrize("seed", [-1, 1.5, True, "0"])
def test_seeds_are_whole_numbers(seed, llada):
    with pytest.raises(fl.FloatlensError, match="give a whole number, at least 0"):
        fl.shuffled(llada, seed)


def test_controls_and_offloaded_weights_are_refused(llada):
    with pytest.raises(fl.FloatlensError, match="is a control already"):
        fl.shuffled(fl.shuffled(llada))
    off = fl.load("scale:llada")
    off.module.get_submodule("model.layers.0.mlp.up_proj").to("meta")
    with pytest.raises(fl.FloatlensError, match=r"up_proj\.weight is offloaded by its device_map"):
        fl.shuffled(off)
