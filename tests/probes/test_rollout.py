"""The streamed rollout of deciding rows against products of whole matrices, and their direct attention by region."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from floatlens import Select, trace
from floatlens.analysis import token_rollout
from floatlens.attention.probe import Layout
from floatlens.decoding import decode_steps, plan
from floatlens.models.base import LanguageModel
from floatlens.probes import Matrix
from floatlens.prompts import Prompt
from floatlens.traces import Trace
from shared.capture import capture

SETTINGS: dict[str, dict[str, Any]] = {
    "llada": {"gen_length": 8, "steps": 4, "block_length": 4},
    "dream": {"gen_length": 8, "steps": 5, "alg": "entropy"},
    "bert": {"gen_length": 6, "steps": 3},
    "llama": {"gen_length": 6},
    "mistral": {"gen_length": 6},
}
CASES = [*SETTINGS.items(), ("llama", {"gen_length": 6, "use_cache": False})]
CLOSE = 1e-5
IDS = [5, 9, 12, 33, 21, 8, 30, 17]
OF = [0, 1, 2, 2, 3, 3, 3, 5]
NAMES = ["bos", "question", "doc1", "doc2", "answer", "template"]


def prompt() -> Prompt:
    """Eight tokens in five regions; it needs no tokenizer."""
    blank = np.zeros(len(IDS), dtype=bool)
    return Prompt(IDS, NAMES, np.array(OF, dtype=np.int16), "", np.zeros((len(IDS), 2), dtype=np.int64), blank, None)


def by_region(row: np.ndarray, region_of: np.ndarray) -> list[float]:
    """Sums of a row over the keys of each region."""
    return [sum(row[j] for j in range(len(row)) if region_of[j] == r) for r in range(len(NAMES))]


def traced(model: LanguageModel, **settings: Any) -> Trace:
    return trace(model, prompt=prompt(), probes=["answer_rows", "rollout", Matrix()], **settings)


@pytest.mark.parametrize(("name", "settings"), CASES, ids=lambda x: x if isinstance(x, str) else ",".join(x))
def test_rollout_and_attention_are_those_of_whole_matrices(
    name: str, settings: dict[str, Any], tiny_model: Callable[[str], LanguageModel]
) -> None:
    check(traced(tiny_model(name), **settings))


def check(found: Trace) -> None:
    data = found.data
    layers, region_of = found.model["layers"], data["region_of"].values
    assert data["answer_rollout"].dims == data["answer_flow"].dims == ("token", "layer", "region")
    assert data["answer_rollout"].shape == (data.sizes["token"], layers, len(NAMES))
    for t in range(data.sizes["token"]):
        step, row = int(data["token_step"][t]), int(data["token_row"][t])
        whole = token_rollout(found, step).values[row]
        last = data["answer_rollout"].values[t, -1]
        assert last.tolist() == pytest.approx(by_region(whole, region_of), abs=CLOSE)
        made = np.eye(data.sizes["key"])
        for layer in range(layers):
            mean = np.nan_to_num(data["matrix"].values[step, layer]).mean(axis=0)
            made = (mean + np.eye(len(mean))) @ made / 2
            direct = by_region(mean[row], region_of)
            assert data["answer_flow"].values[t, layer].tolist() == pytest.approx(direct, abs=CLOSE)
            through = by_region(made[row], region_of)
            assert data["answer_rollout"].values[t, layer].tolist() == pytest.approx(through, abs=CLOSE)
        assert sum(last) == pytest.approx(1, abs=CLOSE)


def test_block_attention(tiny_model: Callable[[str], LanguageModel]) -> None:
    """Causal, but what is being written sees all of itself."""
    base = tiny_model("llada")
    model = LanguageModel(
        base.module, base.family, "mdm", base.ref, shift=False, mask_id=base.mask_id, attention="block"
    )
    found = traced(model, gen_length=6, steps=3)
    seen = ~np.isclose(np.nan_to_num(found.data["matrix"].values[0, 0, 0]), 0)
    assert not seen[0, 1:].any()
    assert seen[8:, 8:].all()
    check(found)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("name", ["llada", "dream", "llama"])
def test_a_batch_of_padded_samples_tells_what_they_tell_alone(
    name: str, side: str, tiny_model: Callable[[str], LanguageModel]
) -> None:
    model, settings = tiny_model(name), {**SETTINGS[name], "padding": side}
    prompts = [IDS[:7], IDS[:3], IDS[2:7]]
    together = run(model, prompts, settings)
    for sample, one in enumerate(prompts):
        alone = run(model, [one], settings)
        mine = [token for token in together if token.sample == sample]
        assert len(mine) == len(alone) == settings["gen_length"]
        for ours, single in zip(mine, alone, strict=True):
            assert ours.token == single.token
            for what in ("answer_flow", "answer_rollout"):
                assert np.abs(ours.found[what] - single.found[what]).max() <= 3 * CLOSE
                assert ours.found[what].sum(-1) == pytest.approx(np.ones(model.num_layers), abs=CLOSE)


def run(model: LanguageModel, prompts: list[list[int]], settings: dict[str, Any]) -> list[Any]:
    canvas = plan(model, prompts, **settings)
    real = canvas.attention_mask.numpy()
    region_of = np.full(real.shape, -1)
    for b, row in enumerate(real):
        own = np.flatnonzero(row)
        size = len(prompts[b])
        region_of[b, own] = [*([0] * (size // 2)), *([1] * (size - size // 2)), *([2] * (len(own) - size))]
    layout = Layout(("question", "doc1", "answer"), region_of)
    probes = ["answer_rows", "rollout"]
    with capture(model, probes, layout=layout, steps=canvas.max_steps, length=canvas.length) as recorder:
        for step in decode_steps(model, prompts, **settings):
            recorder.commit(step)
    return recorder.committed


@pytest.mark.parametrize("size", [(1, 1), (3, 1), (4, 3), (1000, 1000)], ids=str)
@pytest.mark.parametrize("name", ["dream", "llama"])
def test_block_shapes_do_not_matter(
    name: str, size: tuple[int, int], tiny_model: Callable[[str], LanguageModel], blocks: Callable[..., Any]
) -> None:
    model = tiny_model(name)
    one = trace(model, prompt=prompt(), probes=["answer_rows", "rollout"], gen_length=4)
    other = trace(model, prompt=prompt(), probes=["answer_rows", "rollout"], gen_length=4, workspace=blocks(*size))
    for what in ("answer_flow", "answer_rollout"):
        assert np.abs(one.data[what].values - other.data[what].values).max() <= CLOSE


@pytest.mark.parametrize("name", ["llada", "llama"])
def test_a_missing_layer_leaves_the_layers_above_it_unknown(
    name: str, tiny_model: Callable[[str], LanguageModel]
) -> None:
    settings: dict[str, Any] = {"prompt": prompt(), "probes": ["answer_rows", "rollout"], "gen_length": 4}
    whole = trace(tiny_model(name), **settings).data["answer_rollout"].values
    some = trace(tiny_model(name), **settings, select=Select(layers=[0, 2])).data
    assert np.array_equal(some["answer_rollout"].values[:, 0], whole[:, 0])
    assert np.isnan(some["answer_rollout"].values[:, 1]).all()
    assert not np.isnan(some["answer_flow"].values).any()
    first = trace(tiny_model(name), **settings, select=Select(layers=[0, 1])).data
    assert np.array_equal(first["answer_rollout"].values, whole[:, :2])


def test_tokens_of_steps_that_were_not_recorded_are_unknown(tiny_model: Callable[[str], LanguageModel]) -> None:
    settings: dict[str, Any] = {"probes": ["answer_rows", "rollout"], "gen_length": 6, "steps": 6}
    whole = trace(tiny_model("llada"), prompt=prompt(), **settings).data
    some = trace(tiny_model("llada"), prompt=prompt(), **settings, select=Select(steps=[1, 4], heads=[0])).data
    told = np.isin(some["token_step"].values, [1, 4])
    for what in ("answer_flow", "answer_rollout"):
        assert np.array_equal(some[what].values[told], whole[what].values[told])  # of all heads, whatever is selected
        assert np.isnan(some[what].values[~told]).all()
    none = trace(tiny_model("llada"), prompt=prompt(), **settings, select=Select(steps=[1], layers=[0])).data
    assert none["answer_rollout"].shape == (6, 1, len(NAMES))


def test_a_cache_that_was_filled_before_the_capture_leaves_it_unknown(
    tiny_model: Callable[[str], LanguageModel],
) -> None:
    """The rows of the cached tokens were not seen, so nothing is known of what came through them."""
    model, ids = tiny_model("llama"), torch.tensor([IDS])
    cache = model.new_cache()
    model.forward(ids[:, :5], cache=cache)
    layout = Layout(("question", "answer"), np.array([[0, 0, 0, 0, 0, 0, 1, 1]]))
    with capture(model, ["rollout"], layout=layout) as recorder:
        model.forward(ids[:, 5:], cache=cache)
        (probe,) = recorder.probes
        rows = [probe.deciding_row(layer, 0, 2)["answer_rollout"] for layer in range(model.num_layers)]
    assert np.isnan(rows).all()
    assert np.shape(rows) == (model.num_layers, 2)


def test_rows_that_an_edit_emptied_are_normalised(tiny_model: Callable[[str], LanguageModel]) -> None:
    """Half of the heads give nothing: rows of A sum to less than 1, and A + I is divided by its row sums."""
    from floatlens.edits import AblateHeads

    model = tiny_model("llada")
    heads = [(layer, head) for layer in range(model.num_layers) for head in range(model.num_heads // 2)]
    settings: dict[str, Any] = {"probes": ["rollout", Matrix()], "gen_length": 4, "steps": 2}
    found = trace(model, prompt=prompt(), edits=[AblateHeads(heads)], **settings)
    matrix = found.data["matrix"].values
    assert matrix.mean(axis=2).sum(axis=-1) == pytest.approx(np.full(matrix.shape[:2] + matrix.shape[3:4], 0.5))
    for t in range(4):
        step, row = int(found.data["token_step"][t]), int(found.data["token_row"][t])
        whole = token_rollout(found, step).values[row]
        got = found.data["answer_rollout"].values[t, -1].tolist()
        assert got == pytest.approx(by_region(whole, found.data["region_of"].values), abs=CLOSE)
