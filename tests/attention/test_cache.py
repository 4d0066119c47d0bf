"""Autoregressive steps with a key/value cache: every number of every step is that of a full pass over what stands."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from floatlens import Select, trace
from floatlens.attention.probe import Layout
from floatlens.attention.recorder import Recorder
from floatlens.attention.softmax import Workspace
from floatlens.models.base import LanguageModel
from floatlens.probes import QK, Matrix
from shared.capture import capture

PER_STEP = ("received", "received_committed", "received_answer", "entropy", "flow", "question_flow")
PER_STEP += ("qk_dot", "qk_cos", "qk_norm", "key_norm", "query_norm", "value_norm", "residual_norm")


def all_probes() -> list[Any]:
    return ["received", "entropy", "flow", "answer_rows", "rollout", "extremes", QK(heatmaps=Select()), Matrix()]


def same(a: np.ndarray, b: np.ndarray, what: str, close: float = 1e-5) -> None:
    assert a.shape == b.shape, what
    if a.dtype.kind != "f":
        assert (a == b).all(), what
        return
    assert (np.isnan(a) == np.isnan(b)).all(), f"{what}: NaN in different places"
    scale = max(1.0, float(np.abs(np.nan_to_num(a)).max(initial=0)))
    assert np.abs(np.nan_to_num(a - b)).max(initial=0) <= close * scale, what


@pytest.mark.parametrize("prompt", [[5, 9, 12, 33, 21, 8, 30], [5]], ids=["seven", "one"])
def test_cached_and_uncached_traces_agree(
    arm_name: str, prompt: list[int], tiny_model: Callable[[str], LanguageModel]
) -> None:
    model = tiny_model(arm_name)
    cached, full = (
        trace(model, prompt_ids=prompt, probes=all_probes(), gen_length=5, use_cache=use).data for use in (True, False)
    )
    assert set(cached.data_vars) == set(full.data_vars)
    assert {"matrix", "qk_matrix", "answer_peak", *PER_STEP} <= set(cached.data_vars)
    for name in cached.data_vars:
        same(cached[name].values, full[name].values, str(name))


def test_every_step_is_a_full_pass(
    arm_name: str, tiny_model: Callable[[str], LanguageModel], observe: Callable[..., Any]
) -> None:
    """The witness looks at each prefix anew; regions are question and answer."""
    model = tiny_model(arm_name)
    data = trace(model, prompt_ids=[5, 9, 12, 33, 21], probes=all_probes(), gen_length=4).data
    final = data["final"].values
    assert len(final) == 9
    for step in range(4):
        length = 5 + step
        assert data["sequence"].values[step].tolist() == [*final[:length], *[-1] * (9 - length)]
        observed = observe(model, torch.from_numpy(final[:length].astype(np.int64))[None])
        for layer, seen in enumerate(observed.layers):
            expected = by_hand(seen, length)
            for name, values in expected.items():
                got = data[name].values[step, layer]
                if data[name].dims[-1] in ("key", "query"):
                    assert np.isnan(got[..., length:]).all(), name
                    got = got[..., :length]
                same(got, values, f"{name} at step {step}")
            future = np.triu(np.ones((length, length), dtype=bool), 1)
            for name, whole in {
                "matrix": seen.weights[0],
                "qk_matrix": seen.query[0] @ seen.keys[0].swapaxes(1, 2),
            }.items():
                got = data[name].values[step, layer]
                assert np.isnan(got[:, length:]).all()
                assert np.isnan(got[:, :, length:]).all()
                same(got[:, :length, :length], np.where(future, np.nan, whole), name)


def by_hand(seen: Any, length: int) -> dict[str, np.ndarray]:
    """The first 5 positions are "question", the rest "answer", of the regions bos, question, answer, template."""
    weights, visible = seen.weights[0], seen.visible[0]
    answer = range(5, length)
    spans = {1: range(5), 2: answer}
    flow = np.full((4, 4), np.nan)
    question = np.zeros((len(weights), 4))
    for r, rows in spans.items():
        for c, keys in spans.items():
            mass = np.array([[weights[h][i, list(keys)].sum() for i in rows] for h in range(len(weights))])
            if len(rows):
                flow[r, [0, 3]] = 0
                flow[r, c] = mass.mean()
            if r == 1:
                question[:, c] = mass.mean(1)
    dots = seen.query[0] @ seen.keys[0].swapaxes(1, 2)
    norms = np.linalg.norm(seen.query[0], axis=-1)[:, :, None] * np.linalg.norm(seen.keys[0], axis=-1)[:, None]

    def column_mean(whole: np.ndarray) -> np.ndarray:
        return np.stack([[m[visible[:, j], j].mean() for j in range(length)] for m in whole])

    return {
        "received": weights.mean(1),
        "received_committed": weights.mean(1),
        "received_answer": weights[:, list(answer)].mean(1) if answer else np.full(weights.shape[::2], np.nan),
        "entropy": np.array([[-sum(p * math.log(p) for p in row if p > 0) for row in head] for head in weights]),
        "flow": flow,
        "question_flow": question,
        "qk_dot": column_mean(dots),
        "qk_cos": column_mean(dots / norms),
        "qk_norm": column_mean(norms),
        "key_norm": np.linalg.norm(seen.key[0], axis=-1),
        "query_norm": np.linalg.norm(seen.query[0], axis=-1),
        "value_norm": np.linalg.norm(seen.value[0], axis=-1),
    }


@pytest.mark.parametrize("side", [None, "left"])
@pytest.mark.parametrize("pieces", [(4, 3, 1, 2), (1, 1, 8), (10,)], ids=str)
@pytest.mark.parametrize("name", ["llama", "mistral", "gpt2"])
def test_pieces_of_any_size(
    name: str,
    pieces: tuple[int, ...],
    side: str | None,
    tiny_model: Callable[[str], LanguageModel],
    draw: Callable[..., Tensor],
    padded: Callable[..., Tensor],
    blocks: Callable[..., Workspace],
) -> None:
    """Several tokens at once after a cache, in a padded batch: the last piece leaves what one pass over all would."""
    model, ids = tiny_model(name), draw(2, 10)
    mask = torch.ones_like(ids, dtype=torch.bool) if side is None else padded(10, [0, 3], side)
    region_of = np.where(mask.numpy(), np.arange(10) // 4, -1)
    layout = Layout(("bos", "question", "answer"), region_of)

    def run(sizes: tuple[int, ...]) -> tuple[Recorder, Tensor, list[Any]]:
        probes = all_probes()
        with capture(model, probes, layout=layout, steps=9, length=10, workspace=blocks(3, 1)) as recorder:
            cache, start, logits = model.new_cache(), 0, []
            for size in sizes:
                stop = start + size
                given = None if side is None else mask[:, :stop]
                logits.append(model.forward(ids[:, start:stop], given, cache=cache))
                start = stop
        pictures = [probe.taken[len(sizes) - 1, 2] for probe in probes if not isinstance(probe, str)]
        return recorder, torch.cat(logits, 1), pictures

    whole, all_logits, pictures = run((10,))
    parts, logits, parted = run(pieces)
    assert (logits - all_logits)[mask].abs().max() <= 1e-5
    assert parts.lengths == [sum(pieces[: i + 1]) for i in range(len(pieces))]
    for variable in PER_STEP:
        a, b = parts.variables[variable].stack()[-1], whole.variables[variable].stack()[-1]
        same(a, b, variable)
    for a, b in zip(parted, pictures, strict=True):
        same(a, b, "picture")


def test_a_new_sequence_starts_anew(tiny_model: Callable[[str], LanguageModel], draw: Callable[..., Tensor]) -> None:
    """Nothing of an earlier cached run may be added to a later one under the same capture."""
    model = tiny_model("llama")
    first, second = draw(1, 7, seed=1), draw(1, 7, seed=2)
    with capture(model, PROBES, length=7) as recorder:
        for ids in (first, second):
            cache = model.new_cache()
            model.forward(ids[:, :5], cache=cache)
            model.forward(ids[:, 5:], cache=cache)
    with capture(model, PROBES, length=7) as alone:
        model.forward(second)
    assert recorder.passes == 4
    for name in PER_STEP:
        same(recorder.variables[name].stack()[3], alone.variables[name].stack()[0], name)


PROBES = ("received", "entropy", "flow", "qk", "extremes")


def test_chosen_steps_of_a_cached_run(tiny_model: Callable[[str], LanguageModel]) -> None:
    """Steps that are not kept still count for those that are."""
    model = tiny_model("qwen2")
    settings: dict[str, Any] = {"prompt_ids": [5, 9, 12], "gen_length": 6, "probes": PROBES}
    whole = trace(model, **settings).data
    some = trace(model, **settings, select=Select(steps=[2, 5])).data
    assert some["step"].values.tolist() == [2, 5]
    for name in PER_STEP:
        assert np.array_equal(some[name].values, whole[name].values[[2, 5]], equal_nan=True), name


def test_a_run_that_ends_early_keeps_what_it_reached(
    tiny_model: Callable[[str], LanguageModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tiny_model("llama")
    written = trace(model, prompt_ids=[5, 9, 12], gen_length=6, probes=["received"]).data["final"].values[3:]
    stop = next(i for i in range(1, 6) if written[i] not in written[:i])
    monkeypatch.setattr(model, "eos_ids", (int(written[stop]),))
    probes: list[Any] = ["received", Matrix(Select(steps=[0, -1]))]
    data = trace(model, prompt_ids=[5, 9, 12], gen_length=6, probes=probes, select=Select(steps=[0, stop, -1])).data
    assert data["final"].values.tolist() == [5, 9, 12, *written[: stop + 1]]
    assert data["step"].values.tolist() == [0, stop]
    assert data["matrix_step"].values.tolist() == [0]
    assert data["received"].shape == (2, 3, 4, 4 + stop)
    assert data.attrs["decoding"]["answer_ids"] == written[:stop].tolist()
