"""The probe `contribution`, against dense references on attention, Mamba and convolution layers, and in traces."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import floatlens as fl
from floatlens.attention.mixing import mixers_of, terms_of
from floatlens.core.errors import FloatlensError
from shared.capture import capture


def _expected(seen, weight):
    """(head, query, key): the lengths of attention × value × projection, rows normalised, in float64."""
    heads, dim = seen.query.shape[1], seen.value.shape[-1]
    groups = heads // seen.value.shape[1]
    found = np.zeros(seen.weights.shape[1:])
    for head in range(heads):
        part = weight[:, head * dim : (head + 1) * dim].numpy()
        for key in range(found.shape[2]):
            written = part @ seen.value[0, head // groups, key]
            found[head, :, key] = np.linalg.norm(seen.weights[0, head, :, key, None] * written, axis=-1)
    return found / found.sum(-1, keepdims=True)


PROJECTIONS = {"llada": "o_proj", "dream": "o_proj", "llama": "o_proj", "gpt2": "c_proj", "bert": "dense"}


@pytest.mark.parametrize("name", PROJECTIONS)
@pytest.mark.parametrize("rows", [1, 64])
def test_attention_weighted_by_what_values_write(name, rows, tiny_model, observe, draw, blocks, kernel):
    model = tiny_model(name)
    ids = draw(1, 19, mask_id=model.mask_id, masked=6)
    layers = observe(model, ids).layers
    with capture(model, ["contribution"], workspace=blocks(rows, 1, kernel)) as recorder:
        model.forward(ids)
    found = {key: store.stack()[0, 0] for key, store in recorder.variables.items()}
    masked = (ids[0] == model.mask_id).numpy() if model.mask_id is not None else np.zeros(19, dtype=bool)
    at = [one for part, one in model.module.named_modules() if _is_output(part, PROJECTIONS[name])]
    for index, (seen, projection) in enumerate(zip(layers, at, strict=True)):
        weight = projection.weight.double()
        expected = _expected(seen, weight.T if name == "gpt2" else weight)
        np.testing.assert_allclose(found["contribution"][index], expected.mean(1), atol=1e-5)
        np.testing.assert_allclose(found["contribution"][index].sum(-1), 1, atol=1e-5)
        committed = expected[:, ~masked].mean(1)
        np.testing.assert_allclose(found["contribution_committed"][index], committed, atol=1e-5)
        if masked.any():
            np.testing.assert_allclose(found["contribution_masked"][index], expected[:, masked].mean(1), atol=1e-5)
        np.testing.assert_allclose(found["contribution_flow"][index], [[1]], atol=1e-5)


def _is_output(name, last):
    if last == "dense":
        return name.endswith("attention.output.dense")
    return name.endswith((f"self_attn.{last}", f"attn.{last}"))


@pytest.mark.parametrize("name", ["caduceus-ph", "caduceus-ps", "lfm2-encoder"])
def test_layers_without_attention(name, golden, tiny_model):
    model = tiny_model(name)
    ids = load_file(golden(name) / "golden.safetensors")["forward.input_ids"]
    expected = {}

    def note(module, args, kwargs):
        states = args[0] if args else kwargs["hidden_states"]
        norms = terms_of(module, states, None).rows(0, ids.shape[1]).double().norm(dim=-1)[0]
        expected[module.layer_idx] = (norms / norms.sum(-1, keepdim=True)).numpy()

    hooks = [one.register_forward_pre_hook(note, with_kwargs=True) for one in mixers_of(model.module)]
    try:
        model.forward(ids)
    finally:
        for hook in hooks:
            hook.remove()
    with capture(model, ["contribution"]) as recorder:
        model.forward(ids)
    found = {key: store.stack()[0, 0] for key, store in recorder.variables.items()}
    masked = (ids[0] == model.mask_id).numpy()
    np.testing.assert_allclose(found["contribution"].sum(-1), 1, atol=1e-5)
    assert sorted(expected) == [i for i in range(model.num_layers) if i not in model.attention_layers]
    for index, rows in expected.items():
        for head in range(model.num_heads):
            np.testing.assert_allclose(found["contribution"][index, head], rows.mean(0), atol=1e-5)
            np.testing.assert_allclose(found["contribution_masked"][index, head], rows[masked].mean(0), atol=1e-5)


def test_padding_neither_gives_nor_receives(tiny_model):
    ids = torch.tensor([[7, 8, 3, 10, 9, 9, 3, 7]])
    padded, mask = (torch.nn.functional.pad(x, (2, 3)) for x in (ids, torch.ones_like(ids)))
    for name in ("caduceus-ph", "caduceus-ps", "lfm2-encoder", "llada"):
        model, found = tiny_model(name), []
        for given, real in ((ids, None), (padded, mask)):
            with capture(model, ["contribution"]) as recorder:
                model.forward(given, real)
            found.append(recorder.variables["contribution"].stack()[0, 0])
        np.testing.assert_allclose(found[1][..., 2:-3], found[0], atol=1e-5)
        assert not found[1][..., :2].any()
        assert not found[1][..., -3:].any()


def test_a_trace_of_a_model_without_attention(tiny_model):
    trace = fl.trace(tiny_model("caduceus-ph"), prompt_ids=[7, 8, 9, 10, 8, 7], gen_length=4)
    assert "contribution" in trace.data
    assert "received" not in trace.data
    np.testing.assert_allclose(trace.data["contribution"].sum("key"), 1, atol=1e-5)
    with pytest.raises(FloatlensError, match='has no attention, so the probe "received" finds nothing in it'):
        fl.trace(tiny_model("caduceus-ph"), prompt_ids=[7, 8], gen_length=2, probes=["received"])


def test_a_trace_of_a_hybrid(tiny_model):
    trace = fl.trace(tiny_model("lfm2-encoder"), prompt_ids=list(range(20, 32)), gen_length=4)
    held = trace.data["received"].notnull().all(("step", "head", "key")).values
    assert held.tolist() == [False, False, True, False, True]
    assert trace.data["contribution"].notnull().all()
    assert (trace.data["answer_argmax"].values[:, [0, 1, 3]] == -1).all()
    assert (trace.data["answer_argmax"].values[:, [2, 4]] >= 0).all()


def test_a_layer_that_is_not_covered_is_named(tiny_model, monkeypatch):
    model = tiny_model("lfm2-encoder")
    monkeypatch.setattr("floatlens.attention.installation.mixers_of", lambda _: [])
    words = "layer 0 has no attention, and contributions of its kind"
    with pytest.raises(FloatlensError, match=words), capture(model, ["contribution"]):
        pass
