"""Two numbers of the page on serving and of the page on edits, derived from their definitions without the package's
code: what a refresh schedule saves, and the attention that a boosted span has."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import floatlens as fl
from floatlens.probes import Matrix

QUESTION: dict[str, Any] = {
    "question": "What does Ada Frost play ?",
    "documents": ["Ada Frost plays the flute .", "Boris Winter plays the harp ."],
    "gold": 0,
}
SCHEDULE = {0: 4, 1: 2, 2: 1, 3: 4, 4: 2, 5: 2, 6: 4, 7: 2}


@pytest.fixture(scope="module")
def model() -> Any:
    return fl.load("scale:llada")


def test_what_a_schedule_saves(model: Any) -> None:
    """Count, token by token, the multiplications of a server that does what docs/serving.md says.

    A layer computes everything in every n-th step. In between it computes what its cache does not hold: positions that
    were masks at its last refresh. A token's row (query, output, MLP) is done below the deepest layer that computes
    its key, and in all layers where it is a mask, or where every layer computes it.
    """
    width, inner, layers = 128, 288, 8
    key = 2 * width * width  # key and value; as many key as query heads
    row = 2 * width * width + 3 * width * inner  # query and output, gate, up and down
    edit = fl.edits.Stale(schedule=SCHEDULE)
    with fl.edit(model, edit):
        trace = fl.trace(model, **QUESTION, gen_length=8, steps=8, probes=["received"])
    masked = trace.data["sequence"].values == model.mask_id
    assert len(masked) == 8
    shares = []
    for step, now in enumerate(masked):
        done = 0
        for token in range(masked.shape[1]):
            fresh = [step % n == 0 or masked[step - step % n, token] for n in (SCHEDULE[i] for i in range(layers))]
            deepest = max((layer for layer in range(layers) if fresh[layer]), default=0)
            rows = layers if now[token] or all(fresh) else deepest
            done += row * rows + key * sum(fresh)
        shares.append(1 - done / (layers * (row + key) * masked.shape[1]))
    assert edit.numbers()["saved"] == pytest.approx(np.mean(shares))
    assert edit.refreshes() == "0/4+1/2+3/4+4-5/2+6/4+7/2"  # layers at 1 are as without
    assert edit.saved_passes() == pytest.approx([sum(shares)])
    assert 0.1 < float(np.mean(shares)) < 0.5


def attention_from_weights(model: Any, ids: list[int]) -> Any:
    """(head, query, key): the attention of layer 0, from the tensors of the checkpoint alone."""
    weights = {name: tensor.detach().double().numpy() for name, tensor in model.module.named_parameters()}
    heads, dim, base = 8, 16, 500000.0
    states = weights["model.embed_tokens.weight"][ids]
    states = states / np.sqrt((states**2).mean(-1, keepdims=True) + 1e-5)
    states = states * weights["model.layers.0.input_layernorm.weight"]
    angles = np.arange(len(ids))[:, None] * base ** (-np.arange(0, dim, 2) / dim)
    cos, sin = (np.concatenate([f(angles)] * 2, axis=1) for f in (np.cos, np.sin))

    def turned(name: str) -> Any:
        flat = states @ weights[f"model.layers.0.self_attn.{name}_proj.weight"].T
        x = flat.reshape(len(ids), heads, dim).transpose(1, 0, 2)
        half = np.concatenate([-x[..., dim // 2 :], x[..., : dim // 2]], axis=-1)
        return x * cos + half * sin

    logits = turned("q") @ turned("k").transpose(0, 2, 1) / math.sqrt(dim)
    shares = np.exp(logits - logits.max(-1, keepdims=True))
    return shares / shares.sum(-1, keepdims=True)


def test_the_attention_of_a_boosted_document(model: Any) -> None:
    """With ln(1 + g) added to the logits of a span that had m, it has (1 + g) m / (1 + g m), row by row."""
    gain = 3.0
    boost = fl.edits.Boost("gold", gain=gain)
    matrix = Matrix(select=fl.Select(layers=[0], steps=[0]))
    trace = fl.trace(model, **QUESTION, gen_length=4, probes=["received", matrix], edits=[boost])
    plain = attention_from_weights(model, trace.data["sequence"].values[0].tolist())
    span = trace.data["region_of"].values == trace.regions.index("doc1")
    had = plain[:, :, span].sum(-1)
    wanted = (1 + gain) * had / (1 + gain * had)
    seen = trace.data["matrix"].values[0, 0]
    np.testing.assert_allclose(seen[:, :, span].sum(-1), wanted, atol=2e-5)
    assert float(wanted.mean()) > float(had.mean()) + 0.01
    first = next(one for one in boost.report() if (one.step, one.layer) == (0, 0))
    assert first.mass == pytest.approx(float((wanted - had).sum()), rel=1e-4)  # rows without any are not counted
