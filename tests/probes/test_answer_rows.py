"""What each committed token looked at: the row that decided it, in the pass that decided it, by an independent pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from floatlens import Select, trace
from floatlens.attention.probe import Layout
from floatlens.decoding import decode_steps, plan
from floatlens.models.base import LanguageModel
from floatlens.prompts import Prompt
from shared.capture import capture

SETTINGS: dict[str, dict[str, Any]] = {
    "llada": {"gen_length": 8, "steps": 4, "block_length": 4},
    "dream": {"gen_length": 8, "steps": 5, "alg": "entropy"},
    "bert": {"gen_length": 6, "steps": 3},
    "llama": {"gen_length": 6},
    "mistral": {"gen_length": 6},
}
CASES = [
    *SETTINGS.items(),
    ("llama", {"gen_length": 6, "use_cache": False}),
    ("llada", {"gen_length": 4, "cfg_scale": 1.5}),
]
CLOSE = 3e-5
"""The golden checkpoints have attention logits of ±40: float32 and float64 passes drift apart by 1e-5 over layers."""


def prompt_of(ids: list[int], evidence: list[int]) -> Prompt:
    """A prompt that needs no tokenizer: one question, one document, some evidence."""
    marked = np.zeros(len(ids), dtype=bool)
    marked[evidence] = True
    region_of = np.array([0] + [1] * (len(ids) // 2) + [2] * (len(ids) - 1 - len(ids) // 2), dtype=np.int16)
    regions = ["bos", "question", "doc1", "answer", "template"]
    return Prompt(ids, regions, region_of, "", np.zeros((len(ids), 2), dtype=np.int64), marked, "passage")


@pytest.mark.parametrize(("name", "settings"), CASES, ids=lambda x: x if isinstance(x, str) else ",".join(x))
def test_the_deciding_rows(
    name: str, settings: dict[str, Any], tiny_model: Callable[[str], LanguageModel], observe: Callable[..., Any]
) -> None:
    model = tiny_model(name)
    evidence = [3, 4, 6]
    data = trace(
        model, prompt=prompt_of([5, 9, 12, 33, 21, 8, 30, 17], evidence), probes=["answer_rows", "received"], **settings
    ).data
    tokens = data.sizes["token"]
    assert tokens == settings["gen_length"]
    assert sorted(data["token_position"].values) == list(range(8, 8 + tokens))
    for t in range(tokens):
        step, position = int(data["token_step"][t]), int(data["token_position"][t])
        row = {"llada": position, "bert": position}.get(name, position - 1)
        assert data["token_row"][t] == row
        before = data["sequence"].values[step]
        ids = torch.from_numpy(before[before >= 0].astype(np.int64))[None]
        observed = observe(model, ids)
        if "cfg_scale" not in settings:
            assert int(observed.logits[0, row].argmax()) == int(data["token_id"][t])
        for layer, seen in enumerate(observed.layers):
            rows = seen.weights[0, :, row]
            assert data["answer_argmax"].values[t, layer].tolist() == rows.argmax(-1).tolist()
            assert data["answer_peak"].values[t, layer].tolist() == pytest.approx(rows.max(-1).tolist(), abs=CLOSE)
            mass = [sum(rows[h, j] for j in evidence) for h in range(model.num_heads)]
            assert data["answer_evidence"].values[t, layer].tolist() == pytest.approx(mass, abs=CLOSE)


def test_no_evidence_gives_no_mass(tiny_model: Callable[[str], LanguageModel]) -> None:
    data = trace(tiny_model("llada"), prompt_ids=[5, 6, 7], probes=["answer_rows"], gen_length=4, steps=2).data
    assert np.isnan(data["answer_evidence"].values).all()
    assert (data["answer_peak"].values > 0).all()


def test_dream_decides_a_mask_in_first_place_with_its_own_row(
    tiny_model: Callable[[str], LanguageModel], observe: Callable[..., Any]
) -> None:
    """shifted[0] = raw[0]: there is no row before the first."""
    model = tiny_model("dream")
    assert model.mask_id is not None
    prompt = [model.mask_id, 7, model.mask_id, 9]
    data = trace(model, prompt_ids=prompt, probes=["answer_rows", "received"], gen_length=3, steps=3).data
    assert dict(zip(data["token_position"].values.tolist(), data["token_row"].values.tolist(), strict=True)) == {
        0: 0,
        2: 1,
        4: 3,
        5: 4,
        6: 5,
    }
    for t in range(5):
        ids = torch.from_numpy(data["sequence"].values[int(data["token_step"][t])].astype(np.int64))[None]
        rows = observe(model, ids).layers[1].weights[0, :, int(data["token_row"][t])]
        assert data["answer_argmax"].values[t, 1].tolist() == rows.argmax(-1).tolist()


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("name", ["llada", "dream", "llama"])
def test_a_batch_tells_what_its_samples_tell_alone(
    name: str, side: str, tiny_model: Callable[[str], LanguageModel]
) -> None:
    """Prompts of three lengths in one batch: committed rows, their attention, and what every key received.

    The shifted row before a sample's first token would be padding; the batch must not look there.
    """
    model = tiny_model(name)
    settings = {**SETTINGS[name], "padding": side}
    first = 7 if model.mask_id is None else model.mask_id
    prompts = [[5, 9, 12, 33, 21, 8, 30], [first, 14, 9], [6, 11, 13, 18, 27]]
    together, starts = run(model, prompts, settings)
    for sample, prompt in enumerate(prompts):
        alone, _ = run(model, [prompt], settings)
        columns = starts[sample]
        mine = [token for token in together.committed if token.sample == sample]
        assert len(mine) == len(alone.committed) >= settings["gen_length"] - 2
        for ours, single in zip(mine, alone.committed, strict=True):
            assert (ours.step, ours.token) == (single.step, single.token)
            assert (ours.position, ours.row) == (columns[single.position], columns[single.row])
            assert ours.found["answer_argmax"].tolist() == columns[single.found["answer_argmax"]].tolist()
            for what in ("answer_peak", "answer_evidence"):
                assert np.abs(ours.found[what] - single.found[what]).max() <= CLOSE
        for variable in ("received", "received_answer", "qk_dot", "entropy"):
            whole, own = (r.variables[variable].stack() for r in (together, alone))
            for step in range(len(own)):
                width = alone.lengths[step]
                a, b = whole[step, sample][..., columns[:width]], own[step, 0][..., :width]
                assert (np.isnan(a) == np.isnan(b)).all()
                scale = max(1, np.abs(np.nan_to_num(b)).max())
                assert np.abs(np.nan_to_num(a - b)).max() <= 5e-5 * scale, (variable, step)


def run(model: LanguageModel, prompts: list[list[int]], settings: dict[str, Any]) -> tuple[Any, list[np.ndarray]]:
    """A captured run, and for each sample the column of each of its own places."""
    canvas = plan(model, prompts, **settings)
    real = canvas.attention_mask.numpy()
    region_of = np.full(real.shape, -1)
    evidence = np.zeros(real.shape, dtype=bool)
    columns = [np.flatnonzero(row) for row in real]
    for b, own in enumerate(columns):
        region_of[b, own] = [0] * len(prompts[b]) + [1] * (len(own) - len(prompts[b]))
        evidence[b, own[1:3]] = True
    layout = Layout(("question", "answer"), region_of, evidence)
    probes = ["answer_rows", "received", "qk", "entropy"]
    with capture(model, probes, layout=layout, steps=canvas.max_steps, length=canvas.length) as recorder:
        for step in decode_steps(model, prompts, **settings):
            recorder.commit(step)
    return recorder, columns


def test_only_the_chosen_steps_and_heads_are_told(tiny_model: Callable[[str], LanguageModel]) -> None:
    """Tokens of other steps stay in the list, with -1 and NaN where nobody looked."""
    settings: dict[str, Any] = {"prompt_ids": [5, 6, 7, 8], "gen_length": 6, "steps": 6, "probes": ["answer_rows"]}
    whole = trace(tiny_model("llada"), **settings).data
    some = trace(tiny_model("llada"), **settings, select=Select(layers=[0, 2], heads=[1, 3], steps=[1, 4])).data
    assert some["answer_argmax"].shape == (6, 2, 2)
    assert some["layer"].values.tolist() == [0, 2]
    assert some["head"].values.tolist() == [1, 3]
    assert some["step"].values.tolist() == [1, 4]
    assert (some["sequence"].values == whole["sequence"].values[[1, 4]]).all()
    told = np.isin(some["token_step"].values, [1, 4])
    assert told.sum() == 2
    for name, blank in {"answer_argmax": -1, "answer_peak": np.nan}.items():
        assert np.array_equal(some[name].values[told], whole[name].values[told][:, [0, 2]][:, :, [1, 3]])
        assert np.array_equal(some[name].values[~told], np.full((4, 2, 2), blank), equal_nan=blank is np.nan)


def test_the_unobserved_pass_of_guidance_is_not_looked_at(
    tiny_model: Callable[[str], LanguageModel], draw: Callable[..., Tensor]
) -> None:
    model, ids = tiny_model("llada"), draw(1, 6)
    with capture(model, ["received"]) as recorder:
        model.forward(ids)
        model.forward(ids.flip(1), observed=False)
        model.forward(ids.flip(1))
    assert recorder.steps == [0, 1]
    assert recorder.passes == 2
