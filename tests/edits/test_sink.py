"""The extra token: a softmax with one more key, and exactly what a token in front of the sequence would do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from floatlens import Select, edit
from floatlens.attention.softmax import Workspace
from floatlens.core.errors import FloatlensError
from floatlens.edits import AblateHeads, SinkToken
from floatlens.probes import Matrix
from shared.capture import capture

pytestmark = pytest.mark.slow

IDS = torch.tensor([[5, 9, 12, 33, 21, 8, 30], [17, 6, 40, 11, 7, 31, 22]])


@pytest.mark.parametrize(("name", "how"), [("llada", {"steps": 4}), ("llama", {})])
@pytest.mark.parametrize("kernel", ["torch", "numba"])
def test_an_ideal_sink_is_one_more_key(name: str, how: Any, kernel: str, decoded: Any, tiny_model: Any) -> None:
    """Rows shrink by exp(x) / (Z + exp(x)), where Z is the sum of the exponentials of a row; x = 1.5 here."""
    if kernel == "numba":
        pytest.importorskip("numba")
    sink = SinkToken(logit=1.5, strength=0.5)
    shown: dict[tuple[int, int], list[float]] = {}
    seen = decoded(tiny_model(name), [sink], kernel=kernel, cut=(4, 1), **how)
    for step in range(seen.steps):
        for layer in range(seen.layers):
            before, after = seen.new(step, layer)
            z = np.exp(seen.top[step, layer]) * seen.sums[step, layer]
            share = 0.5 * np.exp(1.5) / (z + 0.5 * np.exp(1.5))
            for sample in range(2):
                first = seen.positions[step].real.shape[1] - before.shape[2]
                rows = [i - first for i in seen.real(step, sample) if i >= first]
                for i in rows:
                    expected = before[sample, :, i] * (1 - share[sample, :, i, None])
                    assert np.abs(after[sample, :, i] - expected).max() <= 1e-5
                    shown.setdefault((step, layer), []).extend(share[sample, :, i])
    for change in sink.report():
        there = shown[change.step, change.layer]
        assert change.rows == len(there)
        assert change.mass == pytest.approx(sum(there), rel=1e-4)


@pytest.mark.parametrize("name", ["llama", "qwen2", "qwen3"])
def test_a_causal_model_with_a_token_in_front(name: str, tiny_model: Callable[[str], Any]) -> None:
    """In front of a causal sequence a token sees only itself anyway: the edit must give what the longer pass gives."""
    model = tiny_model(name)
    longer = model.forward(torch.cat([torch.full((2, 1), 44), IDS], dim=1))[:, 1:]
    with edit(model, SinkToken(44), workspace=Workspace(kernel="torch")):
        edited = model.forward(IDS)
        cache, pieces = model.new_cache(), []
        for piece in (IDS[:, :4], IDS[:, 4:5], IDS[:, 5:]):
            pieces.append(model.forward(piece, cache=cache))
    assert (edited - longer).abs().max() <= 1e-4 * longer.abs().max()
    assert (torch.cat(pieces, 1) - edited).abs().max() <= 1e-4 * longer.abs().max()
    assert (edited - model.forward(IDS)).abs().max() > 1e-2


@pytest.mark.parametrize("name", ["llada", "dream"])
def test_a_diffusion_model_with_a_token_in_front(name: str, tiny_model: Callable[[str], Any]) -> None:
    """There the longer pass needs a mask: the token sees itself alone, and everyone sees it."""
    model = tiny_model(name)
    ids = torch.cat([torch.full((2, 1), 44), IDS], dim=1)
    mask = torch.ones(2, 1, 8, 8, dtype=torch.bool)
    mask[:, :, 0, 1:] = False
    with torch.inference_mode():
        longer: Tensor = model.module(input_ids=ids, attention_mask=mask).logits[:, 1:]
    with edit(model, SinkToken(44), workspace=Workspace(kernel="torch")):
        edited = model.forward(IDS)
    assert (edited - longer).abs().max() <= 1e-4 * longer.abs().max()


def test_only_chosen_layers_and_heads_see_it(decoded: Any, tiny_model: Any) -> None:
    plain = decoded(tiny_model("llada"), [], steps=2)
    seen = decoded(tiny_model("llada"), [SinkToken(logit=3.0, select=Select(layers=1, heads=[0, 2]))], steps=2)
    assert np.array_equal(seen.weights[0, 0], plain.weights[0, 0])
    assert np.array_equal(seen.weights[0, 1][:, [1, 3]], plain.weights[0, 1][:, [1, 3]])
    assert seen.weights[0, 1][1, [0, 2]].sum(-1).min() < 0.5


def test_entropy_and_received_count_the_sink(tiny_model: Any) -> None:
    model = tiny_model("llada")
    found = []
    for kernel in ("torch", "auto"):
        workspace = Workspace(kernel=kernel)
        with capture(model, ["entropy", "received"], edits=[SinkToken(logit=2.0)], workspace=workspace) as rec:
            model.forward(IDS)
        found.append({name: store.stack()[0] for name, store in rec.variables.items()})
    with capture(model, ["matrix"], edits=[SinkToken(logit=2.0)], length=7, steps=1) as rec:
        model.forward(IDS)
    weights = rec.probes[0].taken[0, 0]  # type: ignore[attr-defined]
    weights = weights.astype(np.float64)
    whole = np.concatenate([weights, np.maximum(1 - weights.sum(-1, keepdims=True), 0)], axis=-1)
    entropy = -np.where(whole > 0, whole * np.log(np.maximum(whole, 1e-30)), 0.0).sum(-1)
    for values in found:
        assert np.abs(values["received"][:, 0] - weights.mean(2)).max() <= 1e-6
        assert np.abs(values["entropy"][:, 0] - entropy).max() <= 1e-4


def test_an_ablated_head_does_not_read_the_sink(tiny_model: Any) -> None:
    """Nothing of the sink's value may come through a head that puts out nothing."""
    model = tiny_model("llada")
    every = [(layer, head) for layer in range(model.num_layers) for head in range(model.num_heads)]
    with edit(model, AblateHeads(every)):
        silent = model.forward(IDS)
    with edit(model, SinkToken(44), AblateHeads(every)):
        both = model.forward(IDS)
    assert torch.equal(silent, both)


def test_what_cannot_be(tiny_model: Any) -> None:
    with pytest.raises(FloatlensError, match=r"give token or logit=1\.0, not both"):
        SinkToken(3, logit=1.0)
    with pytest.raises(FloatlensError, match="finite"):
        SinkToken(logit=float("inf"))
    with pytest.raises(FloatlensError, match="ids up to"), edit(tiny_model("llama"), SinkToken(10**6)):
        pass


@pytest.mark.parametrize("name", ["llada", "llama"])
def test_entropy_counts_the_sink_beside_edits_of_weights(name: str, tiny_model: Any, blocks: Any) -> None:
    """A row's entropy is over its keys and the sink, whatever else is at work; other heads keep theirs."""
    model, ids = tiny_model(name), torch.tensor([[5, 9, 12, 33, 21, 8, 30]])

    def seen(*edits: Any) -> tuple[np.ndarray, np.ndarray]:
        probe = Matrix()
        with capture(model, [probe, "entropy"], edits=edits, steps=1, length=8, workspace=blocks(4, 2, "torch")) as rec:
            model.forward(ids)
        return rec.variables["entropy"].stack()[0, 0, 0][:, :7], np.nan_to_num(probe.taken[0, 0][0]).astype(float)

    alone, _ = seen(SinkToken(logit=1.0))
    for ablated in (AblateHeads([(0, 1)]), AblateHeads([(0, 1)], strength=0.5), AblateHeads([(0, 1)], mode="uniform")):
        entropy, weights = seen(SinkToken(logit=1.0), ablated)
        assert np.abs(entropy - alone)[[0, 2, 3]].max() <= 1e-5
        kept = {"zero": 1 - ablated.strength, "uniform": 1.0}[ablated.mode]
        rows = weights[1]
        share = kept - rows.sum(-1)  # the sink's, which is silenced with its head
        expected = -np.where(rows > 0, rows * np.log(np.maximum(rows, 1e-300)), 0.0).sum(-1)
        expected -= np.where(share > 1e-7, share * np.log(np.maximum(share, 1e-300)), 0.0)
        assert np.abs(entropy[1] - expected).max() <= 1e-4
