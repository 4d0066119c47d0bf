"""Contributions to deciding rows and their rollout, against dense matrices of every layer."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import floatlens as fl
from floatlens.attention.mixing import mixers_of, terms_of
from floatlens.attention.probe import Layout
from floatlens.probes import ContributionRollout, ContributionRows
from shared.capture import capture

REGION_OF = [0, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3]
REGIONS = ("bos", "question", "doc1", "answer")
EVIDENCE = [5, 6]
NAMES = ["llada", "dream", "caduceus-ph", "caduceus-ps", "lfm2-encoder"]


def ids_of(model):
    ids = torch.tensor([[7, 8, 9, 10, 8, 7, 11, 9, 7, 7, 7, 7]])
    ids[0, 8:] = model.mask_id
    return ids


def dense(model, ids, observe):
    """(layer, head, query, key) in float64: the lengths of all terms, rows normalised."""
    found = {}

    def note(module, args, kwargs):
        states = args[0] if args else kwargs["hidden_states"]
        norms = terms_of(module, states, None).rows(0, ids.shape[1]).double().norm(dim=-1)
        found[module.layer_idx] = norms.repeat(model.num_heads, 1, 1).numpy()

    hooks = [one.register_forward_pre_hook(note, with_kwargs=True) for one in mixers_of(model.module)]
    try:
        seen = observe(model, ids).layers if model.attention_layers else model.forward(ids)
    finally:
        for hook in hooks:
            hook.remove()
    at = [
        one for name, one in model.module.named_modules() if name.endswith(("self_attn.o_proj", "self_attn.out_proj"))
    ]
    if model.attention_layers:
        for index, layer, projection in zip(model.attention_layers, seen, at, strict=True):
            heads, dim = layer.query.shape[1], layer.value.shape[-1]
            value = np.repeat(layer.value[0], heads // layer.value.shape[1], axis=0)
            weight = projection.weight.detach().double().numpy().reshape(-1, heads, dim)
            written = np.einsum("whd,hkd->hkw", weight, value)
            found[index] = layer.weights[0] * np.linalg.norm(written, axis=-1)[:, None]
    made = np.stack([found[index] for index in range(model.num_layers)])
    return made / made.sum(-1, keepdims=True)


def layout(batch=1):
    evidence = np.zeros((batch, 12), dtype=bool)
    evidence[:, EVIDENCE] = True
    return Layout(REGIONS, np.tile(REGION_OF, (batch, 1)), evidence)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("rows", [2, 64])
def test_deciding_rows_and_rollout(name, rows, tiny_model, observe, blocks, kernel):
    model = tiny_model(name)
    ids = ids_of(model)
    expected = dense(model, ids, observe)
    member = np.eye(4)[REGION_OF]
    probes = [ContributionRows(), ContributionRollout()]
    with capture(model, probes, layout=layout(), workspace=blocks(rows, 1, kernel)):
        model.forward(ids)
    through = member
    for layer, shares in enumerate(expected):
        through = (shares.mean(0) @ through + through) / 2
        for row in (9, 10):
            found = probes[0].deciding_row(layer, 0, row)
            np.testing.assert_array_equal(found["contribution_argmax"], shares[:, row].argmax(-1))
            np.testing.assert_allclose(found["contribution_peak"], shares[:, row].max(-1), atol=1e-5)
            evidence = shares[:, row][:, EVIDENCE].sum(-1)
            np.testing.assert_allclose(found["contribution_evidence"], evidence, atol=1e-5)
            flow = shares[:, row].mean(0) @ member
            np.testing.assert_allclose(found["contribution_answer_flow"], flow, atol=1e-5)
            rolled = probes[1].deciding_row(layer, 0, row)["contribution_rollout"]
            np.testing.assert_allclose(rolled, through[row], atol=1e-5)


def test_question_flow_is_that_of_the_question_s_rows(tiny_model, observe):
    model = tiny_model("lfm2-encoder")
    ids = ids_of(model)
    expected = dense(model, ids, observe)
    with capture(model, ["contribution"], layout=layout()) as recorder:
        model.forward(ids)
    found = recorder.variables["contribution_question_flow"].stack()[0, 0]
    wanted = expected[:, :, 1:4].mean(2) @ np.eye(4)[REGION_OF]
    np.testing.assert_allclose(found, wanted, atol=1e-5)


def test_a_trace_has_them_for_each_token(tiny_model):
    trace = fl.trace(tiny_model("lfm2-encoder"), prompt_ids=list(range(20, 32)), gen_length=4)
    for name in ("contribution_answer_flow", "contribution_rollout"):
        np.testing.assert_allclose(trace.data[name].sum("region"), 1, atol=1e-5)
    assert (trace.data["contribution_argmax"] >= 0).all()
    assert trace.model["reach"] == [[1, 1], [1, 1], "mask", [1, 1], "mask"]
    assert np.isnan(trace.data["answer_rollout"]).all()  # a rollout needs every layer
    other = fl.trace(tiny_model("llada"), prompt_ids=[7, 8, 9], gen_length=2)
    assert "reach" not in other.model
    assert "contribution" not in other.data


def test_a_layer_that_is_left_out_ends_the_rollout(tiny_model):
    select = fl.Select(layers=[0, 2])
    trace = fl.trace(tiny_model("caduceus-ph"), prompt_ids=[7, 8, 9], gen_length=2, select=select)
    found = trace.data["contribution_rollout"]
    assert found.sel(layer=0).notnull().all()
    assert found.sel(layer=2).isnull().all()
